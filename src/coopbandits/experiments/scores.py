"""Scores: the regret of every policy relative to a yardstick's on the same tapes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coopbandits.core.errors import InputError
from coopbandits.experiments.suite import Plan, Scenario
from coopbandits.results import Result
from coopbandits.results.statistics import QUANTILES, ratio_interval, t_interval
from coopbandits.sim import Cell

HIGH = QUANTILES[-1]


@dataclass(frozen=True)
class Score:
    """One policy in one scenario.

    Attributes
    ----------
    policy, played : str
        Its spelling in the suite, and as it was played, with the family that fits the rewards.
    decentralised : bool
        Whether agents choose for themselves.
    bonus_constant : float or None
        B of its bonus sqrt(B σ² ln t / n); None where it has no such bonus.
    mean, interval, quantile
        Of the final regret: mean over runs, 95 % interval of the mean, 95 % quantile of runs.
    values : float
        Values sent per agent and round.
    score, score_interval
        The mean relative to the yardstick's, and its 95 % interval.
    rank : int
        1 for the smallest mean of the scenario.
    worst_agent : float
        Mean over runs of the worst agent's final regret.
    blind : bool
        Whether arms have features at which the policy does not look.
    common : float
        The score at the bonus constant that is the same for all; NaN where there is no bonus.
    """

    scenario: str
    policy: str
    played: str
    decentralised: bool
    bonus_constant: float | None
    mean: float
    interval: tuple[float, float]
    quantile: float
    values: float
    score: float
    score_interval: tuple[float, float]
    rank: int
    worst_agent: float = math.nan
    blind: bool = False
    common: float = math.nan


@dataclass(frozen=True)
class Standing:
    """One policy over all scenarios.

    `score` and `quantile` are geometric means over scenarios of the mean and of the 95 % quantile
    of its runs, relative to the yardstick's mean; `worst` is the largest score; `mean_rank` and
    `values` are plain means; `rank` is by `score`; `blind` is as in `Score`, `common`
    a geometric mean.
    """

    policy: str
    decentralised: bool
    bonus_constant: float | None
    score: float
    worst: float
    quantile: float
    mean_rank: float
    values: float
    rank: int
    blind: bool = False
    common: float = math.nan


def score(plan: Plan, results: Sequence[tuple[Cell, Result]]) -> list[Score]:
    """Score every policy in every scenario, in the plan's order."""
    found = {cell.id: result for cell, result in results}
    planned, common = plan.cells().items(), plan.common_cells().items()
    rows: list[Score] = []
    for scenario in plan.scenarios:
        cells = {policy: cell for (name, policy), cell in planned if name == scenario.name}
        of_policies = {policy: found[cell.id] for policy, cell in cells.items()}
        at_common = {
            policy: float(found[cell.id].regret.values[0, :, -1].mean())
            for (name, policy), cell in common
            if name == scenario.name
        }
        rows += _score(scenario, cells, of_policies, at_common)
    return rows


def _score(
    scenario: Scenario,
    cells: Mapping[str, Cell],
    results: Mapping[str, Result],
    common: Mapping[str, float],
) -> Iterator[Score]:
    """Score the policies of one scenario; `common` has mean regrets at the common constant."""
    regrets = {policy: result.regret.values[0, :, -1] for policy, result in results.items()}
    means = {policy: float(regret.mean()) for policy, regret in regrets.items()}
    unit = scenario.yardstick
    if means[unit] == 0.0:
        raise InputError(
            f"{unit} has no regret in scenario {scenario.name}, so nothing can be measured by it; "
            "take more runs or a longer horizon"
        )
    for policy, cell in cells.items():
        yield Score(
            scenario=scenario.name,
            policy=policy,
            played=cell.policy.suited(cell.setup.family).spelling,
            decentralised=not cell.policy.central,
            bonus_constant=cell.policy.bonus_constant,
            mean=means[policy],
            interval=t_interval(regrets[policy]),
            quantile=float(np.quantile(regrets[policy], HIGH)),
            worst_agent=float(results[policy].final_worst.mean()),
            values=_values(cell, results[policy]),
            score=means[policy] / means[unit],
            score_interval=ratio_interval(regrets[policy], regrets[unit]),
            rank=_rank(means[policy], means.values()),
            blind=cell.problem.num_features > 0 and not cell.policy.takes_context,
            common=common.get(policy, math.nan) / means[unit],
        )


def _values(cell: Cell, result: Result) -> float:
    return float(result.values_sent.mean()) / (cell.network.num_agents * cell.horizon)


def _rank(value: float, values: Iterable[float]) -> int:
    return 1 + sum(other < value for other in values)


def standings(scores: Sequence[Score], yardstick: str) -> list[Standing]:
    """Average every policy over the scenarios of one yardstick, best first."""
    units = {row.scenario: row.mean for row in scores if row.policy == yardstick}
    groups: dict[str, list[Score]] = {}
    for row in scores:
        groups.setdefault(row.policy, []).append(row)
    totals = {policy: geometric_mean([r.score for r in rows]) for policy, rows in groups.items()}
    found = [
        Standing(
            policy=policy,
            decentralised=rows[0].decentralised,
            bonus_constant=rows[0].bonus_constant,
            score=totals[policy],
            worst=max(row.score for row in rows),
            quantile=geometric_mean([row.quantile / units[row.scenario] for row in rows]),
            mean_rank=float(np.mean([row.rank for row in rows])),
            values=float(np.mean([row.values for row in rows])),
            rank=_rank(totals[policy], totals.values()),
            blind=rows[0].blind,
            common=geometric_mean([row.common for row in rows]),
        )
        for policy, rows in groups.items()
    ]
    return sorted(found, key=lambda standing: standing.rank)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean; 0 if a value is 0."""
    if min(values) == 0.0:
        return 0.0
    return math.exp(sum(math.log(value) for value in values) / len(values))
