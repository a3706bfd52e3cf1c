"""From numbers to *holds*, *does not hold* or *depends*.

A claim is judged on every figure separately: confirmed (True), contradicted (False) or open (None).
A difference counts if its paired test is significant at 5 %, adjusted for the number of
differences of the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.experiments.paper.play import Played
from coopbandits.results.intervals import LEVEL, Interval, compare, mean_interval, subtract
from coopbandits.results.statistics import with_interval

HOLDS, FAILS, DEPENDS = "holds", "does not hold", "depends"
SMALLEST_P = 0.001
"""Smaller p-values are written as ``p < …``."""


class Outcome(NamedTuple):
    """The verdict of one figure on a claim, and the numbers behind it."""

    figure: str
    confirmed: bool | None
    evidence: str


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and its outcome on every figure."""

    text: str
    where: str
    outcomes: tuple[Outcome, ...]

    @property
    def verdict(self) -> str:
        """The outcomes in one word."""
        return verdict(outcome.confirmed for outcome in self.outcomes)


def verdict(confirmed: Iterable[bool | None]) -> str:
    """Return *holds* if confirmed everywhere, *does not hold* if nowhere, else *depends*."""
    found = set(confirmed)
    if found == {True}:
        return HOLDS
    return FAILS if found == {False} else DEPENDS


def all_of(confirmed: Iterable[bool | None]) -> bool | None:
    """Return whether all are confirmed: False if any is contradicted, else None if any is open."""
    found = set(confirmed)
    if False in found:
        return False
    return None if None in found else True


class Difference(NamedTuple):
    """Two lines of one figure, compared run by run; interval and p-value are adjusted."""

    figure: str
    first: str
    second: str
    sample: Vector
    interval: Interval
    p_value: float

    @property
    def lower(self) -> bool | None:
        """Whether the first is lower; None if the difference is not significant."""
        return float(self.sample.mean()) < 0 if self.p_value < 1 - LEVEL else None

    def __str__(self) -> str:
        mean = with_interval(float(self.sample.mean()), self.interval)
        return f"{mean}{_chance(self.p_value)}"


def _chance(p: float) -> str:
    if math.isnan(p):
        return ""
    return f" (p = {p:.2g})" if p >= SMALLEST_P else f" (p < {SMALLEST_P:g})"


def differences(
    played: Sequence[Played],
    pairs: Sequence[tuple[str, str]],
    measure: Callable[[Played, str], Vector] = Played.regret,
) -> list[Difference]:
    """Compare pairs of lines on every figure, adjusted for the number of all of them."""
    wanted = [(one, first, second) for one in played for first, second in pairs]
    samples = [subtract(measure(one, first), measure(one, second)) for one, first, second in wanted]
    return [
        Difference(one.figure.name, first, second, sample, *found)
        for (one, first, second), sample, found in zip(
            wanted, samples, compare(np.array(samples)), strict=True
        )
    ]


def lower_everywhere(
    played: Sequence[Played],
    pairs: Sequence[tuple[str, str]],
    measure: Callable[[Played, str], Vector] = Played.regret,
) -> tuple[Outcome, ...]:
    """Judge on every figure whether the first of each pair is lower; show the worst pair."""
    compared = differences(played, pairs, measure)
    return tuple(
        _worst(one, [pair for pair in compared if pair.figure == one.figure.name]) for one in played
    )


def _worst(one: Played, compared: Sequence[Difference]) -> Outcome:
    worst = max(compared, key=lambda pair: float(pair.sample.mean()))
    labels = {line.key: line.label for line in one.lines}
    names = f"{labels[worst.first]} − {labels[worst.second]}"
    confirmed = all_of(pair.lower for pair in compared)
    return Outcome(one.figure.name, confirmed, f"{names} = {worst}")


def at_most(sample: Vector, limit: float) -> bool | None:
    """Return whether a mean is at most `limit`; None if its interval contains the limit."""
    low, high = mean_interval(sample)
    if math.isnan(low) or low <= limit < high:
        return None
    return high <= limit
