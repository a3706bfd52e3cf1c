"""Lies that are mixed in cannot be taken out again: they are bounded, and a new epoch ends them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from coopbandits.core import InputError, Machine, Vector
from coopbandits.core.aggregate import Claims, PullMixing, RunningConsensus, StagedMixing
from coopbandits.core.aggregate.claims import LARGEST, SLACK
from coopbandits.core.aggregate.staged_mixing import STAMPED
from coopbandits.core.draws import uniforms, words

from ..fleet import machine, one_view
from ..liars import BOTH_GRAPHS, GRAPHS, MAX_AGENTS, NUM_ARMS, PACE, RATE, Den

Averages = Callable[[float, "Den[Any]"], list[float]]
"""The lie of a round, as [reward sums | pulls], from what one agent can have pulled by now."""


def arm_zero(most: float, _: Den[Any]) -> list[float]:
    return [most, 0.0, most, 0.0]


def nothing_at_all(_: float, __: Den[Any]) -> list[float]:
    return [0.0] * 4


def from_arm_to_arm(most: float, now: Den[Any]) -> list[float]:
    odd = float(now.rounds % 2)
    return [0.0, most * odd, most * (1.0 - odd), most * odd]


def now_and_then(most: float, now: Den[Any]) -> list[float]:
    return [0.0, most, 0.0, most] if now.rounds // 7 % 2 else [0.0] * 4


def anything(most: float, now: Den[Any]) -> list[float]:
    places = np.arange(4 * now.rounds, 4 * now.rounds + 4, dtype=np.uint64)
    part, whole, *paid = uniforms(words(7, places)).tolist()
    counts = most * whole**0.1 * np.array([part**3, 1.0 - part**3])
    return [*(counts * np.round(paid)), *counts]


LIES: tuple[Averages, ...] = (arm_zero, nothing_at_all, from_arm_to_arm, now_and_then, anything)
MIXING: dict[str, tuple[Any, list[float]]] = {
    "pull-mixing": (PullMixing(), [2.0, 1.0]),
    "running-consensus": (RunningConsensus(), []),
}
"""Aggregations that mix averages, and what follows these in a message."""


def lied_to(name: str, graph: str, lie: Averages) -> Den[Any]:
    spec, tail = MIXING[name]
    world: Den[Machine] = Den(partial(machine, spec), GRAPHS[graph])
    whole = 1.0 - 1e-9  # rounding is not what this is about

    def say(_: int, now: Den[Machine]) -> Vector:
        return np.array([*lie(whole * now.most_pulls(), now), *tail])

    world.lie = say
    return world


@pytest.mark.covering(2)
@pytest.mark.plays
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
@pytest.mark.parametrize("graph", BOTH_GRAPHS)
@pytest.mark.parametrize("name", MIXING)
def test_averages_shift_by_no_more_than_one_agent_can_have_pulled(
    name: str, graph: str, lie: Averages
) -> None:
    world, honest = lied_to(name, graph, lie), lied_to(name, graph, lie)
    honest.lie = None
    for _ in range(150):
        world.run(1)
        honest.run(1)
        for here, there in zip(world.honest, honest.honest, strict=True):
            assert world.claims[0].most_pulls(world.now()) == RATE * (world.rounds / PACE + SLACK)
            assert here.mixed[NUM_ARMS:].sum() <= world.most_pulls()
            assert (here.mixed[:NUM_ARMS] <= here.mixed[NUM_ARMS:] + 1e-6).all()
            assert here.mixed.min() >= 0.0
            assert abs(here.mixed - there.mixed).max() <= world.most_pulls()
    assert world.refused == []  # the lie passed, and made nobody refuse anybody else


@pytest.mark.parametrize("name", MIXING)
def test_the_bound_is_reached_so_it_is_not_too_good_to_be_true(name: str) -> None:
    world = lied_to(name, "random", arm_zero)
    world.run(150)
    assert min(agent.mixed[NUM_ARMS] for agent in world.honest) > 0.5 * world.most_pulls()


@pytest.mark.parametrize("name", MIXING)
def test_a_new_epoch_ends_a_shift_and_old_claims_are_refused_in_it(name: str) -> None:
    world = lied_to(name, "ring", arm_zero)
    world.run(40)
    assert world.agents[1].estimate().counts[0] > world.most_pulls()
    world.rounds += 4000
    spec, tail = MIXING[name]
    message = np.array([*arm_zero(world.most_pulls(), world), *tail])
    fresh = machine(spec, world.views[1])
    assert fresh.estimate().counts.sum() == 0.0
    with pytest.raises(InputError, match="at most 2400"):
        fresh.check_claims(message, Claims(True, RATE, world.now(), MAX_AGENTS), world.now())


@pytest.mark.parametrize("name", MIXING)
@pytest.mark.parametrize(
    "values",
    [
        [0.0, 0.0, -1.0, 5.0],
        [0.0, 0.0, 1e9, -1e9],
        [2.0, 0.0, 1.0, 1.0],
        [-1.0, 0.0, 1.0, 1.0],
        [0.0, 0.0, 1e9, 0.0],
    ],
)
def test_averages_that_cannot_be_are_refused(name: str, values: list[float]) -> None:
    spec, tail = MIXING[name]
    mine = machine(spec, one_view())
    with pytest.raises(InputError, match="a claim of"):
        mine.check_claims(np.array([*values, *tail]), Claims(True, RATE, 0.0, 9), 10.0)


@pytest.mark.parametrize("name", MIXING)
def test_without_a_range_of_rewards_sums_stay_finite(name: str) -> None:
    spec, tail = MIXING[name]
    mine, free = machine(spec, one_view()), Claims(False, RATE, 0.0, 9)
    for sign in (1.0, -1.0):
        mine.check_claims(np.array([sign * LARGEST, 0.0, 1.0, 1.0, *tail]), free, 10.0)
        with pytest.raises(InputError, match=r"1e\+308"):
            mine.check_claims(np.array([sign * 1e308, 0.0, 1.0, 1.0, *tail]), free, 10.0)


def test_with_negative_weights_running_consensus_asks_for_finite_values_alone() -> None:
    mine = machine(RunningConsensus(), one_view(own_weight=1.25, neighbor_weights={1: -0.25}))
    mine.check_claims(np.array([0.0, 0.0, -5.0, 5.0]), Claims(True, RATE, 0.0, 9), 10.0)


def constant(_: int, __: Any) -> float:
    return 1.0


def negative(_: int, __: Any) -> float:
    return -1.0


def stage_by_stage(rounds: int, mine: Any) -> float:
    return 1.0 if (rounds - NUM_ARMS) // mine.stage_rounds % 2 else -1.0


def to_and_fro(rounds: int, _: Any) -> float:
    return 1.0 if rounds // 3 % 2 else -1.0


STAGED: dict[str, StagedMixing] = {
    "accelerated": StagedMixing(),
    "plain": StagedMixing(accelerated=False),
    "remixed": StagedMixing(remix=True),
    "few values": StagedMixing(values_per_message=3),
}


def staged(kind: str, graph: str, liars: tuple[int, ...] = (0,)) -> Den[Any]:
    return Den(partial(machine, STAGED[kind]), GRAPHS[graph], liars)


@pytest.mark.covering(2)
@pytest.mark.plays
@pytest.mark.parametrize("lie", [constant, negative, stage_by_stage, to_and_fro])
@pytest.mark.parametrize("graph", BOTH_GRAPHS)
@pytest.mark.parametrize("kind", STAGED)
def test_what_is_mixed_in_stages_shifts_by_no_more_than_all_can_have_pulled(
    kind: str, graph: str, lie: Callable[[int, Any], float]
) -> None:
    """However often it is repeated; a stage under way may overshoot by half as much."""
    world = staged(kind, graph)
    victim = world.agents[1]

    def most() -> float:
        return len(world.agents) * world.most_pulls()

    def say(_: int, now: Den[Any]) -> Vector | None:
        if victim.initial:
            return None
        wanted = np.full(victim.accumulated.size, 0.999 * lie(now.rounds, victim) * most())
        whole = np.append(wanted - victim.accumulated, wanted)
        sent = victim.outgoing(victim.neighbors[0])
        stamps = int(victim.state.faulty[0, STAMPED])  # which not all receivers expect
        return whole[: sent.size - stamps]

    world.lie = say
    shifts = []
    for _ in range(250):
        world.run(1)
        shifts.append(max(abs(a.accumulated).max() for a in world.honest) / most())
        assert all(np.isfinite([*a.estimate().sums, a.estimate().time]).all() for a in world.honest)
    assert max(shifts) <= 1.5
    assert max(shifts) > 0.05


@pytest.mark.covering(2)
@pytest.mark.parametrize("kind", STAGED)
def test_honest_stages_are_never_refused(kind: str) -> None:
    """Even where every agent pulls as fast as it may, and one alone at first."""
    for graph in GRAPHS:
        world = staged(kind, graph, liars=())
        for now in range(150):
            for agent in world.agents[: 1 if now < 60 else 8]:
                for _ in range(int(RATE / PACE) if now else int(RATE * SLACK)):
                    agent.observe(0, 1.0)
            world.step()
        assert world.refused == []


@pytest.mark.parametrize("kind", STAGED)
def test_values_in_flight_that_cannot_be_are_refused(kind: str) -> None:
    world = staged(kind, "ring")
    world.run(10)
    mine = world.agents[1]
    before = mine.export_state()
    for huge in (1e5, -1e5, 1e300):
        for at in range(mine.count):  # what follows, if anything does, is a stamp
            message = mine.outgoing(mine.neighbors[0])
            message[at] = huge
            with pytest.raises(InputError, match="a claim of"):
                mine.check_claims(message, world.claims[1], world.now())
    assert mine.export_state() == before
