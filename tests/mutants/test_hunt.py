"""The list of mutants fits the source, and one of them is found; ``make mutants`` hunts all."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import hunt as hunting
from .bugs import MUTANTS, Mutant
from .hunt import SOURCE, MismatchError, hunt, main, mutate, mutated


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_fits_the_source_and_compiles(mutant: Mutant) -> None:
    assert mutated(mutant) != (SOURCE / "coopbandits" / mutant.file).read_text()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"text": "no such text"}, r"0 places in .* match"),
        ({"replacement": MUTANTS[0].text}, "replacement equals the text"),
        ({"replacement": "        if (:\n"}, r"replica\.py does not compile.*invalid syntax"),
        ({"replacement": "\0"}, "does not compile.*null byte"),
    ],
)
def test_a_mutant_that_does_not_fit_is_not_hunted(
    changes: dict[str, str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = MUTANTS[0]._replace(**changes)  # type: ignore[arg-type]
    with pytest.raises(MismatchError, match=sentence):
        mutate(broken, tmp_path)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(hunting, "MUTANTS", (MUTANTS[1], broken))
    monkeypatch.setattr(hunting, "hunt", lambda mutant: pytest.fail(f"hunts {mutant.name}"))
    assert main([]) == 2


@pytest.mark.plays
def test_a_mutant_is_found() -> None:
    find = hunt(next(mutant for mutant in MUTANTS if "duplicate" in mutant.name), limit=20)
    assert find.seed is not None
    assert "open tickets" in find.violation


@pytest.mark.slow
@pytest.mark.plays
def test_a_mutant_that_breaks_nothing_is_not_found() -> None:
    harmless = MUTANTS[0]._replace(replacement=MUTANTS[0].text + "  # as before")
    assert hunt(harmless, limit=3).seed is None
