"""When agents could have stopped: the rule, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coopbandits.core.checks import require_number
from coopbandits.core.errors import InputError
from coopbandits.core.recommend import CONFIDENCE, require_confidence
from coopbandits.core.spelling import spell


@dataclass(frozen=True)
class Stop:
    """Stop as soon as an agent knows the best arm, or one nearly as good.

    Parameters
    ----------
    confidence : float
        With which probability an agent shall be right.
    within : float
        How far the mean of what it recommends may be below the best one.
    """

    confidence: float = CONFIDENCE
    within: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        require_confidence(self.confidence)
        require_number("within", self.within, "a number from 0 on", -1e-300, float("inf"))

    @property
    def spelling(self) -> str:
        """As on the command line: ``0.95``, or ``0.95,within=0.1``."""
        within = f",within={spell(self.within)}" if self.within else ""
        return spell(self.confidence) + within


def read_stop(given: Any) -> Stop | None:
    """Return a rule that may be given as a confidence or as text; None for none."""
    if given is None or given == "none":
        return None
    if isinstance(given, Stop):
        return given
    if not isinstance(given, str):
        return Stop(given)
    confidence, comma, rest = given.partition(",")
    name, equals, within = rest.partition("=")
    try:
        if comma and (name.strip(), equals) != ("within", "="):
            raise ValueError
        return Stop(float(confidence), float(within) if comma else 0.0)
    except ValueError:
        raise InputError(
            f"stop is {given!r}; give a confidence such as 0.95, or 0.95,within=0.1"
        ) from None
