"""What calling the command line gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


Call = Callable[..., Outcome]


def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let output be wide and without colours."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)


def caller(
    main: Callable[[Sequence[str]], int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Call:
    """Return a function that calls a main function with words, in this process."""
    plain_terminal(monkeypatch)
    return lambda *words: Outcome(main(words), *capsys.readouterr())


def refused(outcome: Outcome) -> str:
    """Return the error after checking that it is one line, on the right stream, with status 2."""
    assert outcome.status == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    message = outcome.err.strip()
    assert message.startswith("error: ")
    assert "\n" not in message
    return message
