"""Which pairs of parts are played in which scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from coopbandits.core.aggregate import CentralTotals
from coopbandits.core.errors import InputError
from coopbandits.core.policy import fits
from coopbandits.core.registry import AGGREGATIONS, INDICES, parse_aggregation, parse_index
from coopbandits.experiments.suite import SCENARIOS, Plan, make_plan, plays_fast
from coopbandits.sim import Cell

EVERY_AGGREGATION = (*(part().spelling for part in AGGREGATIONS), CentralTotals().spelling)
"""Central totals are included as a yardstick: what an index is worth with full information."""

EVERY_INDEX = tuple(part().spelling for part in INDICES)

RUNS = 5
"""Fewer than on the leaderboard: there are five times as many policies."""


@dataclass(frozen=True)
class Matrix(Plan):
    """A plan whose policies are all pairs of these parts, plus the yardsticks."""

    aggregations: tuple[str, ...]
    indices: tuple[str, ...]

    @cached_property
    def pairs(self) -> dict[str, tuple[str, str]]:
        """Aggregation and index of every pair that fits, by the pair's spelling."""
        return {f"{a}*{i}": (a, i) for a, i in _fitting(self.aggregations, self.indices)}

    def common_cells(self) -> dict[tuple[str, str], Cell]:
        """Return nothing: constants are settings of an index, and indices are what is compared."""
        return {}

    def takes(self, cell: Cell) -> bool:
        """Return whether a fast engine plays a cell, and its rewards suit the index."""
        low, high = cell.policy.support
        least, most = cell.setup.tables.bounds or (low, high)
        return low <= least <= most <= high and plays_fast(cell)


def make_matrix(
    scenarios: Sequence[str] = (),
    runs: int = RUNS,
    seed: int = 0,
    horizon: int | None = None,
    aggregations: Sequence[str] = EVERY_AGGREGATION,
    indices: Sequence[str] = EVERY_INDEX,
) -> Matrix:
    """Choose from the suite, as `make_plan` does, and from the parts.

    Unless they are named, worlds are left out: there nobody's pair is better than what it knows.
    Indices look at no features, so scenarios that have some are refused.
    """
    scenarios = scenarios or [
        one.name for one in SCENARIOS if not one.is_world and not one.in_context
    ]
    pairs = [f"{aggregation}*{index}" for aggregation, index in _fitting(aggregations, indices)]
    if not pairs:
        raise InputError(
            f"none of the indices {', '.join(indices)} fits any of the aggregations "
            f"{', '.join(aggregations)}; add an index such as ucb and an aggregation"
        )
    plan = make_plan(scenarios, pairs, runs, seed, horizon)
    for scenario in plan.scenarios:
        if scenario.in_context:
            raise InputError(
                f"scenario {scenario.name} has features, at which no index of a matrix looks; "
                "leave it out, or leave out --matrix"
            )
    return Matrix(
        plan.scenarios, plan.policies, plan.runs, plan.seed, tuple(aggregations), tuple(indices)
    )


def _fitting(aggregations: Sequence[str], indices: Sequence[str]) -> list[tuple[str, str]]:
    return [
        (aggregation, index)
        for aggregation in aggregations
        for index in indices
        if fits(parse_aggregation(aggregation), parse_index(index))
    ]
