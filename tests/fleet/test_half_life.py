"""A fleet with a half-life: exact sums through crashes, and clocks that differ, jump and lie."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits.core.aggregate.fields import FieldMachine
from coopbandits.core.aggregate.forgetting import DISCOUNT, SKEW
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.client import Client
from coopbandits.fleet.local.agents import BANDIT, Members, Place, prepared, write_configs
from coopbandits.fleet.local.settings import make_settings
from coopbandits.fleet.service.metrics import residual
from coopbandits.fleet.storage.disk import MemoryDisk
from tests.torture.world import World

from .bandits import only

HOUR = 3600.0
EXACT = ("flood-ts", "tree-ts")
each = pytest.mark.parametrize("policy", [*EXACT, "gossip-ts"])
exact = pytest.mark.parametrize("policy", EXACT)


def clock_of(machine: Any) -> int:
    return int(machine.state.me.clock if isinstance(machine, FieldMachine) else machine.clock)


class Fleet(World):
    """A path of agents that forget half in two hours, with clocks that may differ."""

    def __init__(self, policy: str, size: int = 4) -> None:
        self.ahead = dict.fromkeys(range(size), 0.0)
        self.pulls: list[tuple[int, float, int]] = []
        self.words = count(1)
        super().__init__(only(policy, epoch=1_799_000_000, half_life=2 * HOUR), nx.path_graph(size))
        for _ in range(80):
            self.step()

    def clock_of(self, agent: int) -> Callable[[], float]:
        """Return the clock of an agent's machine."""
        return lambda: self.now + self.ahead[agent]

    def machine(self, agent: int) -> Any:
        return self.replica(agent).agent.machine  # type: ignore[attr-defined]  # has parts

    def play(self, rounds: int = 40) -> None:
        for _ in range(rounds):
            for agent in self.graph:
                tick = (
                    self.machine(agent).state.me.clock
                    if hasattr(self.machine(agent), "state")
                    else self.machine(agent).clock
                )
                word, reward = next(self.words) * 0x9E3779B97F4A7C15 % 2**64, 0.5
                arm = self.pull(agent, word, reward)
                assert arm is not None
                self.pulls.append((arm, reward, tick))
            self.step()

    def settle(self) -> None:
        for _ in range(40):
            self.step()

    def direct(self, clock: int) -> Vector:
        """Every pull by its age."""
        total = np.zeros(4)
        for arm, reward, tick in self.pulls:
            weight = DISCOUNT ** (clock - tick)
            total[[arm, 2 + arm]] += weight * reward, weight
        return total

    def check(self, *agents: int) -> None:
        for agent in agents or self.graph:
            want = self.direct(self.clock(agent))
            np.testing.assert_allclose(self.totals(agent), want, rtol=1e-9, atol=1e-9)

    def clock(self, agent: int) -> int:
        machine = self.machine(agent)
        return int(machine.state.me.clock if hasattr(machine, "state") else machine.clock)

    def clocks(self) -> list[int]:
        """Return how far every agent's clock is from the right time, in ticks."""
        right = int((self.now - self.cluster.epoch) // self.bandit.tick)
        return [self.clock(agent) - right for agent in self.graph]


@exact
def test_sums_are_exact_through_hours_and_crashes(policy: str) -> None:
    fleet = Fleet(policy)
    fleet.play()
    fleet.now += HOUR
    fleet.settle()
    fleet.play()
    fleet.settle()
    before = fleet.replica(1).agent.export_state()
    fleet.crash(1)
    fleet.restart(1)
    assert fleet.replica(1).agent.export_state() == before, "replayed by the ticks of then"
    fleet.now += HOUR
    fleet.settle()
    fleet.check()
    assert fleet.totals(0)[2:].sum() == pytest.approx(160 / 2 + 160 / 2**0.5, rel=2e-3)


@each
def test_replaying_a_journal_gives_the_same_state(policy: str) -> None:
    fleet = Fleet(policy, size=2)
    for _ in range(5):
        fleet.play(5)
        fleet.now += 100.0
    for agent in (0, 1):
        before = fleet.replica(agent).agent.export_state()
        fleet.crash(agent)
        fleet.now += HOUR
        fleet.restart(agent)
        assert fleet.replica(agent).agent.export_state() == before
    fleet.settle()
    assert fleet.totals(0)[2:].sum() < 45, "and an hour has passed"


@pytest.mark.covering(1)
@exact
def test_clocks_that_differ_by_minutes_are_one_clock(policy: str) -> None:
    fleet = Fleet(policy)
    fleet.ahead.update({0: -240.0, 1: 300.0, 2: 0.0, 3: -500.0})
    for _ in range(3):
        fleet.play(20)
        fleet.now += 600.0
    fleet.settle()
    fleet.check()
    assert max(fleet.clocks()) <= 300 / fleet.bandit.tick + 1
    assert not any(node.refusals["impossible"] for node in map(fleet.node, fleet.graph))


@pytest.mark.covering(2)
@each
def test_an_agent_a_day_ahead_is_not_believed_and_harms_nobody(
    policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = Fleet(policy)
    fleet.play()
    fleet.settle()
    fleet.ahead[0] = 24 * HOUR
    fleet.step()  # a beat notices it
    known = fleet.totals(3)
    fleet.step()  # and from this round on it goes by that clock
    for _ in range(19):
        fleet.pull(0, next(fleet.words) << 40, 1.0)
        fleet.step()
    assert fleet.node(1).refusals["impossible"] > 0
    assert "up to 1800 s" in caplog.text
    assert max(fleet.clocks()[1:]) <= 1
    if policy != "gossip-ts":
        np.testing.assert_allclose(fleet.totals(3), known, rtol=2e-3)


@pytest.mark.covering(1)
@exact
def test_an_agent_whose_clock_was_a_day_ahead_is_heard_once_it_is_right(policy: str) -> None:
    """Its own memory has aged by a day, once; what it sees from now on counts for all."""
    fleet = Fleet(policy)
    fleet.ahead[0] = 24 * HOUR
    fleet.settle()
    fleet.crash(0)
    fleet.ahead[0] = 0.0
    fleet.restart(0)
    fleet.settle()
    fleet.play()
    fleet.settle()
    assert max(fleet.clocks()) <= SKEW
    fleet.check()


@pytest.mark.covering(1)
@exact
def test_a_clock_set_back_over_a_restart_makes_nothing_fresh(policy: str) -> None:
    fleet = Fleet(policy)
    fleet.play()
    fleet.now += 2 * HOUR
    fleet.settle()
    before = fleet.totals(1)
    fleet.crash(1)
    fleet.ahead[1] = -600.0
    fleet.restart(1)
    fleet.settle()
    assert fleet.totals(1) == pytest.approx(before, rel=2e-3)
    fleet.check()
    fleet.crash(1)
    fleet.ahead[1] = -5 * HOUR
    fleet.restart(1)
    fleet.settle()
    assert (fleet.totals(1) <= before + 1e-9).all()


@pytest.mark.parametrize(
    "behind",
    [1200.0, 24 * HOUR, *(pytest.param(at, marks=pytest.mark.slow) for at in (600.0, HOUR))],
)
def test_an_agent_whose_clock_is_behind_makes_nobody_forget(behind: float) -> None:
    """Averages that are taken for older than they are would draw all others down, every round."""
    fleet = Fleet("gossip-ts")
    fleet.play()
    fleet.settle()
    before = sum(fleet.machine(agent).share().counts.sum() for agent in (0, 1, 2))
    fleet.ahead[3] = -behind
    fleet.crash(3)
    fleet.restart(3)
    for _ in range(200):
        fleet.step()
    after = sum(fleet.machine(agent).share().counts.sum() for agent in (0, 1, 2))
    assert after == pytest.approx(before, rel=0.02)
    assert bool(fleet.node(2).refusals["impossible"]) == (behind > 1800.0)


def test_a_memory_that_is_put_back_keeps_the_ages_of_what_it_told() -> None:
    fleet = Fleet("flood-ts")
    fleet.play()
    fleet.settle()
    copy = MemoryDisk()
    copy.data = fleet.disks[2].data
    fleet.now += HOUR
    fleet.play()
    fleet.settle()
    fleet.crash(2)
    fleet.disks[2] = copy
    fleet.now += HOUR
    fleet.restart(2)
    fleet.play()
    for _ in range(100):
        fleet.step()
    fleet.check()


def test_what_applications_see_is_what_counts_now() -> None:
    fleet = Fleet("flood-ts", size=2)
    fleet.play()
    fleet.now += 2 * HOUR
    fleet.settle()
    service = fleet.served(0, count(1).__next__)
    arms = service.arms()
    assert sum(arm.pulls for arm in arms) == pytest.approx(40, rel=1e-2), "of 80"
    assert sum(arm.own_pulls for arm in arms) == 40, "own pulls are those ever made"
    assert [arm.mean for arm in arms if arm.mean is not None] == pytest.approx([0.5, 0.5])
    assert residual(service) == 0.0
    said = service.recommendation().sentence
    assert "since it forgets" in said


@pytest.mark.slow
def test_real_agents_forget_in_seconds(tmp_path: Path) -> None:
    """Two processes, one of which is killed: both see pulls fade by the time that has passed."""
    settings = make_settings("path:2", "0.6,0.5")
    with prepared(tmp_path, settings) as places:
        write_configs(places, settings, {})
        for place in places:
            text = place.config.read_text()
            text = text.replace(f"[bandits.{BANDIT}]", f'[bandits.{BANDIT}]\nhalf_life = "6s"')
            place.config.write_text(text)
        asyncio.run(fading(places))


async def fading(places: list[Place]) -> None:
    async with Members(places) as members:
        with Client(places[0].api, bandit=BANDIT) as one:
            for _ in range(30):
                one.observe(one.choose().ticket, 1.0)
        async with asyncio.timeout(90):
            while await pulls(members, "a01") < 0.95 * await pulls(members, "a00"):
                await asyncio.sleep(0.05)  # until it knows of all, and keeps that when it is killed
        first = time.monotonic()
        before, begun = await pulls(members, "a00"), time.monotonic()
        await members.all[1].kill()
        await asyncio.sleep(3.0)
        await members.restart(members.all[1])
        async with asyncio.timeout(90):
            while not await pulls(members, "a01"):
                await asyncio.sleep(0.05)
        for agent in ("a00", "a01"):
            asked = time.monotonic()
            found, answered = await pulls(members, agent), time.monotonic()
            least = before * 0.5 ** ((answered - first) / 6.0)
            most = before * 0.5 ** ((asked - begun) / 6.0)
            assert 0.95 * least <= found <= 1.05 * most


async def pulls(members: Members, agent: str) -> float:
    """Return how many pulls an agent knows of, as they count now."""
    answer = (await members.ask("arms")).get(agent)
    return float(sum(arm.pulls for arm in answer or ()))


def test_a_journal_belongs_to_one_half_life() -> None:
    fleet = Fleet("flood-ts", size=2)
    fleet.crash(1)
    for other in (None, HOUR):
        fleet.declared[1] = {"only": replace(fleet.bandit, half_life=other)}
        with pytest.raises(InputError, match=r"half_life.* 7200\.0"):
            fleet.restart(1)
