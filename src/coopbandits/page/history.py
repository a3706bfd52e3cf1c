"""The past of a fleet, in bounded memory: about one point a second at first, then fewer."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Any

Row = Sequence[float | None] | None

POINTS = 600
CELLS = 12_000
"""Numbers kept per curve; with many options there are fewer points."""

PER_ARM = ("share", "mean", "low", "high")
SINGLE = ("pulls_per_second", "disagree")


def rounded(value: float | None) -> float | None:
    """Return a number with four significant digits; None for what JSON cannot tell."""
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None


class History:
    """Curves of the whole; when they are full, every other point goes, and the rest lie apart.

    Parameters
    ----------
    num_arms : int
        How many options there are.
    """

    def __init__(self, num_arms: int) -> None:
        self.most = max(60, min(POINTS, CELLS // max(1, num_arms)))
        self.step = 1.0
        self.times: list[float] = []
        self._rows: list[array[float]] = []
        self.num_arms = num_arms

    def is_due(self, now: float) -> bool:
        """Return whether it is time for another point."""
        return not self.times or now - self.times[-1] >= self.step or now < self.times[-1]

    def add(self, now: float, all_: dict[str, Any]) -> None:
        """Add a point."""
        row = array("f")
        for key in PER_ARM:
            values: Row = all_.get(key)
            row.extend(_number(value) for value in values or [None] * self.num_arms)
        row.extend(_number(all_.get(key)) for key in SINGLE)
        if self.times and now < self.times[-1]:  # the clock was set back
            self.times, self._rows = [], []
        self.times.append(round(now, 3))
        self._rows.append(row)
        if len(self.times) >= self.most:
            self.times, self._rows = self.times[::2], self._rows[::2]
            self.step *= 2

    def export(self) -> dict[str, Any]:
        """Return all curves as plain data."""
        told: dict[str, Any] = {"t": self.times}
        for at, key in enumerate(PER_ARM):
            part = slice(at * self.num_arms, (at + 1) * self.num_arms)
            told[key] = [_plain(row[part]) for row in self._rows]
        for at, key in enumerate(SINGLE, len(PER_ARM) * self.num_arms):
            told[key] = [rounded(row[at]) for row in self._rows]
        return told


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _plain(values: Sequence[float]) -> list[float | None] | None:
    found = [rounded(value) for value in values]
    return None if all(value is None for value in found) else found
