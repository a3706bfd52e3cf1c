"""The one exception that means: the input was wrong, and here is what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class InputError(ValueError):
    """Input that cannot be used; the message is one sentence and nothing was changed."""


class IndexFailedError(InputError):
    """A custom index raised an exception, returned NaN, or picked an arm that it must not play."""


class AggregationFailedError(InputError):
    """A function of a custom aggregation raised, or wrote what it must not.

    Attributes
    ----------
    agent : int
        The agent whose function it was.
    """

    def __init__(self, agent: int, sentence: str) -> None:
        super().__init__(sentence)
        self.agent = agent


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """Build the error for a name that is not known, with the nearest known ones."""
    from difflib import get_close_matches  # here, as everything imports this module

    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else "choose one of these."
    return InputError(f"unknown {kind} {name!r}; known are {', '.join(names)}; {hint}")
