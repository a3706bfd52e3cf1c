"""The agent of a policy made of parts: choosing, observing, receiving."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from coopbandits.core import (
    DDUCB,
    CooperativeAgent,
    Estimate,
    FloodTS,
    GossipTS,
    IndependentUCB,
    Index,
    InputError,
    LinTS,
    LocalSums,
    Machine,
    NormalDraw,
    Policy,
    TreeTS,
    Vector,
    combine,
)
from coopbandits.literature import MPUCB, UCBNetwork

from .fleet import (
    GRAPHS,
    drive,
    gossip_matrix,
    make_agent,
    make_agents,
    one_view,
    rewards_tape,
    staged,
    through_json,
)
from .variants import VARIANTS

ALL_POLICIES: dict[str, Policy] = {**VARIANTS, "independent": IndependentUCB()}
OBSERVERS: dict[str, Policy] = {
    "default": DDUCB(),
    "independent": IndependentUCB(),
    "neighbours": UCBNetwork(),
    "pulls": MPUCB(2),
    "gossip": GossipTS(sigma="estimate"),
    "tree": TreeTS(sigma="estimate"),
    "flood": FloodTS(sigma="estimate"),
}


@pytest.mark.parametrize("allowed", [[], [9], [-1]])
def test_a_refused_choice_changes_nothing(allowed: list[int]) -> None:
    agent = make_agent(DDUCB(), one_view())
    before = agent.export_state()
    with pytest.raises(InputError):
        agent.choose(0, allowed)
    assert agent.export_state() == before


@pytest.mark.parametrize("name", ALL_POLICIES)
def test_choosing_changes_nothing_but_open_pulls(name: str) -> None:
    agents = make_agents(ALL_POLICIES[name], gossip_matrix(GRAPHS["path-4"]), 3)
    drive(agents, rewards_tape(4, 9, 3), 0, 9)
    before = agents[1].export_state()
    arms = [agents[1].choose(word) for word in (0, 1, 2**64 - 1)]
    after = agents[1].export_state()
    open_pulls = after.pop("open_pulls")
    assert before.pop("open_pulls") == [0, 0, 0]
    assert after == before
    assert open_pulls == [arms.count(k) for k in range(3)]


@pytest.mark.parametrize("name", ["default", "plain", "independent"])
def test_a_burst_before_the_first_reward_spreads(name: str) -> None:
    agent = make_agent(ALL_POLICIES[name], one_view(num_arms=5))
    assert sorted(agent.choose(0) for _ in range(5)) == [0, 1, 2, 3, 4]
    assert sorted(agent.choose(0) for _ in range(5)) == [0, 1, 2, 3, 4]


def test_a_burst_after_some_rewards_spreads() -> None:
    agent = make_agent(IndependentUCB(), one_view(num_arms=3))
    for arm in (0, 1, 2):
        agent.observe(arm, 0.1 * arm)
    assert {agent.choose(0) for _ in range(9)} == {0, 1, 2}


def test_choices_respect_allowed() -> None:
    agent = make_agent(DDUCB(), one_view(num_arms=4))
    assert {agent.choose(0, [1, 3]) for _ in range(6)} == {1, 3}
    assert agent.open_pulls.tolist() == [0, 3, 0, 3]


# Observing.


def test_observations_close_open_pulls_and_need_no_choice() -> None:
    agent = make_agent(DDUCB(), one_view(num_arms=3))
    agent.choose(0)
    agent.observe(2, 1.0)
    agent.observe(0, 1.0)
    agent.observe(0, 1.0)
    assert agent.open_pulls.tolist() == [0, 0, 0]
    assert staged(agent).fresh.tolist() == [2.0, 0.0, 1.0, 2.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("arm", "reward", "sentence"),
    [
        (-1, 1.0, r"arm -1\b.*0 to 1"),
        (2, 1.0, r"arm 2\b.*0 to 1"),
        (0, math.nan, "reward nan"),
        (0, math.inf, "reward inf"),
        (1, -math.inf, "reward -inf"),
        (1.0, 1.0, r"^arm.* 1\.0"),
        (True, 1.0, "^arm.* True"),
        (np.bool_(False), 1.0, "^arm.* np.False_"),
        (np.float64(1.0), 1.0, r"^arm.* np.float64\(1\.0\)"),
        ("a", 1.0, "^arm.* 'a'"),
        (None, 1.0, "^arm.* None"),
        ([0], 1.0, r"^arm.* \[0\]"),
        (2**70, 1.0, "arm 1180591620717411303424"),
        (0, None, "^reward.* None"),
        (0, "x", "^reward.* 'x'"),
        (0, "1.0", r"^reward.* '1\.0'"),
        (0, 1j, "^reward.* 1j"),
        (0, np.array([1.0]), r"^reward.* array\(\[1.\]\)"),
        (0, 10**400, "^reward.* inf"),
    ],
)
def test_bad_observations_change_nothing(arm: Any, reward: Any, sentence: str) -> None:
    for name in OBSERVERS:
        agent = make_agent(OBSERVERS[name], one_view())
        agent.choose(0)
        before = agent.export_state()
        with pytest.raises(InputError, match=sentence):
            agent.observe(arm, reward)
        assert agent.export_state() == before


@pytest.mark.parametrize("name", OBSERVERS)
def test_numbers_of_any_kind_are_the_same_observation(name: str) -> None:
    rewards = (1.0, 1, True, np.bool_(True), np.float32(1.0), np.int8(1), Fraction(1))
    for arm, reward in product((1, np.int64(1), np.uint8(1), np.int32(1)), rewards):
        agent, plain = (make_agent(OBSERVERS[name], one_view()) for _ in range(2))
        for each in (agent, plain):
            each.choose(0)
        agent.observe(arm, reward)
        plain.observe(1, 1.0)
        assert through_json(agent.export_state()) == plain.export_state()


@pytest.mark.parametrize("reward", [1e200, -1e160])
@pytest.mark.parametrize("policy", [GossipTS(), TreeTS(), FloodTS()], ids=lambda p: p.name)
def test_a_reward_that_cannot_be_squared_changes_nothing(policy: Any, reward: float) -> None:
    agent = make_agent(policy, one_view())
    agent.observe(0, reward)  # no squares here
    agent = make_agent(replace(policy, sigma="estimate"), one_view())
    agent.choose(0)
    before = agent.export_state()
    with pytest.raises(InputError, match=f"{reward:g}.*scale".replace("+", r"\+")):
        agent.observe(0, reward)
    assert agent.export_state() == before


# Receiving.


def test_messages_from_strangers_are_refused() -> None:
    agent = make_agent(IndependentUCB(), one_view())
    before = agent.export_state()
    with pytest.raises(InputError, match=r"\[0, 7\].*agent 0"):
        agent.receive({7: np.zeros(4), 0: np.zeros(4), 1: np.zeros(4)})
    assert agent.export_state() == before


class Listener(Machine):
    """Remembers the order in which messages were handed on."""

    fields = ("heard",)

    def __init__(self) -> None:
        self.heard = np.zeros(2)

    def estimate(self) -> Estimate:
        return Estimate(np.zeros(2), np.ones(2), 2.0, 1.0)

    def observe(self, arm: int, reward: float) -> None:
        del arm, reward

    def outgoing(self, neighbor: int) -> None:
        del neighbor

    def receive(self, messages: Mapping[int, Vector]) -> None:
        self.heard = np.array(list(messages), dtype=np.float64)


class ByWord(Index):
    """Arm 1 for any word but 0."""

    name = "by-word"

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return [0.0, float(word)][arm] * float(estimate.counts[arm])


def test_messages_are_handed_on_in_ascending_order() -> None:
    listener = Listener()
    agent = CooperativeAgent(one_view(), listener, ByWord(), "own")
    agent.receive({2: np.zeros(1), 1: np.zeros(1)})
    assert listener.heard.tolist() == [1.0, 2.0]
    # The word reaches the index: it is the only source of chance an index has.
    assert (agent.choose(0), agent.choose(5)) == (0, 1)


def test_draws_are_those_of_the_next_choice() -> None:
    agent = make_agent(combine(LocalSums(), NormalDraw()), one_view(num_arms=2, sigma=0.5))
    agent.observe(0, 0.75)
    agent.choose(7, [1])  # an open pull of an arm never seen is expected to be average
    found = agent.draws()
    assert found is not None
    assert found.first.tolist() == pytest.approx([0.6, 0.6])
    assert found.second.tolist() == pytest.approx([0.2**0.5] * 2)
    index = LinTS(disjoint=True)
    linear = make_agent(combine(LocalSums(), index), one_view(num_arms=2, num_features=1))
    linear.observe(1, 3.0, np.ones(1))
    seen = linear.draws(np.array([2.0]))
    assert seen is not None
    assert seen.first.tolist() == pytest.approx([0.0, 3.0])
    assert seen.second.tolist() == pytest.approx([2.0, 2.0**0.5])
    assert make_agent(DDUCB(), one_view()).draws() is None
