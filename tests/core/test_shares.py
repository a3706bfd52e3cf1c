"""Shares of what was observed add up; and an agent goes on with other neighbours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coopbandits.core import (
    DDUCB,
    CooperativeAgent,
    FloodTS,
    GossipTS,
    IndependentUCB,
    InputError,
    LedgerTS,
    Policy,
    TreeTS,
)
from coopbandits.core.aggregate.ledger_sums import LedgerSumsMachine
from coopbandits.core.aggregate.spanning_tree import FAR, NOBODY
from coopbandits.core.aggregate.tree_sums import TreeSumsMachine
from coopbandits.literature import CoopUCB2, DecTS, DecUCB, ResilientUCB, UCBNetwork

from .fleet import (
    GRAPHS,
    drive,
    exchange,
    gossip_matrix,
    make_agent,
    make_agents,
    one_view,
    rewards_tape,
)

ROBUST: tuple[Policy, ...] = (
    GossipTS(sigma="estimate"),
    TreeTS(sigma="estimate"),
    FloodTS(),
    LedgerTS(sigma="estimate"),
)
SHARING: tuple[Policy, ...] = (
    *ROBUST,
    DDUCB(),
    DDUCB(num_agents="estimate", lambda_bound="estimate"),
    CoopUCB2(gamma=2.0),
    DecTS(),
    IndependentUCB(),
)


@pytest.mark.covering
@pytest.mark.parametrize("rounds", [2, 90])
@pytest.mark.parametrize("policy", SHARING, ids=lambda policy: policy.spelling)
def test_shares_add_up_to_all_that_was_observed(policy: Policy, rounds: int) -> None:
    agents = make_agents(policy, gossip_matrix(GRAPHS["grid-2x4"]), 3)
    seen = np.zeros(6)
    for at in range(rounds):
        for agent in agents:
            arm = agent.choose(at)
            agent.observe(arm, 0.25 * arm - 1.0)
            seen[[arm, 3 + arm]] += [0.25 * arm - 1.0, 1.0]
        exchange(agents)
    shares = [agent.machine.share() for agent in agents]
    np.testing.assert_allclose(np.sum(shares, axis=0).ravel(), seen, rtol=1e-9)


def test_who_also_counts_the_pulls_of_others_tells_no_share() -> None:
    agent = make_agent(UCBNetwork(), one_view())
    with pytest.raises(InputError, match="share of what was observed"):
        agent.machine.share()


@pytest.mark.parametrize("policy", [TreeTS(), DDUCB()], ids=lambda policy: policy.spelling)
def test_an_abandoned_pull_is_no_longer_open(policy: Policy) -> None:
    agent = make_agent(policy, one_view())
    arm = agent.choose(1)
    agent.abandon(arm)
    agent.abandon(arm)
    assert not agent.open_pulls.any()


def moved(agent: CooperativeAgent, policy: Policy, neighbors: list[int]) -> CooperativeAgent:
    weights = dict.fromkeys(neighbors, 0.25)
    fresh = make_agent(policy, replace(agent.view, neighbor_weights=weights))
    state = fresh.relinked(agent.export_state(), agent.view.neighbor_weights)
    fresh.restore_state(state)
    return fresh


@pytest.mark.parametrize("policy", ROBUST, ids=lambda policy: policy.spelling)
def test_what_is_known_of_links_that_stay_is_kept(policy: Policy) -> None:
    agents = make_agents(policy, gossip_matrix(GRAPHS["cycle-5"]), 2)
    drive(agents, rewards_tape(5, 30, 2), 0, 30)
    before = agents[0].export_state()["aggregation"]
    fresh = make_agent(policy, one_view()).export_state()["aggregation"]
    after = moved(agents[0], policy, [1, 3])
    state = after.export_state()["aggregation"]
    if isinstance(agents[0].machine, LedgerSumsMachine):
        told = agents[0].outgoing(1)  # of what was handed on first of all
        assert told is not None
        before["sent"][0] = told[: len(before["sent"][0])].tolist()
    for name in after.machine.links:
        assert state[name][0] == before[name][0]
        assert state[name][1] == fresh[name][1]
    np.testing.assert_array_equal(after.machine.share(), agents[0].machine.share())
    assert moved(after, policy, []).view.neighbor_weights == {}
    after.receive({})


@pytest.mark.parametrize("policy", ROBUST, ids=lambda policy: policy.spelling)
def test_links_that_end_change_nothing_that_is_known(policy: Policy) -> None:
    agents = make_agents(policy, gossip_matrix(GRAPHS["cycle-5"]), 2)
    drive(agents, rewards_tape(5, 30, 2), 0, 30)
    before = agents[0].estimate()
    agents[0].parted([1])
    for found, expected in zip(agents[0].estimate(), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_tree_lets_go_of_a_parent_that_is_no_longer_there() -> None:
    agents = make_agents(TreeTS(), gossip_matrix(GRAPHS["cycle-5"]), 2)
    drive(agents, rewards_tape(5, 30, 2), 0, 30)
    child = next(
        a for a in agents if isinstance(a.machine, TreeSumsMachine) and a.machine.parent >= 0
    )
    tree = child.machine
    assert isinstance(tree, TreeSumsMachine)
    me = tree.state.me
    kept = moved(child, TreeTS(), [tree.parent]).machine
    assert isinstance(kept, TreeSumsMachine)
    assert (kept.parent, kept.state.me.dist) == (tree.parent, me.dist)
    left = moved(child, TreeTS(), [j for j in tree.places if j != tree.parent]).machine
    assert isinstance(left, TreeSumsMachine)
    assert (left.parent, left.state.me.dist, left.state.me.root) == (NOBODY, FAR, me.root)


@pytest.mark.parametrize("policy", [DDUCB(), DecTS()], ids=lambda policy: policy.spelling)
def test_those_that_mix_in_step_keep_their_neighbours(policy: Policy) -> None:
    agent = make_agent(policy, one_view())
    with pytest.raises(InputError, match=r"\[1\].*\[1, 2\]"):
        moved(agent, policy, [1])


@pytest.mark.parametrize("estimate", [False, True])
def test_weights_that_become_known_late_are_as_if_known_from_the_start(estimate: bool) -> None:
    policy = DDUCB(num_agents="estimate", lambda_bound="estimate") if estimate else DDUCB()
    view = one_view()
    early = make_agent(policy, replace(view, own_weight=0.9, neighbor_weights={1: 0.05, 2: 0.05}))
    late, known = make_agent(policy, view), make_agent(policy, view)
    for agent in (early, known):
        agent.observe(agent.choose(1), 0.5)
    late.restore_state(late.reweighted(early.export_state()))
    assert late.export_state() == known.export_state()


def test_agents_tell_their_share() -> None:
    agent = make_agent(TreeTS(), one_view())
    agent.observe(1, 0.5)
    sums, counts = agent.share()
    assert (sums.tolist(), counts.tolist()) == ([0.0, 0.5], [0.0, 1.0])


@pytest.mark.parametrize("policy", [DecUCB(), ResilientUCB(liars=1)], ids=lambda p: p.spelling)
def test_who_tells_means_goes_on_where_it_was_exported(policy: Policy) -> None:
    """And a memory that may be old makes no difference: what is told is the newer the more."""
    first, second = (make_agent(policy, one_view()) for _ in range(2))
    first.observe(1, 0.5)
    second.restore_state(first.export_state())
    second.reopened(7)
    assert second.export_state() == first.export_state()
