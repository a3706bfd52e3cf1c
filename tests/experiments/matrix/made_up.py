"""Scores that were never played."""

from __future__ import annotations

from collections.abc import Callable

from coopbandits.core.aggregate import CentralTotals
from coopbandits.experiments.matrix import Matrix
from coopbandits.experiments.scores import Score


def made_up(plan: Matrix, score_of: Callable[[str, str, str], float | None]) -> list[Score]:
    """Score every pair by a function of scenario, aggregation and index; None leaves it out."""
    return [
        Score(
            scenario=scenario.name, policy=policy, played=policy,
            decentralised=pair[0] != CentralTotals.name, bonus_constant=None, mean=found,
            interval=(found, found), quantile=found,
            values=0.0 if pair[0] in ("local-sums", CentralTotals.name) else 34.0,
            score=found, score_interval=(found, found), rank=1,
        )
        for scenario in plan.scenarios
        for policy, pair in plan.pairs.items()
        if (found := score_of(scenario.name, *pair)) is not None
    ]  # fmt: skip
