"""Forgetting: what is read is exactly the pulls known, each counted by its age."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import (
    UCB,
    AnyAggregation,
    ArmSums,
    CentralTotals,
    Estimate,
    FloodedTotals,
    InputError,
    LedgerSums,
    LocalSums,
    LocalView,
    Machine,
    PullMixing,
    Registers,
    RunningConsensus,
    Share,
    StagedMixing,
    Statistic,
    TreeSums,
    Vector,
    combine,
)
from coopbandits.core.aggregate.flooded_totals import FloodedTotalsMachine
from coopbandits.core.aggregate.forgetting import decayed_rounds
from coopbandits.core.statistic import VersionedRegisters
from coopbandits.testing import check_policy

from ..fleet import GRAPHS, one_view
from ..ledgers import in_a_hurry
from ..rough import CALM, NUM_ARMS, Rough, Schedule, graphs, schedules

GAMMA = 0.9
ROUNDS = 30
CARRIERS: tuple[AnyAggregation, ...] = (
    LocalSums(), TreeSums(), FloodedTotals(), LedgerSums(), RunningConsensus(), PullMixing(),
    StagedMixing(mixing_rounds=4),
)  # fmt: skip
ROLL = 400
"""Pulls that can be told apart."""


def ids(spec: Any) -> str:
    return str(spec.spelling)


@dataclass(frozen=True)
class Roll(Statistic):
    """One register per pull: how much of it is in a total. Rewards are the numbers of pulls."""

    name: ClassVar[str] = "roll"

    def registers(self, num_arms: int) -> Registers:
        return RollRegisters(num_arms)


class RollRegisters(Registers):
    """[how often every pull counts]."""

    def __init__(self, num_arms: int) -> None:
        self.num_arms, self.size, self.names = num_arms, ROLL, ("pull",) * ROLL

    def add(self, values: Vector, arm: int, reward: float, weight: float = 1.0) -> None:
        values[int(reward)] += weight

    def read(
        self, values: Vector, *, time: float, num_agents: float, anticipation: float = 1.0
    ) -> Estimate:
        return Estimate(values, values, time, num_agents, anticipation)

    def share(self, values: Vector) -> Share:
        return Share(values.copy(), values.copy())

    def version(self, values: Any) -> Any:
        return values.sum(axis=-1)

    @property
    def nonnegative(self) -> Any:
        return np.ones(ROLL, dtype=bool)

    def by_arm(self, values: Any) -> Any:
        return values[..., None, :]

    def excess(self, values: Any, bounded: bool) -> str:
        return ""


@dataclass
class Pull:
    """A pull, and when it was made."""

    round: int
    arm: int
    reward: float


class Twins:
    """Machines that forget, beside machines of γ = 1 that know which pulls they know of."""

    def __init__(self, spec: AnyAggregation, graph: nx.Graph[Any], gamma: float = GAMMA) -> None:
        fading: Any = replace(spec, discount=gamma)  # type: ignore[type-var]  # a dataclass each
        self.gamma = gamma
        self.fading = Rough(self.maker(fading, ArmSums()), graph)
        self.roll = Rough(self.maker(spec, Roll()), graph)
        self.pulls: list[Pull] = []

    @staticmethod
    def maker(spec: AnyAggregation, statistic: Statistic) -> Callable[[LocalView], Machine]:
        return lambda view: spec.make(view, statistic.registers(NUM_ARMS))

    def step(self, schedule: Schedule, *, pulling: bool = True) -> None:
        """Let everybody who is awake pull, some twice, and end the round."""
        now = self.fading.now
        for i, (one, other) in enumerate(zip(self.fading.agents, self.roll.agents, strict=True)):
            for extra in range(1 + (now % 5 == i)):
                if pulling and not schedule.sleeps(now, i):
                    pull = Pull(now, (now + i + extra) % NUM_ARMS, float((3 * now + 5 * i) % 7))
                    one.observe(pull.arm, pull.reward)
                    other.observe(pull.arm, len(self.pulls))
                    self.pulls.append(pull)
        self.fading.step(schedule)
        self.roll.step(schedule)

    def expected(self, agent: int) -> tuple[Vector, Vector]:
        """What an agent must read: every pull it knows of, times γ to its age."""
        known, sums, counts = self.roll.agents[agent].estimate().counts, *np.zeros((2, NUM_ARMS))
        for pull, times in zip(self.pulls, known, strict=False):
            weight = times * self.gamma ** (self.fading.now - pull.round)
            sums[pull.arm] += weight * pull.reward
            counts[pull.arm] += weight
        return sums, counts

    def check(self) -> None:
        for i, machine in enumerate(self.fading.agents):
            sums, counts = self.expected(i)
            found = machine.estimate()
            np.testing.assert_allclose(found.sums, sums, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(found.counts, counts, rtol=1e-9, atol=1e-9)
            assert found.num_agents == self.roll.agents[i].estimate().num_agents


@pytest.mark.covering(1)
@pytest.mark.plays
@given(graph=graphs(largest=8), schedule=schedules, gamma=st.sampled_from([0.5, 0.9, 0.99]))
@settings(max_examples=10, deadline=None)
@pytest.mark.parametrize("spec", [TreeSums(), FloodedTotals(), LedgerSums()], ids=ids)
def test_what_is_read_is_the_discounted_sum_of_what_is_known(
    spec: AnyAggregation, graph: Any, schedule: Schedule, gamma: float
) -> None:
    """Random graphs, 0 to 90 % loss, sleeps, delays: every pull ages from when it was made."""
    twins = Twins(spec, graph, gamma)
    with in_a_hurry():
        for _ in range(ROUNDS):
            twins.step(schedule)
    twins.check()


LOSSY = Schedule(key=5, loss=0.4, late=0, sleep=0.1, spell=0, both_ways=False)


@pytest.mark.covering
@pytest.mark.parametrize("late", [0, 3])
@pytest.mark.parametrize("spec", CARRIERS, ids=ids)
def test_everything_that_travels_ages_under_loss_and_delay(spec: AnyAggregation, late: int) -> None:
    """Mixing is linear: of every pull an agent has γ to its age of what it has at γ = 1.

    Staged mixing is not under loss, where it reads own pulls instead of impossible counts.
    """
    twins = Twins(spec, GRAPHS["grid-2x4"])
    schedule = CALM if isinstance(spec, StagedMixing) else replace(LOSSY, late=late)
    with in_a_hurry():
        for _ in range(ROUNDS):
            twins.step(schedule)
            twins.check()


@pytest.mark.covering(4)
@pytest.mark.parametrize("spec", CARRIERS, ids=ids)
def test_a_restored_machine_goes_on_exactly(spec: AnyAggregation) -> None:
    here, there = (Twins(spec, GRAPHS["cycle-5"]) for _ in range(2))
    for _ in range(15):
        there.fading.restart()
        for twins in (here, there):
            twins.step(LOSSY)
    for one, other in zip(here.fading.agents, there.fading.agents, strict=True):
        assert one.export_state() == other.export_state()


@pytest.mark.parametrize("spec", CARRIERS, ids=ids)
def test_a_discount_of_1_is_no_discount(spec: AnyAggregation) -> None:
    assert replace(spec, discount=1.0) == spec  # type: ignore[type-var]  # a dataclass each
    assert "discount" not in spec.spelling
    worlds = [Twins(spec, GRAPHS["cycle-5"], 1.0).fading for _ in range(1)]
    plain = Rough(Twins.maker(spec, ArmSums()), GRAPHS["cycle-5"])
    for _ in range(20):
        for world in (*worlds, plain):
            world.pull()
            world.step(LOSSY)
    for one, other in zip(worlds[0].agents, plain.agents, strict=True):
        assert one.export_state() == other.export_state()
        assert "clock" not in one.export_state()


@pytest.mark.parametrize("spec", [TreeSums(), FloodedTotals(), PullMixing(), RunningConsensus()])
def test_clocks_are_rounds_where_rounds_are_common(spec: Any) -> None:
    world = Rough(Twins.maker(replace(spec, discount=GAMMA), ArmSums()), GRAPHS["cycle-5"])
    for rounds in range(1, 12):
        world.pull()
        world.step(LOSSY if rounds > 5 else CALM)
        assert {agent.export_state()["clock"] for agent in world.agents} == {rounds}


@pytest.mark.parametrize("spec", [TreeSums(), FloodedTotals(), PullMixing(), RunningConsensus()])
def test_a_slow_agent_ages_at_the_pace_of_the_fastest(spec: Any) -> None:
    """Two agents, one of which ends three rounds in the time of one."""
    slow, fast = (
        Twins.maker(replace(spec, discount=GAMMA), ArmSums())(
            replace(one_view(num_arms=NUM_ARMS, num_agents=2), agent_id=i, own_weight=0.5,
                    neighbor_weights={1 - i: 0.5}, common_round=False, random_word=7 + i)
        )
        for i in range(2)
    )  # fmt: skip
    for _ in range(6):
        for _ in range(3):
            fast.observe(0, 1.0)
            fast.receive({})
        told = fast.outgoing(0)
        assert told is not None
        slow.receive({1: told})
    clocks = [machine.export_state()["clock"] for machine in (slow, fast)]
    assert clocks[1] == 18
    assert abs(clocks[0] - clocks[1]) <= 1


def anticipated(machine: Machine) -> float:
    return machine.estimate().anticipation


@pytest.mark.parametrize("spec", [TreeSums(), FloodedTotals()], ids=ids)
@pytest.mark.parametrize("gamma", [0.9, 1.0 - 1e-12])
def test_anticipation_counts_rounds_as_pulls_count(spec: Any, gamma: float) -> None:
    """c = N γ e(m) / Σ_j γ^(m − b_j) e(b_j + 1); near γ = 1 as without a discount."""
    twins = Twins(spec, GRAPHS["path-4"], gamma)
    for _ in range(40):
        twins.step(CALM)
    machine, m = twins.fading.agents[0], 40
    hops = [max(1, hop) for hop in range(4)]  # own pulls of the last round are one round old
    behind = sum(gamma**hop * decayed_rounds(gamma, m - hop + 1) for hop in hops)
    expected = 4 * gamma * decayed_rounds(gamma, m) / behind
    assert anticipated(machine) == pytest.approx(max(1.0, expected), rel=1e-9)
    if gamma > 0.99:
        assert anticipated(machine) == pytest.approx(anticipated(twins.roll.agents[0]), rel=1e-6)


@pytest.mark.parametrize("spec", CARRIERS, ids=ids)
def test_counts_are_bounded_and_means_are_not_moved(spec: Any) -> None:
    world = Rough(Twins.maker(replace(spec, discount=GAMMA), ArmSums()), GRAPHS["cycle-5"])
    for _ in range(60):
        for agent in world.agents:
            agent.observe(0, 0.75)
        world.step()
    for agent in world.agents:
        found = agent.estimate()
        assert 1.0 < found.counts[0] <= found.num_agents / (1 - GAMMA)
        assert found.sums[0] / found.counts[0] == pytest.approx(0.75, rel=1e-12)
        assert found.time == pytest.approx(max(2.0, found.counts.sum()))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"discount": 0.0}, r"discount.* 0\.0"),
        ({"discount": 1.01}, r"discount.* 1\.01"),
        ({"discount": math.nan}, "discount.* nan"),
        ({"discount": True}, "discount.* True"),
        ({"discount": "0.9"}, r"discount.* '0\.9'"),
        ({"window": 0}, r"window.* 0\b"),
        ({"window": 2.5}, r"window.* 2\.5"),
        (
            {"window": 5, "discount": 0.9},
            r"discount.*0\.9.*window.*5",
        ),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, Any], sentence: str) -> None:
    for spec in (LocalSums, TreeSums, FloodedTotals, CentralTotals):
        with pytest.raises(InputError, match=sentence):
            spec(**changes)
    if "window" not in changes:
        for other in (RunningConsensus, PullMixing, StagedMixing):
            with pytest.raises(InputError, match=sentence):
                other(**changes)


def test_stages_refuse_to_forget_faster_than_they_hear() -> None:
    view = one_view(num_arms=2)
    spec = StagedMixing(mixing_rounds=10, discount=0.9)
    sentence = r"discount.* 0\.9\b.* 10 .*0\.95.*0\.975"
    with pytest.raises(InputError, match=sentence):
        spec.make(view, ArmSums().registers(2))
    assert replace(spec, discount=0.95).make(view, ArmSums().registers(2))
    for stage in (3, 7, 164):  # what the sentence proposes is accepted
        with pytest.raises(InputError, match=r"0\.\d+.*0\.\d+") as refused:
            StagedMixing(mixing_rounds=stage, discount=0.5).make(view, ArmSums().registers(2))
        for least in re.findall(r"(?:least|better) ([0-9.]+)", str(refused.value)):
            accepted = StagedMixing(mixing_rounds=stage, discount=float(least))
            assert accepted.make(view, ArmSums().registers(2))


def test_versions_do_not_decay() -> None:
    registers = VersionedRegisters(ArmSums().registers(2).decaying(0.5))
    values = registers.zeros()
    registers.add(values, 1, 3.0)
    registers.add(values, 1, 1.0)
    registers.age(values, rounds=2)
    assert values.tolist() == [0.0, 1.0, 0.0, 0.5, 2.0]
    assert registers.version(values) == 2.0
    assert registers.pulls(values) == 0.5
    assert registers.share(values).counts.tolist() == [0.0, 0.5]
    assert registers.by_arm(values).tolist() == [[0.0, 1.0], [0.0, 0.5]]
    assert registers.nonnegative.tolist() == [False, False, True, True, True]
    assert registers.excess(values, bounded=False) == ""
    assert "pulls that count 0.5" in registers.excess(values * [1, 1, 1, 1, 0], bounded=False)
    assert registers.names[-1] == "pulls ever made"


def test_entries_stay_as_their_author_told_them() -> None:
    """Decay alone is no news: who does not pull sends nothing, and entries can be signed."""
    world = Rough(Twins.maker(FloodedTotals(discount=GAMMA), ArmSums()), GRAPHS["path-4"])
    for _ in range(6):
        world.pull()
        world.step()
    for _ in range(8):
        world.step()
    machine = world.agents[0]
    assert isinstance(machine, FloodedTotalsMachine)
    entries = machine.entries.copy()
    counts = machine.estimate().counts.sum()
    told = machine.outgoing(1)
    assert told is not None
    assert told.size == 2
    world.step()
    assert (machine.entries == entries).all()
    assert machine.estimate().counts.sum() == pytest.approx(GAMMA * counts)


@pytest.mark.parametrize("delay", [None, 0, 3])
@pytest.mark.parametrize("forgets", [{"discount": GAMMA}, {"window": 4}], ids=str)
def test_a_controller_forgets_by_age(forgets: dict[str, Any], delay: int | None) -> None:
    controller = CentralTotals(delay, **forgets).make(UCB(), ArmSums().registers(2), 1.0)
    pulls = []
    for t in range(12):
        for agent in range(3):
            controller.choose(0)
            arm, reward = (t + agent) % 2, float(agent + 1)
            pulls.append(Pull(t, arm, reward))
            controller.observe(arm, reward)
        controller.end_round()
    m = 12
    for arm in range(2):
        expected = 0.0
        for pull in pulls:
            heard = pull.round < m - (delay or 0)
            if "discount" in forgets:
                weight = GAMMA ** (m - pull.round)
            else:
                weight = float(pull.round >= m - (delay or 0) - 4)
            expected += heard * weight * (pull.arm == arm)
        assert controller.visible()[2 + arm] == pytest.approx(expected)


def test_rounds_count_less_and_less() -> None:
    assert decayed_rounds(1.0, 7) == 7
    assert decayed_rounds(0.5, 3) == pytest.approx(1.75)
    assert decayed_rounds(0.5, 0) == 0.0
    assert decayed_rounds(1.0 - 1e-15, 1000) == pytest.approx(1000.0)
    assert decayed_rounds(0.9, np.array([1.0, 2.0])).tolist() == pytest.approx([1.0, 1.9])


FORGETFUL = [
    *(replace(spec, discount=0.9) for spec in CARRIERS),  # type: ignore[type-var]  # a dataclass each
    *(spec(window=4) for spec in (LocalSums, TreeSums, FloodedTotals)),
]


@pytest.mark.covering(1)
@pytest.mark.plays
@pytest.mark.parametrize("spec", FORGETFUL, ids=ids)
def test_what_forgets_keeps_the_contract(spec: Any) -> None:
    check_policy(combine(spec, UCB()), num_arms=2, rounds=10)
