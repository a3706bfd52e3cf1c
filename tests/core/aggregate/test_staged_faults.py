"""Staged mixing where messages get lost: mass, error, what is said about it and what is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from coopbandits.core import DDUCB, CooperativeAgent, IndependentUCB, InputError, Policy
from coopbandits.core.draws import words

from ..fleet import (
    GRAPHS,
    gossip_matrix,
    make_agent,
    make_agents,
    one_view,
    rewards_tape,
    second_eigenvalue,
    staged,
    through_json,
)
from ..lossy import Lost, lossy_exchange, nothing_lost, outages
from ..variants import VARIANTS

Floats = NDArray[np.float64]

REPEATABLE = settings(max_examples=8, deadline=None, derandomize=True, database=None)

# The error of one stage on a cycle of 50, as in the specification.

CYCLE = gossip_matrix(nx.cycle_graph(50))
STEPS = 75


def unguarded(lost: Callable[[int], Lost], *, accelerated: bool) -> Floats:
    """Mix e_0 over a network whose failed links fall to the diagonal; no guard."""
    lam = second_eigenvalue(CYCLE)
    y: Floats = np.eye(50)[0]
    before, rho = np.zeros(50), 0.0
    for number in range(STEPS):
        links = np.where(lost(number) | np.eye(50, dtype=bool), 0.0, CYCLE)
        mixed = y + (links * (y[None, :] - y[:, None])).sum(axis=1)
        if accelerated:
            factor = (2.0 if rho else 1.0) / lam
            rho_next = 1.0 / (factor - rho)
            mixed, before, rho = rho_next * (factor * mixed - rho * before), y, rho_next
        y = mixed
    return y


def through_agents(lost: Callable[[int], Lost], policy: DDUCB) -> Floats:
    """The same start and the same outages, mixed by DDUCB's agents; agent 0 saw a reward of 1."""
    agents = make_agents(policy, CYCLE, num_arms=1)
    for i, agent in enumerate(agents):
        agent.observe(0, float(i == 0))
    lossy_exchange(agents, nothing_lost(50))
    for number in range(STEPS):
        lossy_exchange(agents, lost(number))
    return np.array([staged(agent).accumulated[0] for agent in agents])


def error(y: Floats) -> float:
    return float(50 * np.linalg.norm(y - 1 / 50))


def mean_error(rate: float, schedules: int, *, accelerated: bool) -> float:
    return float(
        np.mean(
            [
                error(unguarded(outages(50, rate, key), accelerated=accelerated))
                for key in range(schedules)
            ]
        )
    )


@pytest.mark.slow
def test_unguarded_acceleration_blows_up() -> None:
    """The numbers of the specification: 0.03, 0.4, 98 and 10⁵, where plain mixing has 7 to 10."""
    assert mean_error(0.0, 1, accelerated=True) == pytest.approx(0.03, abs=0.002)
    assert 0.25 < mean_error(0.05, 20, accelerated=True) < 0.7
    assert 30.0 < mean_error(0.2, 20, accelerated=True) < 300.0
    assert mean_error(0.5, 20, accelerated=True) > 1e4
    for rate in (0.0, 0.05, 0.2, 0.5):
        assert 7.0 < mean_error(rate, 5, accelerated=False) < 10.0


@pytest.mark.covering(1)
@pytest.mark.plays
@pytest.mark.parametrize(("rate", "most"), [(0.0, 0.03), (0.05, 1.0), (0.2, 3.5), (0.5, 8.5)])
def test_agents_do_not_blow_up(rate: float, most: float) -> None:
    """Through the same outages the sum is kept, and plain mixing is never the better choice."""
    lost = outages(50, rate, key=0)
    y = through_agents(lost, DDUCB(mixing_rounds=STEPS))
    assert y.sum() == pytest.approx(1.0, abs=1e-12)
    assert error(y) < most
    assert error(y) < error(unguarded(lost, accelerated=False))


@pytest.mark.plays
@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_one_way_loss_costs_less_than_half_more_than_plain_mixing(rate: float) -> None:
    lost = outages(50, rate, key=0, one_way=True)
    y = through_agents(lost, DDUCB(mixing_rounds=STEPS))
    assert error(y) < 1.5 * error(unguarded(lost, accelerated=False))


def test_plain_agents_take_a_missing_neighbor_for_themselves() -> None:
    lost = outages(50, 0.3, key=3)
    y = through_agents(lost, DDUCB(mixing_rounds=STEPS, accelerated=False))
    assert y == pytest.approx(unguarded(lost, accelerated=False), abs=1e-12)


def test_links_that_fail_every_other_round_mix_plainly() -> None:
    """Momentum that is kept over such gaps would grow without bound."""
    gone = ~np.eye(50, dtype=bool)
    y = through_agents(lambda number: gone & bool(number % 2), DDUCB(mixing_rounds=STEPS))
    assert y == pytest.approx(np.linalg.matrix_power(CYCLE, 38)[0], abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("one_way", [False, True])
@pytest.mark.parametrize("rate", [0.02, 0.05, 0.1, 0.2, 0.3, 0.5])
def test_the_table_of_errors(rate: float, one_way: bool) -> None:
    """The table of the decision on momentum: means over 20 schedules, and the sum's deviation."""
    plain, bare, guarded, sums = [], [], [], []
    for key in range(20):
        lost = outages(50, rate, key, one_way=one_way)
        plain.append(error(unguarded(lost, accelerated=False)))
        bare.append(error(unguarded(lost, accelerated=True)))
        y = through_agents(lost, DDUCB(mixing_rounds=STEPS))
        guarded.append(error(y))
        sums.append(float(y.sum()))
    print(
        f"one_way={one_way} rate={rate}: plain {np.mean(plain):.3g}, unguarded "
        f"{np.mean(bare):.3g}, guarded {np.mean(guarded):.3g}, sum ± {np.std(sums):.2g}"
    )
    assert np.mean(guarded) < (1.25 if one_way else 1.0) * np.mean(plain)


# Mass.


def mass(agents: list[CooperativeAgent]) -> Floats:
    parts = [(s.accumulated, s.in_flight, s.fresh) for s in map(staged, agents)]
    return np.asarray(np.sum(parts, axis=(0, 1)))


def play(agents: list[CooperativeAgent], rewards: Floats, number: int, lost: Lost) -> list[int]:
    """One round of one pull per agent; returns the arms."""
    arms = [agent.choose(0) for agent in agents]
    for i, (agent, arm) in enumerate(zip(agents, arms, strict=True)):
        agent.observe(arm, float(rewards[i, number, arm]))
    lossy_exchange(agents, lost)
    return arms


SOME = ("default", "unaccelerated", "neighbors", "remix", "remix-plain", "budget-4", "short-budget")
GRAPH = "grid-2x4"
REWARDS = rewards_tape(8, 80, 3)


def symmetric(bits: list[bool]) -> Lost:
    """Turn one bit per pair of agents into what both ends lose."""
    lost = nothing_lost(8)
    lost[np.triu_indices(8, 1)] = bits
    return lost | lost.T


@REPEATABLE
@given(
    st.sampled_from(SOME), st.lists(st.lists(st.booleans(), min_size=28, max_size=28), max_size=9)
)
def test_symmetric_outages_keep_the_mass(variant: str, schedule: list[list[bool]]) -> None:
    agents = make_agents(VARIANTS[variant], gossip_matrix(GRAPHS[GRAPH]), 3)
    observed = np.zeros(6)
    for number in range(24):
        bits = schedule[number % len(schedule)] if schedule else [False] * 28
        for i, arm in enumerate(play(agents, REWARDS, number, symmetric(bits))):
            observed[arm] += REWARDS[i, number, arm]
            observed[3 + arm] += 1.0
        assert mass(agents) == pytest.approx(observed, abs=1e-9)


@pytest.mark.covering
@pytest.mark.parametrize("variant", ["default", "unaccelerated", "budget-4", "neighbors"])
@pytest.mark.parametrize("number", [3, 5, 7, 8, 12])
def test_a_message_lost_one_way_is_made_good(variant: str, number: int) -> None:
    """Whichever round of a stage it is, the last one included.

    Agent 1 misses agent 0 once. It asks for stamps, and does without agent 0 until these come.
    """
    agents = make_agents(VARIANTS[variant], gossip_matrix(GRAPHS["cycle-5"]), 3)
    lost = nothing_lost(5)
    lost[1, 0] = True
    rewards = rewards_tape(5, 20, 3)
    for t in range(number):
        play(agents, rewards, t, nothing_lost(5))
    before = mass(agents)
    sizes = [lossy_exchange(agents, lost)]
    assert np.abs(mass(agents) - before).max() > 1e-6
    sizes += [lossy_exchange(agents, nothing_lost(5)) for _ in range(3)]
    assert mass(agents) == pytest.approx(before, abs=1e-9)
    assert [sum(round_sizes) - 10 * min(round_sizes) for round_sizes in sizes] == [0, 1, 2, 2]
    assert staged(agents[0]).diagnostics["undone_flows"] == 2
    assert staged(agents[1]).diagnostics["missed_messages"] == 2


def test_both_ends_restart_after_a_one_way_loss() -> None:
    agents = make_agents(DDUCB(mixing_rounds=9), gossip_matrix(GRAPHS["cycle-5"]), 3)
    rewards = rewards_tape(5, 20, 3)
    lost = nothing_lost(5)
    lost[1, 0] = True
    for t in range(6):
        play(agents, rewards, t, nothing_lost(5))
    play(agents, rewards, 6, lost)
    play(agents, rewards, 7, nothing_lost(5))
    play(agents, rewards, 8, nothing_lost(5))
    first, second = staged(agents[0]), staged(agents[1])
    assert first.neighbors[0] == 1
    assert second.neighbors[0] == 0
    assert first.flows[0] == pytest.approx(-second.flows[0], abs=1e-12)
    assert (first.rho[0] == second.rho[0]).all()
    assert (first.rho[0] < first.rho[1]).all() or (first.rho[0] > first.rho[1]).all()


def late_exchange(
    agents: list[CooperativeAgent], number: int, late: NDArray[np.int64], mail: dict[Any, Any]
) -> None:
    """End a round in which messages are late by so many rounds; the newest of a link is taken."""
    for sender, agent in enumerate(agents):
        for neighbor in agent.view.neighbor_weights:
            mail.setdefault(number + late[neighbor, sender], {}).setdefault(neighbor, {})[
                sender
            ] = agent.outgoing(neighbor)
    due = mail.pop(number, {})
    for i, agent in enumerate(agents):
        agent.receive(due.get(i, {}))


@pytest.mark.covering(3)
@pytest.mark.parametrize("variant", SOME)
def test_late_messages_count_as_lost(variant: str) -> None:
    """Late by up to three rounds, both directions alike: what comes late must move nothing."""
    agents = make_agents(VARIANTS[variant], gossip_matrix(GRAPHS[GRAPH]), 3)
    for t in range(3):
        play(agents, REWARDS, t, nothing_lost(8))
    before, mail = mass(agents), dict[Any, Any]()
    for number in range(30):
        draws = words(number, np.arange(64, dtype=np.uint64)).reshape(8, 8) % np.uint64(4)
        late = np.triu(draws, 1) + np.triu(draws, 1).T
        late_exchange(agents, number, late.astype(np.int64), mail)
        assert mass(agents) == pytest.approx(before, abs=1e-9)
    assert staged(agents[0]).diagnostics["restarted_links"] > 0


# What is counted, remembered and refused.


def test_diagnostics_count_what_happened() -> None:
    agents = make_agents(DDUCB(mixing_rounds=4), gossip_matrix(GRAPHS["cycle-5"]), 2)
    rewards = rewards_tape(5, 40, 2)
    gone = nothing_lost(5)
    gone[0, 1] = gone[1, 0] = True
    for t in range(12):
        play(agents, rewards, t, gone if t in (0, 3, 4, 7) else nothing_lost(5))
    # Nothing is sent in the initial rounds 0 and 1; stages are 2 to 5, 6 to 9 and 10 to 13.
    for agent in agents[:2]:
        assert staged(agent).diagnostics == {
            "missed_messages": 3, "undone_flows": 0, "restarted_links": 2, "touched_stages": 2,
            "overruled_counts": 0,
        }  # fmt: skip
    assert not any(staged(agents[3]).diagnostics.values())


@pytest.mark.covering(3)
@pytest.mark.parametrize("variant", SOME)
def test_a_restart_amid_losses_changes_nothing(variant: str) -> None:
    policy, matrix = VARIANTS[variant], gossip_matrix(GRAPHS[GRAPH])
    agents, restarted = make_agents(policy, matrix, 3), make_agents(policy, matrix, 3)
    lost = outages(8, 0.3, 5, one_way=True)
    for number in range(25):
        for i, old in enumerate(restarted):
            restarted[i] = make_agent(policy, old.view)
            restarted[i].restore_state(through_json(old.export_state()))
        arms = play(agents, REWARDS, number, lost(number))
        assert play(restarted, REWARDS, number, lost(number)) == arms
    assert [a.export_state() for a in agents] == [a.export_state() for a in restarted]
    assert staged(agents[0]).diagnostics["undone_flows"] > 0


@pytest.mark.parametrize("field", ["flows", "rho"])
def test_a_state_with_other_links_is_refused(field: str) -> None:
    agent = make_agent(DDUCB(), one_view())
    state = agent.export_state()
    state["aggregation"][field] = state["aggregation"][field][:1]
    with pytest.raises(InputError, match=rf"{field}.*\(1, [14]\)"):
        agent.restore_state(state)


# What the variants do with a missing message.


def triangle(**settings: Any) -> CooperativeAgent:
    """An agent of a triangle after its initial rounds: it saw 1 and 2."""
    agent = make_agent(DDUCB(mixing_rounds=3, **settings), one_view())
    for arm in range(2):
        agent.observe(arm, 1.0 + arm)
        agent.receive({})
    return agent


def test_remix_takes_a_missing_neighbor_for_itself() -> None:
    agent = triangle(remix=True)
    staged(agent).accumulated = np.array([4.0, 0.0, 8.0, 2.0])
    heard = np.concatenate([staged(agent).in_flight, [0.0, 4.0, 0.0, 2.0]])
    agent.receive({2: heard})
    assert staged(agent).accumulated.tolist() == [3.0, 1.0, 6.0, 2.0]


def test_a_missing_neighbors_pull_is_not_read() -> None:
    agent = triangle(neighbor_pulls=True)
    before = staged(agent).settled.copy()
    agent.receive({2: np.append(staged(agent).in_flight, [1.0, 6.0])})
    assert (staged(agent).settled - before).tolist() == pytest.approx([0.0, 2.0, 0.0, 1 / 3])
    agent.receive({})
    assert (staged(agent).settled - before).tolist() == pytest.approx([0.0, 2.0, 0.0, 1 / 3])


def test_a_stamp_does_not_hide_a_wrong_arm() -> None:
    agent = triangle(neighbor_pulls=True)
    message = np.concatenate([staged(agent).in_flight, [5.0, 6.0, -3.0]])
    with pytest.raises(InputError, match=r"\b1\b.*arm 5\.0"):
        agent.receive({1: message})


def test_what_is_no_vector_is_not_taken_for_a_late_message() -> None:
    agent = triangle()
    agent.receive({})
    before = agent.export_state()
    for message in (np.ones((2, 2)), np.full(4, np.nan)):
        with pytest.raises(InputError, match="message from 1"):
            agent.receive({1: message})
    assert agent.export_state() == before
    agent.receive({1: np.ones(3)})
    assert staged(agent).diagnostics["missed_messages"] == 4


def test_silence_for_a_whole_stage_leaves_the_own_pulls() -> None:
    agent = triangle()
    for _ in range(3):
        agent.receive({})
    assert staged(agent).settled.tolist() == [1.0, 2.0, 1.0, 1.0]


# Counts that are not possible.


@pytest.mark.parametrize("remix", [False, True])
@pytest.mark.parametrize("fault", [False, True])
def test_after_a_fault_impossible_counts_give_way_to_own_pulls(fault: bool, remix: bool) -> None:
    """Neighbours send a count of −9 for arm 1, of which the agent made one pull itself."""
    agent = triangle(remix=remix, own_pulls=not remix)
    wrong = np.array([9.0, 9.0, 9.0, -9.0])
    for number in range(3):
        sent = np.append(wrong, staged(agent).accumulated) if remix else wrong
        stamp = [2.0 + number + 1.0] if fault and number else []
        heard = {1: np.append(sent, stamp), 2: sent}
        agent.receive({2: sent} if fault and number == 0 else heard)
    estimate = agent.machine.estimate()
    assert estimate.counts[0] > 1.0
    if not fault:
        assert estimate.counts[1] < 0.0
    else:
        assert (estimate.sums[1], estimate.counts[1]) == pytest.approx((2.0, 1.0))
    assert staged(agent).diagnostics["overruled_counts"] == int(fault)


# Playing.

HORIZON = 250


def pulls_of_best(policy: Policy, lost: Callable[[int], Lost]) -> tuple[int, list[Any]]:
    rewards, matrix = rewards_tape(8, HORIZON, 3), gossip_matrix(GRAPHS[GRAPH])
    agents = make_agents(policy, matrix, 3)
    arms = [play(agents, rewards, number, lost(number)) for number in range(HORIZON)]
    return int((np.array(arms) == 2).sum()), agents


@pytest.mark.plays
@pytest.mark.parametrize("one_way", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_dducb_plays_well_with_one_message_in_five_lost(one_way: bool) -> None:
    lost = outages(8, 0.2, 1, one_way=one_way)
    found, agents = pulls_of_best(DDUCB(), lost)
    alone, _ = pulls_of_best(IndependentUCB(), lost)
    whole, _ = pulls_of_best(DDUCB(), lambda number: nothing_lost(8))
    assert found > alone + 0.5 * (whole - alone)
    for agent in agents:
        counts = agent.machine.estimate().counts
        assert (counts >= 0.0).all()
        assert counts.sum() < 8 * HORIZON
