"""The list of mutants fits the source, and one of them is found; ``make mutants`` hunts all."""

from __future__ import annotations

from pathlib import Path

import pytest

from .bugs import MUTANTS, Mutant
from .hunt import SOURCE, MismatchError, hunt, mutate


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_fits_the_source(mutant: Mutant) -> None:
    assert (SOURCE / "coopbandits" / mutant.file).read_text().count(mutant.text) == 1


def test_a_text_that_no_longer_matches_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MismatchError, match=r"0 places in .* match"):
        mutate(MUTANTS[0]._replace(text="no such text"), tmp_path)


@pytest.mark.plays
def test_a_mutant_is_found() -> None:
    find = hunt(next(mutant for mutant in MUTANTS if "duplicate" in mutant.name), limit=20)
    assert find.seed is not None
    assert "twice" in find.violation


@pytest.mark.slow
@pytest.mark.plays
def test_a_mutant_that_breaks_nothing_is_not_found() -> None:
    harmless = MUTANTS[0]._replace(replacement=MUTANTS[0].text + "  # as before")
    assert hunt(harmless, limit=3).seed is None
