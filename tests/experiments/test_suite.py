"""The suite: what it promises to contain, and how one chooses from it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopbandits import (
    BernoulliBandit,
    BetaBandit,
    Cell,
    GaussianBandit,
    InputError,
    Network,
    PoissonBandit,
    Problem,
    drift,
    parse_policy,
)
from coopbandits.core import registry
from coopbandits.experiments.suite import (
    ALONE,
    COMMON,
    CONTEXTUAL,
    FLOODED,
    INFORMED,
    POLICIES,
    SCENARIOS,
    YARDSTICK,
    Scenario,
    make_plan,
    matched,
    plays_fast,
)
from coopbandits.network import describe
from coopbandits.problems import World, make_problem
from coopbandits.problems.spelled import CHANGES

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
PAPER = GaussianBandit([1.0] + [0.8] * 16, sigma=1.0)


def problem_of(scenario: Scenario) -> Problem:
    """Return the plain problem, before rewards move or sites differ."""
    problem = make_problem(scenario.name, scenario.problem)
    return problem.base if isinstance(problem, World) else problem


def test_every_scenario_can_be_played() -> None:
    for scenario in SCENARIOS:
        network, problem = Network.from_spec(scenario.graph), problem_of(scenario)
        assert problem.num_arms < scenario.horizon
        assert network.mixing_rounds() < scenario.horizon / 4  # several stages of DDUCB
        assert network.num_agents * scenario.horizon <= 1_000_000  # a leaderboard takes minutes
        assert problem.num_features or (problem.gaps > 0).sum() == problem.num_arms - 1
        assert scenario.probes.endswith(".")
        assert scenario.probes.count(".") - scenario.probes.count("0.") == 1


def test_the_suite_is_broad() -> None:
    assert len(SCENARIOS) >= 12
    assert len(BY_NAME) == len(SCENARIOS)
    for graph in ("cycle:100", "cycle:200", "grid:10x10", "grid:15x15"):
        assert any(s.graph == graph and problem_of(s) == PAPER for s in SCENARIOS)
    families = {scenario.graph.partition(":")[0] for scenario in SCENARIOS}
    assert families >= {"star", "barbell", "path", "regular", "erdos-renyi", "small-world"}
    problems = [problem_of(scenario) for scenario in SCENARIOS]
    assert {2, 50} <= {problem.num_arms for problem in problems}
    assert any(np.sort(p.gaps)[1] < 0.051 for p in problems if isinstance(p, GaussianBandit))
    rates = [p.means.max() for p in problems if isinstance(p, BernoulliBandit)]
    assert min(rates) < 0.03 < max(rates)


def test_what_scenarios_say_of_themselves() -> None:
    rounds = {
        name: Network.from_spec(BY_NAME[name].graph).mixing_rounds()
        for name in ("cycle-100", "cycle-200", "grid-10x10")
    }
    assert rounds == {"cycle-100": 164, "cycle-200": 355, "grid-10x10": 43}
    assert describe(Network.from_spec("cycle:100"), num_arms=2, horizon=10).diameter == 50
    fifty = BY_NAME["fifty-arms"]
    assert problem_of(fifty).num_arms > Network.from_spec(fifty.graph).num_agents


def test_no_policy_of_the_registry_is_left_out() -> None:
    assert set(registry.EXAMPLES) <= set(POLICIES)
    assert {parse_policy(text).name for text in POLICIES} == set(registry.POLICIES)
    assert [parse_policy(text).spelling for text in POLICIES] == list(POLICIES)
    assert len(set(POLICIES)) == len(POLICIES)
    assert {"dducb:bonus_factor=4", "dducb:own_pulls=false", "coop-ucb:gamma=2"} <= set(POLICIES)


def test_all_policies_have_a_kernel() -> None:
    for text in POLICIES:
        for problem in (PAPER, BernoulliBandit([0.5, 0.4])):
            cell = Cell(problem, Network.from_spec("cycle:5"), matched(text, problem), 10)
            assert plays_fast(cell)


UNUSUAL = ("liar", "fed-ucb:epsilon=1,horizon=20000")


@pytest.mark.parametrize("text", UNUSUAL)
def test_who_does_not_compare_is_played_when_named(text: str) -> None:
    plan = make_plan(["two-arms"], [text], 1, horizon=5)
    assert ("two-arms", text) in plan.cells()
    assert text not in make_plan(["two-arms"], [], 1).policies


def test_a_model_per_arm_where_all_arms_have_the_same_features() -> None:
    alike = make_problem("", "linear:1,0/0,1,features=gaussian")
    assert matched("tree-sums*lin-ts", alike).spelling == "tree-sums*lin-ts:disjoint=true"
    assert matched("tree-sums*lin-ts:disjoint=false", alike).spelling == "tree-sums*lin-ts"
    assert matched("dducb:eta=3", alike) == parse_policy("dducb:eta=3")


def test_a_plan_keeps_a_family_that_was_asked_for() -> None:
    texts = ["dec-ts", "dec-ts: family=gaussian", "dducb: eta=2"]
    plan = make_plan(["fair-coins"], texts, 1)
    assert plan.policies == ("dec-ts", "dec-ts:family=gaussian", "dducb", YARDSTICK)
    played = [cell.policy.spelling for cell in plan.cells().values()]
    assert played[:2] == ["dec-ts", "dec-ts:family=gaussian"]
    with pytest.raises(InputError, match=r"dec-ts:family=gaussian.*twice"):
        make_plan(["fair-coins"], ["dec-ts:family=gaussian", "dec-ts: family=gaussian"])


def test_problems_say_what_their_rewards_are() -> None:
    assert PAPER.family == "gaussian"
    assert BernoulliBandit([0.5, 0.4]).family == BetaBandit([1, 2], [2, 1]).family == "bernoulli"


def test_a_plan_without_wishes_is_the_whole_suite() -> None:
    plan = make_plan()
    usual = tuple(text for text in POLICIES if text not in UNUSUAL)
    assert (plan.scenarios, plan.policies) == (SCENARIOS, (*usual, *CONTEXTUAL, INFORMED))
    assert make_plan(["two-arms"]).policies == usual
    assert (plan.runs, plan.seed) == (20, 0)


def test_a_plan_keeps_the_order_of_the_suite() -> None:
    plan = make_plan(["two-arms", "cycle-100"], ["dec-ts", "dducb:eta=2"], 3, 7, horizon=50)
    assert [scenario.name for scenario in plan.scenarios] == ["cycle-100", "two-arms"]
    assert {scenario.horizon for scenario in plan.scenarios} == {50}
    assert plan.policies == ("dec-ts", "dducb", YARDSTICK)
    assert make_plan(["two-arms"], [YARDSTICK, "dducb"]).policies == (YARDSTICK, "dducb")
    assert make_plan(["loss-30"], ["dec-ts"]).policies == ("dec-ts", FLOODED)
    assert make_plan(policies=["dducb"]).policies == ("dducb", YARDSTICK, FLOODED, ALONE, INFORMED)


def test_scenarios_of_ones_own() -> None:
    text = "poisson:1,2,3@cycle:5"
    plan = make_plan(["grid-10x10", text, text], ["dducb"], runs=1)
    assert [scenario.name for scenario in plan.scenarios] == ["grid-10x10", text]
    cell = plan.cells()[text, "dducb"]
    assert (cell.problem, cell.network.description) == (PoissonBandit([1, 2, 3]), "cycle:5")
    assert (cell.horizon, cell.shuffle_arms) == (2500, True)
    assert make_plan([text], ["dducb"], horizon=50).scenarios[0].horizon == 50
    with pytest.raises(InputError, match="'poison'"):
        make_plan(["poison:1,2@cycle:5"], ["dducb"]).cells()


def test_features_are_for_those_that_look_at_them() -> None:
    plan = make_plan(["two-arms", "linear"], ["tree-sums*lin-ts", "dducb"])
    assert plan.policies == ("tree-sums*lin-ts", "dducb", YARDSTICK, INFORMED)
    played = [policy for name, policy in plan.cells() if name == "two-arms"]
    assert played == ["dducb", YARDSTICK]
    assert [policy for name, policy in plan.cells() if name == "linear"] == list(plan.policies)
    assert BY_NAME["linear"].yardstick == INFORMED
    with pytest.raises(InputError, match="features"):
        make_plan(["two-arms"], ["tree-sums*lin-ts"])


def test_arms_with_the_same_features_get_a_model_each() -> None:
    own = "linear:1,0/0,1,features=gaussian@cycle:5"
    plan = make_plan([own], ["tree-sums*lin-ts", "dducb"])
    spellings = [cell.policy.spelling for cell in plan.cells().values()]
    assert spellings == [
        "tree-sums*lin-ts:disjoint=true", "dducb", "central-totals*lin-ts:disjoint=true",
    ]  # fmt: skip


def test_cells_are_those_of_the_plan() -> None:
    plan = make_plan(["two-arms", "fair-coins"], ["dec-ts"], 3, 7)
    cells = plan.cells()
    assert list(cells) == [
        (scenario, policy)
        for scenario in ("two-arms", "fair-coins")
        for policy in ("dec-ts", YARDSTICK)
    ]
    assert all(cell.shuffle_arms for cell in cells.values())
    assert {(cell.runs, cell.seed) for cell in cells.values()} == {(3, 7)}
    cell = cells["fair-coins", "dec-ts"]
    assert cell.policy.spelling == "dec-ts"
    assert (cell.network.description, cell.horizon) == ("cycle:30", 5000)
    assert cell.problem == BernoulliBandit([0.5] + [0.4] * 5)


def test_the_common_constant_is_never_another_one() -> None:
    chosen = ["dducb:bonus_factor=4", "coop-ucb:gamma=2", "dec-ts"]  # γ must exceed 1: B > 2
    cells = make_plan(["few-agents"], chosen).common_cells()
    assert {key: cell.policy.bonus_constant for key, cell in cells.items()} == {
        ("few-agents", "dducb:bonus_factor=4"): COMMON
    }


def test_settings_are_plain_data_and_tell_plans_apart() -> None:
    wishes: list[dict[str, Any]] = [
        {}, {"scenarios": ["two-arms"]}, {"policies": ["dducb"]}, {"runs": 19}, {"seed": 1},
        {"horizon": 99},
    ]  # fmt: skip
    told = [json.dumps(make_plan(**wish).settings, sort_keys=True) for wish in wishes]
    assert len(set(told)) == len(told)
    assert "probes" not in told[0]


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        ({"scenarios": ["cycle-10"]}, "'cycle-10'.*'cycle-100'"),
        ({"policies": ["ddcub"]}, "'ddcub'.*'dducb'"),
        ({"policies": ["dducb", "dducb:eta=2"]}, r"\bdducb\b.*twice"),
        ({"runs": 0}, r"runs.* 0\b"),
        ({"seed": -1}, r"seed.* -1\b"),
        ({"horizon": 0}, r"horizon.* 0\b"),
    ],
)
def test_bad_wishes(wishes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make_plan(**wishes)


def test_the_page_tells_every_scenario() -> None:
    page = (Path(__file__).parents[2] / "docs" / "leaderboard.md").read_text()
    lines = [line for line in page.splitlines() if re.match(r"\| `[\w-]+` \| `\w", line)]
    assert len(lines) == len(SCENARIOS)
    for line, scenario in zip(lines, SCENARIOS, strict=True):
        name, graph, means, rounds, *faults, probes = line.strip("| ").split(" | ")
        assert (name, graph) == (f"`{scenario.name}`", f"`{scenario.graph}`")
        assert isinstance(scenario.problem, dict)
        told = scenario.problem["theta" if scenario.in_context else "means"]
        assert means.endswith(f"`{told}`")
        assert ("Bernoulli" in means) == (scenario.problem["kind"] == "bernoulli")
        assert (int(rounds), probes) == (scenario.horizon, scenario.probes)
        changes = [
            f"{name} `{scenario.problem[name]}`" for name in CHANGES & scenario.problem.keys()
        ]
        assert faults == ([f"`{scenario.faults}`"] if scenario.faults else changes)


def test_worlds_are_measured_by_agents_that_do_not_talk() -> None:
    worlds = [scenario for scenario in SCENARIOS if scenario.is_world]
    assert {name for one in worlds for name in CHANGES if name in one.problem} == set(CHANGES)
    assert {scenario.yardstick for scenario in worlds} == {ALONE}
    for scenario in worlds:
        problem = make_problem(scenario.name, scenario.problem)
        tables = problem.reward_tables(Network.from_spec(scenario.graph).labels)
        assert tables.starts[-1] < scenario.horizon
        assert not tables.is_one


def shifting(at: int = 30) -> World:
    """Make a world for a scenario of one's own."""
    return drift(BernoulliBandit([0.9, 0.5]), {at: [0.1, 0.5]})


def test_so_are_worlds_of_ones_own() -> None:
    scenario = make_plan([f"{__name__}:shifting:at=20@cycle:4"], ["tree-ts"]).scenarios[0]
    assert scenario.is_world
    assert scenario.yardstick == ALONE
    assert not make_plan(["poisson:1,2@cycle:5"], ["tree-ts"]).scenarios[0].is_world
