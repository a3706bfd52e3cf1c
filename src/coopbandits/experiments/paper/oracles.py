"""Final regrets from an independent simulation, and the comparison with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coopbandits.core.errors import InputError
from coopbandits.experiments.paper.play import Played
from coopbandits.experiments.paper.settings import LINES, Line
from coopbandits.results.intervals import standard_error
from coopbandits.results.statistics import columns, number

MOST_ERRORS = 4.0
"""Two means agree up to this many combined standard errors."""

ORACLE_LINES = (*LINES, Line("bonus 4η", "DDUCB, bonus 4η", "dducb:bonus_factor=4", 2))

Oracle = Mapping[str, Mapping[str, tuple[float, float]]]

_ANY_GRAPH = {"central": (4365, 43), "central-ts": (1214, 25), "independent": (129576, 175)}

ORACLE: Oracle = {
    "cycle-100": {
        "dducb": (13011, 443),
        "bonus 4η": (31963, 442),
        "unaccelerated": (11059, 215),
        "plain": (66454, 1487),
        "coop-ucb 2": (33881, 58),
        "coop-ucb 1.01": (24160, 61),
        "coop-ucb2": (2227, 23),
        "dec-ts": (1371, 34),
        **_ANY_GRAPH,
    },
    "grid-100": {
        "dducb": (11587, 166),
        "bonus 4η": (16173, 285),
        "unaccelerated": (8067, 122),
        "plain": (27615, 170),
        "coop-ucb 2": (16530, 53),
        "coop-ucb 1.01": (11581, 41),
        "coop-ucb2": (2282, 28),
        "dec-ts": (1200, 22),
        **_ANY_GRAPH,
    },
}
"""Figure → line → mean and standard error of 40 runs of the paper's 10 000 rounds."""


class Agreement(NamedTuple):
    """One line's mean and standard error beside those of the oracle."""

    figure: str
    label: str
    ours: tuple[float, float]
    oracle: tuple[float, float]

    @property
    def distance(self) -> float:
        """Distance between the means, in combined standard errors."""
        return (self.ours[0] - self.oracle[0]) / math.hypot(self.ours[1], self.oracle[1])

    @property
    def agrees(self) -> bool:
        """Whether the distance is within tolerance."""
        return abs(self.distance) <= MOST_ERRORS


def oracle_lines(figure: str, oracle: Oracle) -> tuple[Line, ...]:
    """Return the lines of a figure that the oracle covers."""
    return tuple(line for line in ORACLE_LINES if line.key in oracle.get(figure, {}))


def require_oracle(figures: Sequence[str], runs: int, oracle: Oracle) -> None:
    """Refuse a check that would be empty."""
    if not any(name in oracle for name in figures):
        raise InputError(
            f"there is nothing to check {', '.join(figures)} against; "
            f"the known numbers are those of {' and '.join(oracle)}"
        )
    if runs < 2:
        raise InputError(f"runs is {runs}; a check needs at least 2 to know its own error")


def compare_with_oracle(played: Sequence[Played], oracle: Oracle) -> list[Agreement]:
    """Compare everything the oracle covers with what was played."""
    return [
        Agreement(one.figure.name, line.label, _mean_and_error(one, line), known[line.key])
        for one in played
        for known in [oracle.get(one.figure.name, {})]
        for line in one.lines
        if line.key in known
    ]


def _mean_and_error(one: Played, line: Line) -> tuple[float, float]:
    regret = one.regret(line.key)
    return float(regret.mean()), standard_error(regret)


HEADER = ("figure", "policy", "ours ± se", "oracle ± se", "distance", "")


def agreement_row(row: Agreement) -> tuple[str, ...]:
    """Return the cells of one line of the table."""
    ours, oracle = (f"{number(mean)} ± {number(error)}" for mean, error in (row.ours, row.oracle))
    word = "ok" if row.agrees else "differs"
    return (row.figure, row.label, ours, oracle, f"{row.distance:+.1f} se", word)


def agreement_table(rows: Sequence[Agreement]) -> str:
    """Return the table as text, with how many of its rows agree."""
    lines = columns([HEADER, *map(agreement_row, rows)], left=(0, 1, 5))
    return "\n".join([summary(rows), "", *lines])


def summary(rows: Sequence[Agreement]) -> str:
    """Say how many numbers agree."""
    agree = sum(row.agrees for row in rows)
    return (
        f"{agree} of {len(rows)} final regrets agree with an independent simulation "
        f"(within {MOST_ERRORS:g} standard errors)"
    )
