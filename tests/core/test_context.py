"""Agents that are told features: what they take, what they refuse, what they remember."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import (
    UCB,
    CentralTotals,
    CooperativeAgent,
    FloodedTotals,
    InputError,
    LinTS,
    LinUCB,
    LocalSums,
    RunningConsensus,
    StagedMixing,
    TreeSums,
    combine,
)
from coopbandits.core.aggregate import Claims
from coopbandits.core.policy import Policy

from .fleet import gossip_matrix, make_agent, one_view, views

ARMS, SIZE = 3, 2
CONTEXT = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])

SPECS = (
    LocalSums(), TreeSums(), TreeSums(discount=0.9), FloodedTotals(), FloodedTotals(discount=0.9),
    RunningConsensus(), StagedMixing(),
)  # fmt: skip
EVERY = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.spelling)


def agent_of(policy: Policy, **changes: Any) -> CooperativeAgent:
    return make_agent(policy, one_view(num_arms=ARMS, num_features=SIZE, **changes))


@EVERY
def test_features_and_rewards_are_added_up(spec: Any) -> None:
    agent = agent_of(combine(spec, LinTS()))
    for reward, x in ((1.0, CONTEXT[0]), (2.0, CONTEXT[2])):
        agent.observe(0, reward, x)
    share = agent.share()
    assert share.sums.tolist() == [2.0, 1.0]
    assert share.counts.tolist() == [2.0]


BAD = (
    (None, "no context.* 2 features"),
    (CONTEXT[:2], r"context.*\(2, 2\).*\(3, 2\)"),
    (CONTEXT[:, :1], r"context.*\(3, 1\)"),
    (CONTEXT[0], r"context.*\(2,\)"),
    (np.where(CONTEXT == 1.0, np.nan, CONTEXT), "feature nan"),
    (np.where(CONTEXT == 1.0, np.inf, CONTEXT), "feature inf"),
    (1e80 * CONTEXT, r"feature.* 1e\+80.*1e\+70"),
    ([["PT", 0.0]] * 3, "one-hot"),
    ([[1.0], [1.0, 2.0], [0.0]], "one-hot"),
)


@pytest.mark.parametrize(("context", "sentence"), BAD)
def test_bad_contexts_are_refused_and_change_nothing(context: Any, sentence: str) -> None:
    agent = agent_of(combine(TreeSums(), LinTS()))
    agent.observe(1, 0.5, CONTEXT[1])
    agent.choose(5, context=CONTEXT)
    before = agent.export_state()
    with pytest.raises(InputError, match=sentence):
        agent.choose(7, context=context)
    assert agent.export_state() == before


@pytest.mark.parametrize(
    ("context", "sentence"),
    [
        (None, "no context"),
        (CONTEXT, r"context.*\(3, 2\).* 2 features"),
        ([np.nan, 0.0], "feature nan"),
        (["a", "b"], "one-hot"),
    ],
)
def test_bad_features_of_a_pull_are_refused_and_change_nothing(context: Any, sentence: str) -> None:
    agent = agent_of(combine(FloodedTotals(), LinUCB()))
    agent.choose(5, context=CONTEXT)
    before = agent.export_state()
    with pytest.raises(InputError, match=sentence):
        agent.observe(0, 1.0, context)
    with pytest.raises(InputError, match="reward nan"):
        agent.observe(0, float("nan"), CONTEXT[0])
    assert agent.export_state() == before


def test_a_context_where_none_is_declared_is_refused() -> None:
    agent = agent_of(combine(TreeSums(), UCB()))
    before = agent.export_state()
    for call in (lambda: agent.choose(1, context=CONTEXT), lambda: agent.observe(0, 1.0, CONTEXT)):
        with pytest.raises(InputError, match=r"no features.*context"):
            call()
    assert agent.export_state() == before


def test_one_context_for_all_arms_where_each_has_a_model() -> None:
    policy = combine(LocalSums(), LinTS(disjoint=True))
    one, other = agent_of(policy), agent_of(policy)
    for word in range(20):
        x = np.array([1.0, word / 10])
        arms = {one.choose(word, context=x), other.choose(word, context=np.tile(x, (ARMS, 1)))}
        assert len(arms) == 1
        for agent in (one, other):
            agent.observe(min(arms), word % 3, x)
    with pytest.raises(InputError, match=r"\(3, 2\).*\(2,\)"):
        one.choose(1, context=np.ones(3))


def test_what_is_believed_in_a_context() -> None:
    agent = agent_of(combine(LocalSums(), LinTS(disjoint=True)), sigma=0.5)
    agent.observe(1, 1.0, np.array([1.0, 0.5]))
    agent.observe(1, 0.2, np.array([1.0, -1.0]))
    agent.open(1, np.array([1.0, 1.0]))  # known to nobody yet, so nothing is believed of it
    x, ridge = np.array([1.0, 0.25]), 0.25
    matrix = ridge * np.eye(2) + np.array([[2.0, -0.5], [-0.5, 1.25]])
    mean = float(x @ np.linalg.solve(matrix, [1.2, 0.3]))
    deviation = 0.5 * float(x @ np.linalg.solve(matrix, x)) ** 0.5
    unknown = 0.5 * float(x @ x / ridge) ** 0.5
    means, deviations = agent.outlook(x)
    np.testing.assert_allclose(means, [0.0, mean, 0.0], atol=1e-12)
    np.testing.assert_allclose(deviations, [unknown, deviation, unknown])
    with pytest.raises(InputError, match=r"context.*\(3,\)"):
        agent.outlook(np.ones(3))
    with pytest.raises(InputError, match=r"no features.*context"):
        agent_of(combine(TreeSums(), UCB())).outlook(x)
    with pytest.raises(InputError, match=r"index ucb.*context"):
        UCB().outlook(agent.estimate(), ())


def test_a_pull_that_was_decided_on_before_is_open_as_any() -> None:
    policy = combine(LocalSums(), LinTS(disjoint=True))
    one, other, plain = agent_of(policy), agent_of(policy), agent_of(combine(LocalSums(), UCB()))
    for word in range(4):
        x = np.array([1.0, 0.1 * word])
        arm = other.would_choose(word, None, x)
        assert one.choose(word, context=x) == arm
        other.open(arm, x)
        assert one.export_state() == other.export_state()
    kept = other.open_features
    other.open_features = np.zeros_like(kept)
    assert other.export_state() != one.export_state()
    other.open_features = kept
    assert other.export_state() == one.export_state()
    plain.open(2)
    plain.open_features = np.ones(3)
    assert (plain.open_pulls.tolist(), plain.open_features.size) == ([0, 0, 1], 0)


def test_features_in_flight_are_bounded() -> None:
    view = {"num_agents": 4, "lambda_bound": 0.5}
    agent = agent_of(combine(StagedMixing(), LinTS(disjoint=True)), **view)
    message = agent.machine.registers.zeros()
    agent.check_claims(message, Claims(True, 1.0, 0.0, 4, largest_feature=1.0), 0.0)
    message[3] = 1e6  # a product of features
    for largest, refused in ((1.0, True), (100.0, False)):
        claims = Claims(True, 1.0, 0.0, 4, largest_feature=largest)
        if refused:
            with pytest.raises(InputError, match=r"features in flight.*1e\+06"):
                agent.check_claims(message, claims, 0.0)
        else:
            agent.check_claims(message, claims, 0.0)


def test_only_allowed_arms_are_played() -> None:
    agent = agent_of(combine(LocalSums(), LinTS()))
    tried = [agent.would_choose(word, [0, 2], CONTEXT) for word in range(30)]
    assert set(tried) == {0, 2}
    assert agent.choose(0, [0, 2], CONTEXT) == tried[0]
    assert {agent.choose(word, [0, 2], CONTEXT) for word in range(30)} == {0, 2}


def test_open_pulls_spread_and_close_again() -> None:
    """Choices before the first reward look elsewhere, and leave nothing behind."""
    agent = agent_of(combine(LocalSums(), LinUCB()))
    same = agent_of(combine(LocalSums(), LinUCB()))
    context = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.0]])
    arms = [agent.choose(0, context=context) for _ in range(4)]
    assert arms == [0, 1, 0, 1]
    assert agent.open_pulls.tolist() == [2, 2, 0]
    for arm in arms:
        agent.observe(arm, 0.5, context[arm])
        same.observe(arm, 0.5, context[arm])
    assert agent.export_state() == same.export_state()
    arm = agent.choose(1, context=context)
    agent.abandon(arm, context[arm])
    assert agent.export_state() == same.export_state()


@EVERY
def test_state_is_data_and_goes_on_exactly(spec: Any) -> None:
    policy = combine(spec, LinTS())
    agent, other = agent_of(policy), agent_of(policy)
    for word in range(6):
        arm = agent.choose(word, context=CONTEXT)
        if word % 2:
            agent.observe(arm, 0.3 * word, CONTEXT[arm])
    state = json.loads(json.dumps(agent.export_state()))
    other.restore_state(state)
    assert other.export_state() == state
    words = range(100, 140)
    assert [agent.choose(w, context=CONTEXT) for w in words] == [
        other.choose(w, context=CONTEXT) for w in words
    ]
    for wrong in (
        {key: value for key, value in state.items() if key != "open_features"},
        state | {"open_features": state["open_features"][1:]},
    ):
        before = other.export_state()
        with pytest.raises(InputError):
            other.restore_state(wrong)
        assert other.export_state() == before


def test_a_controller_is_told_features_too() -> None:
    policy = combine(CentralTotals(), LinTS())
    controller = policy.make_controller(ARMS, 0.5, SIZE)
    for word in range(40):
        arm = controller.choose(word, None, CONTEXT)
        controller.observe(arm, float(arm == 1), CONTEXT[arm])
        controller.end_round()
    assert controller.choose(99, None, CONTEXT) == 1


@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(st.integers(3, 7), st.integers(0, 10**6))
def test_tree_sums_under_loss_are_exact(size: int, seed: int) -> None:
    """40 % of messages get lost; after some rounds without loss everybody knows all."""
    source = np.random.default_rng(seed)  # noqa: TID251  not a tape
    graph = nx.random_labeled_tree(size, seed=seed)
    told = [replace(view, num_features=SIZE) for view in views(gossip_matrix(graph), ARMS)]
    agents = [make_agent(combine(TreeSums(), LinTS()), view) for view in told]
    direct = agents[0].machine.registers.zeros()
    for t in range(90):
        for agent in agents if t < 40 else []:
            x, reward = source.normal(size=SIZE), float(source.normal())
            agent.observe(0, reward, x)
            agent.machine.registers.record(direct, 0, reward, x)
        lost = 0.4 if t < 40 else 0.0
        post: dict[int, dict[int, Any]] = {i: {} for i in range(size)}
        for i, j in [*graph.edges, *(edge[::-1] for edge in graph.edges)]:
            if source.random() >= lost:
                post[j][i] = agents[i].outgoing(j)
        for i, agent in enumerate(agents):
            agent.receive(post[i])
    for agent in agents:
        estimate = agent.estimate()
        known = np.concatenate([estimate.sums[0], estimate.extra.outer[0], estimate.counts])
        assert np.allclose(known, direct, rtol=1e-9, atol=1e-9)
