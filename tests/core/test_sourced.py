"""Sources × policies: sums are those of what rewards count, whatever adds them up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core import (
    UCB,
    CentralUCB,
    FloodTS,
    FloodUCB,
    GossipTS,
    IndependentUCB,
    InputError,
    LocalSums,
    Policy,
    Private,
    TreeSums,
    TreeUCB,
    Truncated,
    at_source,
    combine,
    parse_policy,
)
from coopbandits.literature import DPE2, MPUCB

from .fleet import GRAPHS, drive, exchange, gossip_matrix, make_agents, rewards_tape, through_json
from .test_sources import noise_of

P = gossip_matrix(GRAPHS["cycle-5"])


@pytest.mark.parametrize("policy", [FloodUCB(), TreeUCB(), GossipTS(), IndependentUCB(2.0)])
def test_no_noise_and_no_tails_change_nothing(policy: Policy) -> None:
    tape = rewards_tape(5, 40, 3)
    plain = drive(make_agents(policy, P, 3), tape, 0, 40).arms
    for source in (Private(math.inf, 40), Truncated(1e12)):
        agents = make_agents(at_source(source, policy), P, 3)
        assert drive(agents, tape, 0, 40).arms == plain


@pytest.mark.parametrize("policy", [FloodUCB(), TreeUCB(), MPUCB(4)])
def test_all_agents_add_up_what_all_released(policy: Policy) -> None:
    tape = np.clip(rewards_tape(5, 30, 3), 0.0, 1.0)
    agents: Any = make_agents(at_source(Private(1.0, 40), policy), P, 3)
    arms = np.array(drive(agents, tape, 0, 30).arms)
    noise = np.array(
        [
            sum(noise_of(a.source, k, int(a.source.state.in_trees[k])) for a in agents)
            for k in range(3)
        ]
    )
    paid = np.array(
        [sum(tape[i, t, k] for t in range(30) for i in range(5) if arms[t, i] == k)
         for k in range(3)]
    )  # fmt: skip
    for _ in range(6):  # until all news has arrived
        for agent in agents:
            assert agent.source.state.in_trees.sum() == 30
        exchange(agents)
    for agent in agents:
        np.testing.assert_allclose(agent.estimate().sums, paid + noise, atol=1e-9)


def test_a_state_continues_and_another_changes_nothing() -> None:
    policy = at_source(Private(1.0, 40), FloodUCB())
    tape = rewards_tape(5, 40, 3)
    whole = drive(make_agents(policy, P, 3), tape, 0, 40).arms
    agents = make_agents(policy, P, 3)
    drive(agents, tape, 0, 17)
    states = [through_json(agent.export_state()) for agent in agents]
    fresh = make_agents(policy, P, 3)
    for agent, state in zip(fresh, states, strict=True):
        agent.restore_state(state)
    assert drive(fresh, tape, 17, 40).arms == whole[17:]
    before = fresh[0].export_state()
    for broken in (states[1], states[0] | {"source": {}}, {}):
        with pytest.raises(InputError):
            fresh[0].restore_state(broken)
        assert fresh[0].export_state() == before


def test_the_bonus_is_that_of_the_policy() -> None:
    policy = at_source(Truncated(limit=4), FloodUCB(constant=3))
    assert policy.bonus_constant == 3.0
    assert policy.with_constant(2.0) == at_source(Truncated(limit=4), FloodUCB())
    assert at_source(Truncated(limit=4), FloodTS()).bonus_constant is None


def test_spellings_needs_and_what_is_handed_on() -> None:
    policy = parse_policy("private:epsilon=0.5,horizon=100*tree-sums*ucb:constant=3")
    assert policy == at_source(Private(0.5, 100), combine(TreeSums(), UCB(3)))
    assert policy.spelling == "private:epsilon=0.5,horizon=100*tree-sums*ucb:constant=3"
    assert parse_policy("truncated:limit=4*flood-ucb") == at_source(Truncated(4), FloodUCB())
    assert at_source(Private(1.0, 9), FloodUCB()).needs == {"secret"}
    assert at_source(Private(math.inf, 9), FloodUCB()).needs == frozenset()
    assert at_source(Truncated(1), FloodUCB()).needs == frozenset()
    assert at_source(Truncated(1), MPUCB(2)).needs_common_round
    assert at_source(Truncated(1), TreeUCB()).overtakes
    assert not at_source(Truncated(1), FloodUCB()).overtakes
    agent = make_agents(at_source(Truncated(1), FloodUCB()), P, 3)[0]
    with pytest.raises(InputError, match="confidence"):
        agent.recommend()
    with pytest.raises(InputError, match="no features"):
        agent.observe(0, 1.0, np.ones(2))


@pytest.mark.parametrize(
    ("source", "policy", "sentence"),
    [
        ("private", FloodUCB(), r"source.*'private'.*cb\.Private"),
        (Truncated(1), DPE2(), r"\bdpe2\b"),
        (Truncated(1), CentralUCB(), "central-ucb"),
        (Truncated(1), "flood-ucb", "'flood-ucb'"),
        (Truncated(1), FloodTS(sigma="estimate"), "arm-sums:squares=pooled"),
        (Private(1.0, 9), FloodTS("bernoulli"), "private.*range"),
    ],
)
def test_what_does_not_go_together_is_refused(source: Any, policy: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        at_source(source, policy)
    assert at_source(Truncated(1), FloodTS("bernoulli")).members == (FloodTS("bernoulli"),)
    assert combine(LocalSums(), UCB()).overtakes is False
