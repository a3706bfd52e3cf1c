"""The contract: choosing, observing, receiving, and state as plain data."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from coopbandits.core.agent import best_arm, with_open_pulls

from coopbandits.core import (
    DDUCB,
    Aggregation,
    CooperativeAgent,
    Estimate,
    IndependentUCB,
    InputError,
    Policy,
)

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


def best(*values: float) -> int:
    return best_arm(np.array(values))


# Choosing.


def test_ties_go_to_the_lowest_arm_within_rounding() -> None:
    assert best(0.5, 1.0, 1.0) == 1
    assert best(1.0 - 0.9e-9, 1.0, 0.0) == 0
    assert best(1.0 - 1.1e-9, 1.0, 0.0) == 1


def test_the_tolerance_grows_with_the_largest_index() -> None:
    assert best(1e6 - 0.9e-3, 1e6) == 0
    assert best(1e6 - 1.1e-3, 1e6) == 1
    assert best(-1e6 - 0.9e-3, -1e6) == 0
    # A small index keeps the absolute tolerance.
    assert best(0.0, 0.9e-9) == 0
    assert best(0.0, 1.1e-9) == 1


def test_infinity_wins_and_ties_with_infinity_alone() -> None:
    assert best(1e300, math.inf, math.inf) == 1
    assert best(math.inf, math.inf) == 0


def test_allowed_arms_are_respected_in_any_order() -> None:
    values = np.array([5.0, 3.0, 3.0, 4.0])
    assert best_arm(values, [2, 1]) == 1
    assert best_arm(values, [2]) == 2
    assert best_arm(values, (3, 1, 2)) == 3


@pytest.mark.parametrize("allowed", [[-1, 0], [0, 4], [7]])
def test_allowed_arms_out_of_range(allowed: list[int]) -> None:
    with pytest.raises(InputError, match=r"allowed arms \[.*\] must lie in 0 to 3"):
        best_arm(np.zeros(4), allowed)


def test_an_index_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match=r"the index of some arm is not a number"):
        best_arm(np.array([1.0, math.nan]))


def test_no_allowed_arm() -> None:
    with pytest.raises(InputError, match=r"no arm is allowed; allow at least one"):
        best_arm(np.zeros(4), [])


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


def test_open_pulls_keep_the_mean_and_shrink_the_doubt() -> None:
    estimate = Estimate(np.array([6.0, 2.0, 0.0]), np.array([3.0, 2.0, 0.0]), 5.0, 1.0)
    counted = with_open_pulls(estimate, np.array([2, 0, 1]))
    assert counted.counts.tolist() == [5.0, 2.0, 1.0]
    assert counted.sums.tolist() == pytest.approx([10.0, 2.0, 8.0 / 5.0])
    assert (counted.time, counted.num_agents) == (5.0, 1.0)
    assert estimate.counts.tolist() == [3.0, 2.0, 0.0]


def test_open_pulls_replace_a_negative_count() -> None:
    """Counts below zero, from too little mixing, carry nothing and do not eat open pulls."""
    estimate = Estimate(np.array([4.0, -9.0]), np.array([2.0, -3.0]), 5.0, 4.0)
    counted = with_open_pulls(estimate, np.array([0, 1]))
    assert counted.counts.tolist() == [2.0, 1.0]
    assert counted.sums.tolist() == [4.0, 2.0]


def test_open_pulls_without_any_reward_expect_zero() -> None:
    counted = with_open_pulls(Estimate(np.zeros(2), np.zeros(2), 2.0, 1.0), np.array([0, 2]))
    assert counted.sums.tolist() == [0.0, 0.0]
    assert counted.counts.tolist() == [0.0, 2.0]


def test_open_pulls_leave_the_scatter_of_rewards_as_it_is() -> None:
    estimate = Estimate(np.array([6.0, 1.0]), np.array([3.0, 4.0]), 7.0, 1.0, squares=40.0)
    counted = with_open_pulls(estimate, np.array([2, 1]))
    scatters = [e.squares - (e.sums**2 / e.counts).sum() for e in (estimate, counted)]
    assert scatters[1] == pytest.approx(scatters[0])
    assert counted.time == estimate.time


def test_no_open_pulls_change_nothing() -> None:
    estimate = Estimate(np.ones(2), np.ones(2), 2.0, 1.0)
    assert with_open_pulls(estimate, np.zeros(2, dtype=np.int64)) is estimate


# Observing.


def test_observations_close_open_pulls_and_need_no_choice() -> None:
    agent = make_agent(DDUCB(), one_view(num_arms=3))
    agent.choose(0)
    agent.observe(2, 1.0)
    agent.observe(0, 1.0)
    agent.observe(0, 1.0)
    assert agent.open_pulls.tolist() == [0, 0, 0]
    assert staged(agent).fresh.tolist() == [2.0, 0.0, 1.0, 2.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["default", "independent"])
@pytest.mark.parametrize(
    ("arm", "reward", "sentence"),
    [
        (-1, 1.0, r"arm -1 does not exist; arms are numbered 0 to 1"),
        (2, 1.0, r"arm 2 does not exist; arms are numbered 0 to 1"),
        (0, math.nan, r"reward nan is not finite"),
        (0, math.inf, r"reward inf is not finite"),
        (1, -math.inf, r"reward -inf is not finite"),
    ],
)
def test_bad_observations_change_nothing(name: str, arm: int, reward: float, sentence: str) -> None:
    agent = make_agent(ALL_POLICIES[name], one_view())
    agent.choose(0)
    before = agent.export_state()
    with pytest.raises(InputError, match=sentence):
        agent.observe(arm, reward)
    assert agent.export_state() == before


# Receiving.


def test_messages_from_strangers_are_refused() -> None:
    agent = make_agent(IndependentUCB(), one_view())
    before = agent.export_state()
    with pytest.raises(InputError, match=r"\[0, 7\] are no neighbours of agent 0; its"):
        agent.receive({7: np.zeros(4), 0: np.zeros(4), 1: np.zeros(4)})
    assert agent.export_state() == before


class Listener(Aggregation):
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

    def receive(self, messages: Any) -> None:
        self.heard = np.array(list(messages), dtype=np.float64)


def test_messages_are_handed_on_in_ascending_order() -> None:
    listener = Listener()

    def index(estimate: Estimate, word: int) -> Any:
        return np.array([0.0, float(word)]) * estimate.counts

    agent = CooperativeAgent(one_view(), listener, index, "own")
    agent.receive({2: np.zeros(1), 1: np.zeros(1)})
    assert listener.heard.tolist() == [1.0, 2.0]
    # The word reaches the index: it is the only source of chance an index has.
    assert (agent.choose(0), agent.choose(5)) == (0, 1)


# State.


@pytest.mark.parametrize("name", ALL_POLICIES)
def test_restored_agents_continue_exactly(name: str) -> None:
    policy, matrix = ALL_POLICIES[name], gossip_matrix(GRAPHS["path-4"])
    rewards = rewards_tape(4, 60, 3)
    agents = make_agents(policy, matrix, 3)
    # Round 3 + 8 lies inside a stage of all but the shortest variants; round 2 in the initial one.
    for stop, last in ((2, 12), (12, 60)):
        drive(agents, rewards, 0 if stop == 2 else 2, stop)
        agents[0].choose(0)  # an open pull must survive too
        copies = make_agents(policy, matrix, 3)
        for original, restored in zip(agents, copies, strict=True):
            restored.restore_state(through_json(original.export_state()))
            assert restored.export_state() == original.export_state()
        twins = copy.deepcopy(agents)
        assert drive(copies, rewards, stop, last) == drive(twins, rewards, stop, last)
        for twin, restored in zip(twins, copies, strict=True):
            assert restored.export_state() == twin.export_state()


def test_state_is_a_copy() -> None:
    agent = make_agent(DDUCB(), one_view())
    state = agent.export_state()
    agent.observe(0, 1.0)
    assert state["aggregation"]["fresh"] == [0.0] * 4
    agent.restore_state(state)
    state["aggregation"]["fresh"][0] = 9.0
    assert staged(agent).fresh.tolist() == [0.0] * 4


Tamper = Callable[[dict[str, Any]], object]

TAMPERED: dict[str, tuple[Tamper, str]] = {
    "version": (lambda s: s.update(version=2), r"state has version 2, but this agent has 1"),
    "no version": (lambda s: s.pop("version"), r"state has fields .*; restore what export_state"),
    "policy": (lambda s: s.update(policy="dducb"), r"state has policy 'dducb', but this agent"),
    "arms": (lambda s: s.update(num_arms=3), r"state has num_arms 3, but this agent has 2"),
    "no open pulls": (lambda s: s.pop("open_pulls"), r"state has fields"),
    "open pulls shape": (
        lambda s: s.update(open_pulls=[0, 0, 0]),
        r"state field open_pulls has shape \(3,\), but this agent keeps \(2,\)",
    ),
    "open pulls negative": (lambda s: s.update(open_pulls=[-1, 0]), r"open_pulls"),
    "no aggregation": (lambda s: s.pop("aggregation"), r"state has fields"),
    "missing field": (lambda s: s["aggregation"].pop("rho"), r"state has fields \[.*\], but"),
    "extra field": (lambda s: s["aggregation"].update(extra=1), r"state has fields \[.*'extra'"),
    "shape": (
        lambda s: s["aggregation"].update(settled=[0.0]),
        r"state field settled has shape \(1,\), but this agent keeps \(4,\)",
    ),
    "kind": (
        lambda s: s["aggregation"].update(rounds=1.5),
        r"state field rounds is 1.5; expected int",
    ),
    "words": (lambda s: s["aggregation"].update(fresh=["a", "b", "c", "d"]), r"fresh"),
    "ragged": (lambda s: s["aggregation"].update(fresh=[[1.0], 2.0]), r"fresh"),
    "not finite": (lambda s: s["aggregation"].update(fresh=[math.nan] * 4), r"fresh"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_a_state_that_does_not_fit_changes_nothing(name: str) -> None:
    tamper, sentence = TAMPERED[name]
    policy = DDUCB(mixing_rounds=3)
    giver, taker = make_agent(policy, one_view()), make_agent(policy, one_view())
    giver.observe(0, 1.0)
    giver.choose(0)
    taker.observe(1, 5.0)
    state, before = giver.export_state(), taker.export_state()
    tamper(state)
    with pytest.raises(InputError, match=sentence):
        taker.restore_state(state)
    assert taker.export_state() == before


def test_another_policys_state_is_refused() -> None:
    state = make_agent(IndependentUCB(), one_view()).export_state()
    with pytest.raises(InputError, match=r"state has policy 'independent-ucb'"):
        make_agent(DDUCB(), one_view()).restore_state(state)
