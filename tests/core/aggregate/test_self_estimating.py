"""DDUCB that is told neither N nor λ: what it finds, when it begins, and what it remembers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coopbandits.core import DDUCB, CooperativeAgent, InputError
from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.staged_mixing import SelfEstimatingMachine, StagedMixingMachine
from coopbandits.core.estimate.spectral import inflated_lambda
from coopbandits.core.estimate.survey import surveyed_lambda
from coopbandits.testing import check_policy

from ..estimate.gossip import worded_views  # the name depends on how pytest is called
from ..fields import Fields  # as in test_local
from ..fleet import (
    GRAPHS,
    drive,
    exchange,
    gossip_matrix,
    make_agent,
    one_view,
    rewards_tape,
    second_eigenvalue,
    through_json,
)

BOTH = DDUCB(num_agents="estimate", lambda_bound="estimate")
HEURISTIC = DDUCB(num_agents="estimate", lambda_bound="heuristic")


def fleet(policy: DDUCB, graph: str, num_arms: int = 3) -> list[CooperativeAgent]:
    views = worded_views(gossip_matrix(GRAPHS[graph]))
    return [make_agent(policy, replace(view, num_arms=num_arms)) for view in views]


def surveyed(agent: CooperativeAgent) -> SelfEstimatingMachine:
    assert isinstance(agent.machine, SelfEstimatingMachine)
    return agent.machine


def mixing(agent: CooperativeAgent) -> Fields:
    return Fields(surveyed(agent))


def play_until_mixing(agents: list[CooperativeAgent]) -> int:
    """Play to the round in which the stages begin, the same for all; returns its number."""
    rewards = rewards_tape(len(agents), 400, agents[0].view.num_arms)
    for number in range(400):
        begun = {surveyed(agent).is_mixing for agent in agents}
        assert len(begun) == 1
        if True in begun:
            return number
        drive(agents, rewards, number, number + 1)
    raise AssertionError("never began")


@pytest.mark.covering(1)
@pytest.mark.plays
@pytest.mark.parametrize("policy", [BOTH, HEURISTIC])
def test_the_contract(policy: DDUCB) -> None:
    check_policy(policy, num_arms=2, rounds=18)


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_guaranteed_bound_is_what_the_stages_use(graph: str) -> None:
    agents = fleet(BOTH, graph)
    rounds = play_until_mixing(agents)
    lam = second_eigenvalue(gossip_matrix(GRAPHS[graph]))
    assert rounds == mixing(agents[0]).surveyed
    for inner in map(mixing, agents):
        assert (inner.fewest_agents, inner.most_agents) == (len(agents), len(agents))
        assert inner.lambda_bound >= lam - 1e-12
        assert inner.stage_rounds == BOTH.mixing_steps(len(agents), inner.lambda_bound)


@pytest.mark.parametrize("graph", ["cycle-9", "star-6", "complete-6", "single"])
def test_the_heuristic_is_never_looser_than_the_guarantee(graph: str) -> None:
    agents = fleet(HEURISTIC, graph)
    play_until_mixing(agents)
    state = surveyed(agents[0]).state
    assert state.me.iterated > 0
    assert state.me.lambda_bound == min(surveyed_lambda(state), inflated_lambda(state))


def test_own_pulls_are_ucb_and_become_the_initial_ones() -> None:
    agents = fleet(BOTH, "cycle-9", num_arms=4)
    rewards = rewards_tape(9, 400, 4)
    arms = drive(agents, rewards, 0, 13).arms  # 3D + 1
    assert arms[:4] == [[k] * 9 for k in range(4)]
    sums, counts = np.zeros(4), np.zeros(4)
    for t in range(12):
        sums[arms[t][0]] += rewards[0, t, arms[t][0]]
        counts[arms[t][0]] += 1
    index = sums / counts + np.sqrt(4 * np.log(12) / counts)
    assert arms[12][0] == int(index.argmax())
    inner = mixing(agents[0])
    assert not inner.initial
    assert inner.in_flight[4:].sum() == 13.0
    assert inner.settled == pytest.approx(inner.in_flight / 9)
    assert agents[0].machine.estimate().time == pytest.approx(13.0)


def test_the_stages_are_those_of_agents_that_were_told() -> None:
    """An agent that was told, and continues from the same pulls, plays on equally."""
    agents = fleet(BOTH, "path-4")
    rounds = play_until_mixing(agents)
    told = DDUCB(num_agents=4, lambda_bound=mixing(agents[0]).lambda_bound)
    others = [make_agent(told, agent.view) for agent in agents]
    for agent, other in zip(agents, others, strict=True):
        assert isinstance(other.machine, StagedMixingMachine)
        state = surveyed(agent).export_state()
        other.machine.restore_state({name: state[name] for name in other.machine.fields})
        other.machine.state.me.initial_rounds = state["initial_rounds"]
    rewards = rewards_tape(4, 200, 3)
    assert drive(agents, rewards, rounds, 200) == drive(others, rewards, rounds, 200)


def test_a_survey_shorter_than_the_arms_leaves_initial_rounds() -> None:
    agents = fleet(BOTH, "complete-6", num_arms=9)
    rewards = rewards_tape(6, 40, 9)
    run = drive(agents, rewards, 0, 12)
    assert [min(sizes) for sizes in run.sizes] == [5, 9, 4, 4, 0, 0, 0, 0, 0, 18, 18, 18]
    assert run.arms[:9] == [[k] * 6 for k in range(9)]


SETTINGS: dict[str, dict[str, Any]] = {
    "both": {"num_agents": "estimate", "lambda_bound": "estimate"},
    "heuristic": {"num_agents": "estimate", "lambda_bound": "heuristic"},
    "budget": {"num_agents": "estimate", "lambda_bound": "estimate", "values_per_message": 4},
}


@pytest.mark.covering(2)
@pytest.mark.parametrize("name", SETTINGS)
def test_a_restart_in_any_phase_changes_nothing(name: str) -> None:
    policy = DDUCB(**SETTINGS[name])
    agents, restarted = fleet(policy, "path-4"), fleet(policy, "path-4")
    rewards = rewards_tape(4, 70, 3)
    for t in range(70):
        for i, old in enumerate(restarted):
            restarted[i] = make_agent(policy, old.view)
            restarted[i].restore_state(through_json(old.export_state()))
        assert drive(agents, rewards, t, t + 1) == drive(restarted, rewards, t, t + 1)
    assert [a.export_state() for a in agents] == [a.export_state() for a in restarted]
    assert mixing(restarted[0]).rounds == 70


def test_states_that_do_not_fit_change_nothing() -> None:
    agents = fleet(BOTH, "path-4")
    early = agents[0].export_state()
    play_until_mixing(agents)
    late = agents[0].export_state()
    found = early["aggregation"]
    cases = [
        ({**found, "tags": [*found["tags"], 5.0]}, "2 tags.*counts 1"),
        ({**found, "more": 1}, "staged-mixing.*'own'"),
        ({**found, "phase": late["aggregation"]["phase"]}, "estimates"),
        ({**found, "phase": 9}, "phase 9"),
    ]
    for aggregation, sentence in cases:
        with pytest.raises(InputError, match=sentence):
            agents[0].restore_state({**late, "aggregation": aggregation})
        assert agents[0].export_state() == late


def test_what_is_told_is_used_and_what_is_estimated_is_not() -> None:
    view = worded_views(gossip_matrix(GRAPHS["single"]))[0]
    told = replace(view, num_agents=50, lambda_bound=0.9)
    for policy, agents, bound in (
        (BOTH, 1, 0.0),
        (DDUCB(num_agents="estimate"), 1, 0.9),
        (DDUCB(lambda_bound="estimate"), 50, 0.0),
        (DDUCB(num_agents=(2, 7), lambda_bound="estimate"), 7, 0.0),
    ):
        agent = make_agent(policy, told)
        exchange([agent])
        inner = mixing(agent)
        assert (inner.most_agents, inner.lambda_bound) == (agents, bound)


def test_a_lost_message_is_refused_until_the_stages_begin() -> None:
    agents = fleet(BOTH, "path-4")
    with pytest.raises(InputError, match=r"\[1\].*num_agents.*lambda_bound"):
        agents[0].receive({})
    play_until_mixing(agents)
    agents[0].receive({})
    assert mixing(agents[0]).diagnostics["missed_messages"] == 1


@pytest.mark.parametrize(
    ("changes", "whose"),
    [
        ({"own_weight": 0.0, "neighbor_weights": {1: 0.5, 2: 0.5}}, "own"),
        ({"own_weight": 0.75, "neighbor_weights": {1: 0.25, 2: 0.0}}, "neighbour 2"),
    ],
)
def test_weights_without_a_guarantee_are_refused(changes: dict[str, Any], whose: str) -> None:
    view = one_view(random_word=2**60, **changes)
    with pytest.raises(InputError, match=f"agent 0.*{whose}.*weight 0"):
        BOTH.make_agent(view)
    HEURISTIC.make_agent(view)


def test_claims_are_believed_as_by_staged_mixing() -> None:
    agents = fleet(BOTH, "path-4")
    here = Claims(True, 1.0, 0.0, 4)
    agents[0].check_claims(np.full(4, -1e9), here, 0.0)  # looked at when it is received
    for _ in range(20):
        exchange(agents)
    before = agents[0].export_state()
    with pytest.raises(InputError, match=r"1e\+09.*240"):
        agents[0].check_claims(np.full(4, -1e9), here, 0.0)
    assert agents[0].export_state() == before
