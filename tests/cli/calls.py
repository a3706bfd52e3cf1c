"""What calling the command line gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


Call = Callable[..., Outcome]


def refused(outcome: Outcome) -> str:
    """Return the error after checking that it is one line, on the right stream, with status 2."""
    assert outcome.status == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    message = outcome.err.strip()
    assert message.startswith("error: ")
    assert "\n" not in message
    return message
