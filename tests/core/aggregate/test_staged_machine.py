"""Staged mixing: what is sent, what is refused, and what is conserved."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from coopbandits.core import DDUCB, CentralUCB, CooperativeAgent, InputError, Vector
from coopbandits.core.policy import AnyPolicy
from coopbandits.literature import CoopUCB2

from ..fleet import (
    GRAPHS,
    drive,
    exchange,
    gossip_matrix,
    make_agent,
    make_agents,
    one_view,
    played_values,
    rewards_tape,
    staged,
    views,
)
from ..variants import VARIANTS

Messages = dict[int, Vector]


def after_initial(policy: DDUCB, num_arms: int = 2) -> CooperativeAgent:
    """An agent of a triangle that has pulled every arm once: its first stage begins."""
    agent = make_agent(policy, one_view(num_arms=num_arms))
    for arm in range(num_arms):
        agent.observe(arm, 1.0 + arm)
        agent.receive({})
    return agent


# What is sent.

SIZES = {
    "default": {6},
    "plain": {6},
    "unaccelerated": {6},
    "neighbors": {8},
    "remix": {12},
    "remix-plain": {12},
    "remix-neighbors": {14},
    "budget-1": {1},
    "budget-2K": {6},
    "budget-over-2K": {6},
    "short": {6},
    "long": {6},
}


@pytest.mark.parametrize("variant", SIZES)
def test_message_sizes(variant: str) -> None:
    agents = make_agents(VARIANTS[variant], gossip_matrix(GRAPHS["cycle-5"]), 3)
    run = drive(agents, rewards_tape(5, 50, 3), 0, 50)
    assert set().union(*run.sizes[:3]) == {0}
    assert set().union(*run.sizes[3:]) == SIZES[variant]


@pytest.mark.parametrize(("budget", "rounds"), [(1, 30), (4, 8), (5, 6), (6, 5), (50, 5)])
def test_a_budget_is_kept_and_every_coordinate_goes_c_times(budget: int, rounds: int) -> None:
    """C = 5 steps of 2K = 6 coordinates: 30 values, the last message takes what is left."""
    policy = DDUCB(values_per_message=budget)
    agents = make_agents(policy, gossip_matrix(GRAPHS["cycle-5"]), 3)
    assert staged(agents[0]).stage_rounds == rounds
    sizes = drive(agents, rewards_tape(5, 3 + rounds, 3), 0, 3 + rounds).sizes[3:]
    per_round = min(budget, 6)
    expected = [min(per_round, 30 - r * per_round) for r in range(rounds)]
    assert sizes == [{size} for size in expected]
    assert sum(expected) == 30


@pytest.mark.parametrize("budget", [None, 4])
def test_stages_tell_in_which_rounds_news_is_read(budget: int | None) -> None:
    policy = DDUCB(own_pulls=False, values_per_message=budget)
    matrix = gossip_matrix(GRAPHS["cycle-5"])
    agents, tape = make_agents(policy, matrix, 3), rewards_tape(5, 30, 3)
    read, before = [], agents[0].estimate().counts
    for done in range(30):
        drive(agents, tape, done, done + 1)
        now = agents[0].estimate().counts
        if done >= 3 and now.tolist() != before.tolist():
            read.append(done + 1)
        before = now
    told = policy.stages(views(matrix, 3)[0])
    assert told is not None
    assert read == list(range(told[0], 31, told[1]))
    assert len(read) >= 3


@pytest.mark.parametrize(
    "policy",
    [DDUCB(num_agents="estimate"), CoopUCB2(gamma=2.0), CentralUCB()],
    ids=lambda each: each.name,
)
def test_others_have_no_stages_that_could_be_told(policy: AnyPolicy) -> None:
    assert policy.stages(views(gossip_matrix(GRAPHS["cycle-5"]), 3)[0]) is None


def test_a_budget_sends_coordinates_in_turn() -> None:
    agent = after_initial(DDUCB(values_per_message=3, mixing_rounds=2))
    assert staged(agent).in_flight.tolist() == [1.0, 2.0, 1.0, 1.0]
    first = agent.outgoing(1)
    assert first is not None
    assert first.tolist() == [1.0, 2.0, 1.0]
    agent.receive({1: first, 2: first})
    second = agent.outgoing(1)
    assert second is not None
    # The fourth coordinate for the first time, then the first two again, one step on.
    assert second.tolist() == pytest.approx([1.0, 1.0, 2.0])


def test_initial_rounds_are_silent() -> None:
    agent = make_agent(DDUCB(), one_view())
    assert agent.outgoing(1) is None
    agent.receive({})
    assert agent.outgoing(2) is None
    agent.receive({})
    assert agent.outgoing(1) is not None


def test_outgoing_changes_nothing_and_hands_out_no_state() -> None:
    agent = after_initial(DDUCB(remix=True, neighbor_pulls=True))
    before = agent.export_state()
    message = agent.outgoing(1)
    assert message is not None
    message[:] = 99.0
    assert agent.export_state() == before


@pytest.mark.parametrize("neighbor", [0, 5])
def test_outgoing_to_a_stranger(neighbor: int) -> None:
    for agent in (make_agent(DDUCB(), one_view()), after_initial(DDUCB())):
        with pytest.raises(InputError, match=rf"\b{neighbor}\b.*agent 0"):
            agent.outgoing(neighbor)


# What is refused.

BAD: dict[str, tuple[DDUCB, Callable[[Vector], Messages], str]] = {
    "stranger": (DDUCB(), lambda m: {1: m, 2: m, 3: m}, r"\b3\b.*agent 0"),
    "short": (DDUCB(), lambda m: {1: m, 2: m[1:]}, r"\(3,\).*\(4,\)"),
    "stamp": (
        DDUCB(), lambda m: {1: np.append(m, 2.0), 2: m},
        r"\b1\b.*stamp.* 2\b",
    ),
    "long": (DDUCB(), lambda m: {1: np.append(m, [1.0, 1.0]), 2: m}, r"\b1\b.*\(6,\)"),
    "square": (DDUCB(), lambda m: {1: m, 2: m.reshape(2, 2)}, r"\b2\b.*\(2, 2\)"),
    "nan": (DDUCB(), lambda m: {1: m, 2: m * math.nan}, r"\b2\b.*finite"),
    "infinite": (DDUCB(), lambda m: {1: m / 0.0, 2: m}, r"\b1\b.*finite"),
    "arm": (
        DDUCB(neighbor_pulls=True),
        lambda m: {1: m, 2: np.append(m[:-2], [2.0, 0.5])},
        r"\b2\b.*arm 2\.0.*0 to 1",
    ),
    "negative arm": (
        DDUCB(neighbor_pulls=True),
        lambda m: {1: m, 2: np.append(m[:-2], [-2.0, 0.5])},
        r"\b2\b.*arm -2\.0",
    ),
    "half an arm": (
        DDUCB(neighbor_pulls=True),
        lambda m: {1: m, 2: np.append(m[:-2], [0.5, 0.5])},
        r"\b2\b.*arm 0\.5",
    ),
    "minus half an arm": (
        DDUCB(neighbor_pulls=True),
        lambda m: {1: m, 2: np.append(m[:-2], [-0.5, 0.5])},
        r"\b2\b.*arm -0\.5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_messages_change_nothing(case: str) -> None:
    policy, spoil, sentence = BAD[case]
    agent = after_initial(policy)
    agent.observe(0, 0.5)
    message = agent.outgoing(1)
    assert message is not None
    before = agent.export_state()
    with np.errstate(divide="ignore"):
        messages = spoil(message)
    with pytest.raises(InputError, match=sentence):
        agent.receive(messages)
    assert agent.export_state() == before


def test_messages_in_the_initial_stage_change_nothing() -> None:
    agent = make_agent(DDUCB(), one_view())
    before = agent.export_state()
    for messages in ({1: np.zeros(4), 2: np.zeros(4)}, {1: np.zeros(0), 2: np.zeros(0)}):
        with pytest.raises(InputError, match=r"\[1, 2\]"):
            agent.receive(messages)
    assert agent.export_state() == before


def test_the_order_in_which_messages_arrive_does_not_matter() -> None:
    first, second = after_initial(DDUCB()), after_initial(DDUCB())
    one, two = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.7, 1e-9, 3.1, 1e9])
    first.receive({1: one, 2: two})
    second.receive({2: two, 1: one})
    assert first.export_state() == second.export_state()


def test_the_order_of_neighbors_in_the_view_does_not_matter() -> None:
    """A view written down in another order is the same knowledge."""
    view = one_view(neighbor_weights={2: 0.25, 1: 0.25}, num_arms=1)
    agent = make_agent(DDUCB(), view)
    agent.observe(0, 1.0)
    agent.receive({})
    agent.receive({1: np.ones(2), 2: np.ones(2)})
    assert staged(agent).rounds == 2


# What is conserved.

EXACT = [name for name in VARIANTS if not name.startswith("agents-between")]


@pytest.mark.parametrize("variant", EXACT)
def test_counts_at_a_boundary_are_the_exact_pulls(variant: str) -> None:
    matrix, num_arms = gossip_matrix(GRAPHS["cycle-5"]), 3
    agents = make_agents(VARIANTS[variant], matrix, num_arms)
    stage_rounds = staged(agents[0]).stage_rounds
    last = num_arms + 4 * stage_rounds
    rewards = rewards_tape(5, last, num_arms)
    arms: list[list[int]] = []
    for t in range(last):
        arms += drive(agents, rewards, t, t + 1).arms
        if t + 1 > num_arms and (t + 1 - num_arms) % stage_rounds == 0:
            sums, counts = np.zeros(num_arms), np.zeros(num_arms)
            for pull, row in enumerate(arms[: t + 1 - stage_rounds]):
                for i, arm in enumerate(row):
                    counts[arm] += 1
                    sums[arm] += rewards[i, pull, arm]
            settled = sum(staged(agent).settled for agent in agents)
            assert settled == pytest.approx(np.concatenate([sums, counts]), abs=1e-9)
            expected_time = 5.0 * (t + 1 - stage_rounds)
            for agent in agents:
                assert agent.machine.estimate().time == pytest.approx(expected_time, abs=1e-9)
    assert len(arms) == last


def test_weights_at_a_boundary_lie_within_epsilon() -> None:
    """Agent 0 alone saw a reward; after the stage everybody has its share, within (1 ± ε)/N."""
    agents = make_agents(DDUCB(), gossip_matrix(GRAPHS["cycle-9"]), 1)
    for i, agent in enumerate(agents):
        agent.observe(0, float(i == 0))
    for _ in range(1 + staged(agents[0]).stage_rounds):
        exchange(agents)
    shares = np.array([9 * staged(agent).settled[0] for agent in agents])
    assert np.abs(shares - 1.0).max() <= 1 / 22
    assert np.abs(shares - 1.0).max() > 0.0


def test_too_little_mixing_gives_no_information_and_never_nan() -> None:
    """Chebyshev steps overshoot: after two of them some counts are below zero."""
    agents = make_agents(DDUCB(mixing_rounds=2), gossip_matrix(GRAPHS["cycle-9"]), 2)
    for i, agent in enumerate(agents):
        agent.observe(0, 1.0)
        if i == 1:
            agent.observe(1, 1.0)
    for _ in range(2 + 2):
        exchange(agents)
    counts = np.array([agent.machine.estimate().counts for agent in agents])
    assert (counts[:, 1] < 0.0).any()
    for agent, count in zip(agents, counts[:, 1], strict=True):
        values = played_values(agent, agent.machine.estimate())
        assert not np.isnan(values).any()
        assert (values[1] == math.inf) == (count <= 9e-12)
        if count < 0.0:
            assert agent.choose(0) == 1


# What is read at once.


def test_neighbors_pulls_are_read_once_and_without_mixing() -> None:
    agent = after_initial(DDUCB(neighbor_pulls=True))
    before = staged(agent).settled.copy()
    message = np.array([1.0, 2.0, 1.0, 1.0])
    agent.receive({1: np.append(message, [1.0, 6.0]), 2: np.append(message, [-1.0, 0.0])})
    gained = staged(agent).settled - before
    assert gained.tolist() == pytest.approx([0.0, 6.0 / 3, 0.0, 1.0 / 3])


def test_a_pull_is_told_in_its_own_round_only() -> None:
    agent = after_initial(DDUCB(neighbor_pulls=True))
    agent.observe(1, 0.5)
    told = agent.outgoing(1)
    assert told is not None
    assert told[-2:].tolist() == [1.0, 0.5]
    agent.receive({1: told, 2: told})
    silent = agent.outgoing(1)
    assert silent is not None
    assert silent[-2] == -1.0


def test_initial_pulls_are_not_told_later() -> None:
    """A round of the first stage without a pull tells of none."""
    message = after_initial(DDUCB(neighbor_pulls=True)).outgoing(1)
    assert message is not None
    assert message[-2:].tolist() == [-1.0, 0.0]


def test_settled_is_a_copy_of_accumulated() -> None:
    """Own pulls read at once must not be counted a second time when they arrive mixed."""
    agents = make_agents(DDUCB(mixing_rounds=2), gossip_matrix(GRAPHS["path-4"]), 2)
    drive(agents, rewards_tape(4, 5, 2), 0, 5)
    inside = staged(agents[0])
    assert inside.settled[2:].sum() == pytest.approx(inside.accumulated[2:].sum() + 1 / 4)


def test_an_interval_of_n_weighs_pulls_by_the_upper_and_counts_by_the_lower_bound() -> None:
    agent = make_agent(DDUCB(num_agents=(2, 8), mixing_rounds=3), one_view(num_agents=None))
    for arm in (0, 1):
        agent.observe(arm, 4.0)
        agent.receive({})
    estimate = agent.machine.estimate()
    assert estimate.counts.tolist() == pytest.approx([2 / 8, 2 / 8])
    assert estimate.sums.tolist() == pytest.approx([4 * 2 / 8, 4 * 2 / 8])
    assert (estimate.time, estimate.num_agents) == (2.0, 2)
    agent.observe(0, 4.0)
    assert agent.machine.estimate().time == pytest.approx(3.0)
