"""Scores: what they are made of, recomputed from `simulate`, and how they are summed up."""

from __future__ import annotations

import dataclasses
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from coopbandits import InputError, Network, Result, simulate
from coopbandits.experiments.scores import Score, geometric_mean, score, standings
from coopbandits.experiments.suite import YARDSTICK, Plan, make_plan, matched
from coopbandits.problems import make_problem
from coopbandits.results.intervals import mean_interval, ratio_interval
from coopbandits.sim import Sweep, sweep

PLAN = make_plan(
    ["few-agents", "fair-coins"],
    ["dducb", "dec-ts", "independent-ucb", "central-ucb"],
    runs=3,
    seed=4,
    horizon=60,
)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    with ThreadPoolExecutor(1) as executor:
        cells = [*PLAN.cells().values(), *PLAN.common_cells().values()]
        return sweep(cells, tmp_path_factory.mktemp("ledger"), executor)


@pytest.fixture(scope="module")
def scores(played: Sweep) -> list[Score]:
    return score(PLAN, played.results)


def test_scores_are_those_of_one_simulation_of_all(scores: list[Score]) -> None:
    assert [(row.scenario, row.policy) for row in scores] == [
        (scenario.name, policy) for scenario in PLAN.scenarios for policy in PLAN.policies
    ]
    for scenario in PLAN.scenarios:
        problem = make_problem(scenario.name, scenario.problem)
        network = Network.from_spec(scenario.graph)
        policies = [matched(policy, problem) for policy in PLAN.policies]
        result = simulate(problem, network, policies, 60, 3, 4, shuffle_arms=True)
        regret = result.regret.values[:, :, -1]
        unit = regret[PLAN.policies.index(YARDSTICK)]
        sent = result.values_sent.mean("run").values / (network.num_agents * 60)
        rows = [row for row in scores if row.scenario == scenario.name]
        for i, row in enumerate(rows):
            assert row.played == policies[i].suited(problem.family).spelling
            assert row.mean == regret[i].mean()
            assert row.interval == mean_interval(regret[i])
            assert row.quantile == np.quantile(regret[i], 0.95)
            assert row.values == pytest.approx(sent[i])
            assert row.score == pytest.approx(regret[i].mean() / unit.mean())
            assert row.score_interval == ratio_interval(regret[i], unit)
            assert row.rank == 1 + (regret.mean(axis=1) < regret[i].mean()).sum()


def test_the_common_score_is_that_of_the_policy_with_the_common_constant(
    scores: list[Score],
) -> None:
    for scenario in PLAN.scenarios:
        problem = make_problem(scenario.name, scenario.problem)
        policies = ["dducb:bonus_factor=1", YARDSTICK]  # B = 2
        result = simulate(problem, scenario.graph, policies, 60, 3, 4, shuffle_arms=True)
        mean, unit = result.regret.values[:, :, -1].mean(axis=1)
        rows = {row.policy: row for row in scores if row.scenario == scenario.name}
        assert rows["dducb"].common == pytest.approx(mean / unit)
        assert rows["dducb"].common != rows["dducb"].score
        assert rows["independent-ucb"].common == rows["independent-ucb"].score  # it has B = 2
        assert math.isnan(rows["dec-ts"].common)
    overall = {row.policy: row for row in standings(scores, YARDSTICK)}
    of_each = [row.common for row in scores if row.policy == "dducb"]
    assert overall["dducb"].common == pytest.approx(math.prod(of_each) ** (1 / len(of_each)))
    assert math.isnan(overall["dec-ts"].common)


def test_the_yardstick_scores_exactly_one(scores: list[Score]) -> None:
    rows = [row for row in scores if row.policy == YARDSTICK]
    assert len(rows) == 2
    for row in rows:
        assert (row.score, row.score_interval) == (1.0, (1.0, 1.0))


def test_rows_say_what_a_policy_is(scores: list[Score]) -> None:
    kinds = {row.policy: (row.decentralised, row.bonus_constant) for row in scores}
    assert kinds == {
        "dducb": (True, 4.0),
        "dec-ts": (True, None),
        "independent-ucb": (True, 2.0),
        "central-ucb": (False, 2.0),
        "central-ts": (False, None),
    }
    talkative = {row.policy for row in scores if row.values > 0}
    assert talkative == {"dducb", "dec-ts"}
    (row,) = (row for row in scores if (row.scenario, row.policy) == ("fair-coins", "dec-ts"))
    assert row.values == 2 * 2 * 6  # two neighbours, 2K values


def test_a_yardstick_without_regret_is_refused(played: Sweep) -> None:
    results = [
        (cell, Result(result.dataset * (cell.policy.name != YARDSTICK), result.meta))
        for cell, result in played.results
    ]
    with pytest.raises(InputError, match=r"central-ts.*few-agents"):
        score(PLAN, results)


def row(scenario: str, policy: str, mean: float, rank: int, values: float = 0.0) -> Score:
    """A score in units of a yardstick whose mean is 2 in scenario a and 10 in scenario b."""
    unit = {"a": 2.0, "b": 10.0}[scenario]
    return Score(
        scenario=scenario, policy=policy, played=policy, decentralised=policy != YARDSTICK,
        bonus_constant=None, mean=mean, interval=(mean, mean), quantile=2 * mean, values=values,
        score=mean / unit, score_interval=(1.0, 1.0), rank=rank,
    )  # fmt: skip


ROWS = [
    row("a", "slow", 8.0, 3, values=4.0), row("a", "quick", 1.0, 1), row("a", YARDSTICK, 2.0, 2),
    row("b", "slow", 90.0, 3, values=6.0), row("b", "quick", 20.0, 2), row("b", YARDSTICK, 10.0, 1),
]  # fmt: skip


def test_standings() -> None:
    found = {standing.policy: standing for standing in standings(ROWS, YARDSTICK)}
    slow, quick = found["slow"], found["quick"]
    assert (slow.score, slow.quantile) == pytest.approx((6.0, 12.0))
    assert (slow.worst, slow.rank) == (9.0, 3)
    assert (slow.mean_rank, slow.values) == (3.0, 5.0)
    assert (quick.score, quick.worst, quick.mean_rank) == pytest.approx((1.0, 2.0, 1.5))
    assert found[YARDSTICK].score == 1.0
    assert (slow.decentralised, found[YARDSTICK].decentralised) == (True, False)


def test_the_best_stands_first() -> None:
    ahead = [dataclasses.replace(r, score=r.score / 2) if r.policy == "slow" else r for r in ROWS]
    far = [dataclasses.replace(r, score=r.score / 9) if r.policy == "slow" else r for r in ROWS]
    assert standings(ahead, YARDSTICK)[-1].policy == "slow"
    assert [standing.rank for standing in standings(ROWS, YARDSTICK)][-1] == 3
    assert (standings(far, YARDSTICK)[0].policy, standings(far, YARDSTICK)[0].rank) == ("slow", 1)


def test_equal_scores_share_a_rank() -> None:
    twins = [*ROWS, row("a", "twin", 8.0, 3), row("b", "twin", 90.0, 3)]
    ranks = {standing.policy: standing.rank for standing in standings(twins, YARDSTICK)}
    assert ranks["slow"] == ranks["twin"] == 3


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([0.5, 0.0]) == 0.0
    assert math.isclose(geometric_mean([1e200, 1e200]), 1e200)


def test_a_plan_of_one_run_has_no_intervals(tmp_path: Path) -> None:
    plan: Plan = make_plan(["few-agents"], ["dducb"], runs=1, horizon=20)
    with ThreadPoolExecutor(1) as executor:
        cells = [*plan.cells().values(), *plan.common_cells().values()]
        done = sweep(cells, tmp_path, executor)
    for found in score(plan, done.results):
        assert all(map(math.isnan, (*found.interval, *found.score_interval)))
