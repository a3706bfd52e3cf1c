"""Rewards and units at any agent of a fleet of real processes: through kills and cuts."""

from __future__ import annotations

import asyncio
import signal
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.fleet.local.faults import Dice, Relay
from coopbandits.fleet.service import Choice, RateLimitError, Receipt, UnavailableError

from .process.agents import PATIENCE, Agent
from .transport.nodes import places

ARMS = [f"arm-{k}" for k in range(8)]


class Fleet:
    """Agents in processes, a relay on every link, and a client of each.

    Attributes
    ----------
    clients : dict of str to AsyncClient
        They retry for a second.
    """

    def __init__(self, agents: list[Agent], relays: dict[tuple[str, str], Relay]) -> None:
        self.agents = {agent.name: agent for agent in agents}
        self.relays = relays
        self.clients = {
            agent.name: AsyncClient(
                f"unix:{agent.folder / 'api'}", timeout=4.0, connections=64, bandit="button"
            )
            for agent in agents
        }

    async def start(self, *names: str) -> None:
        starting = (self.agents[name] for name in names)
        await asyncio.gather(*(asyncio.to_thread(agent.start) for agent in starting))

    async def kill(self, name: str) -> None:
        agent = self.agents[name]
        agent.send(signal.SIGKILL)
        await asyncio.to_thread(agent.end)

    def cut(self, side: set[str]) -> None:
        """Let nothing pass between some agents and all others."""
        for edge, relay in self.relays.items():
            if len(side.intersection(edge)) == 1:
                relay.whole.clear()

    def restore(self) -> None:
        for relay in self.relays.values():
            relay.whole.set()

    async def linked(self) -> None:
        """Wait until all links are up."""
        for name, client in self.clients.items():
            async with asyncio.timeout(PATIENCE):
                while not all(s == "up" for s in (await client.health())["links"].values()):
                    await asyncio.sleep(0.02)
            assert name in self.agents

    async def submit(
        self, names: Sequence[str], ticket: str, reward: float, dice: Dice | None = None
    ) -> Receipt:
        """Submit a reward to one of some agents, again until there is an answer."""
        dice = dice or Dice(0, 0)
        async with asyncio.timeout(3 * PATIENCE):
            while True:
                try:
                    return await self.clients[dice.pick(names)].observe(ticket, reward)
                except (UnreachableError, UnavailableError, RateLimitError):
                    await asyncio.sleep(0.05)

    async def counted(self) -> dict[str, dict[str, tuple[int, float]]]:
        """Return the pulls and rewards that each agent counts as its own, by arm."""
        return {
            name: {arm.arm: (arm.own_pulls, arm.own_reward) for arm in await client.arms()}
            for name, client in self.clients.items()
        }


@asynccontextmanager
async def running(folder: Path, graph: nx.Graph[str], **more: Any) -> AsyncIterator[Fleet]:
    """Yield a fleet whose links are up."""
    names = sorted(graph)
    init_authority(folder)
    issue(folder, names)
    bandit = {"arms": ARMS, "reward_range": [0.0, 1.0], **more}
    async with AsyncExitStack() as stack:
        at = stack.enter_context(places(*names))
        relays = {}
        neighbors: dict[str, dict[str, Any]] = {name: {} for name in names}
        for edge in graph.edges:
            lower, higher = sorted(edge)  # which dials the other one
            relays[higher, lower] = relay = Relay(at[lower])
            neighbors[higher][lower] = await relay.open()
            neighbors[lower][higher] = at[higher]
            stack.push_async_callback(relay.close)
        agents = []
        for name in names:
            agent = Agent(folder / name, name, str(at[name]), folder, neighbors[name])
            agent.tables["bandits"] = {"button": bandit}
            agent.write(silence=2.0)
            stack.callback(agent.kill)
            agents.append(agent)
        fleet = Fleet(agents, relays)
        for client in fleet.clients.values():
            await stack.enter_async_context(client)
        await fleet.start(*names)
        await fleet.linked()
        yield fleet


def issuer_of(choice: Choice) -> str:
    return choice.ticket.partition("@")[2]


async def sticky(client: AsyncClient, unit: str) -> Choice:
    """Return a choice of a unit's owner; at first, or where it is slow, the agent asked chooses."""
    async with asyncio.timeout(PATIENCE):
        while not (choice := await client.choose(unit=unit)).sticky:
            await asyncio.sleep(0.05)
    return choice


def test_three_agents_on_a_path_are_one_agent_to_their_applications(tmp_path: Path) -> None:
    async def use() -> None:
        async with running(tmp_path, nx.path_graph(["a", "b", "c"]), sticky_seconds=600.0) as fleet:
            near, far = fleet.clients["a"], fleet.clients["c"]
            choice = await near.choose()
            assert issuer_of(choice) == "a"
            receipt = await fleet.submit("c", choice.ticket, 0.5)
            assert receipt == Receipt(choice.ticket, choice.arm, 0.5, receipt.duplicate)
            assert (await near.observe(choice.ticket, 0.5)).duplicate
            chosen = [await sticky(client, "user-1") for client in (near, far, near)]
            assert len({each.arm for each in chosen}) == 1
            assert len({issuer_of(each) for each in chosen}) == 1
            late = (await near.choose()).ticket
            await fleet.kill("a")
            with pytest.raises(UnavailableError, match="agent a, which issued this ticket"):
                await far.observe(late, 1.0)
            await fleet.start("a")
            await fleet.submit("c", late, 1.0)
            counts = await fleet.counted()
            assert sum(pulls for pulls, _ in counts["a"].values()) == 2
            assert sum(pulls for pulls, _ in [*counts["b"].values(), *counts["c"].values()]) == 0

    asyncio.run(use())


def shown(label: str, seconds: list[float]) -> str:
    middle, most = statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]
    return f"{label:<24} median {1000 * middle:7.2f} ms, 95 % {1000 * most:7.2f} ms"


async def timed(fleet: Fleet, chooser: str, submitter: str, times: int) -> list[float]:
    """Return how long it takes to submit a reward of one agent's choice to another one."""
    found = []
    for _ in range(times):
        ticket = (await fleet.clients[chooser].choose()).ticket
        began = time.perf_counter()
        await fleet.submit(submitter, ticket, 1.0)
        found.append(time.perf_counter() - began)
    return found


@pytest.mark.slow
def test_what_forwarding_adds(tmp_path: Path) -> None:
    async def use() -> None:
        async with running(tmp_path, nx.path_graph(["a", "b", "c", "d"])) as fleet:
            await timed(fleet, "a", "d", 5)  # they find each other
            for label, at in zip(
                ("own agent", "1 link", "2 links", "3 links"), "abcd", strict=True
            ):
                print(shown(label, await timed(fleet, "a", at, 200)))

    asyncio.run(use())


REWARDS, WORKERS, UNITS = 20_000, 60, 200

PAUSE = 0.2
"""Seconds between two rewards of one worker: agents that restart need the processor, too."""


class Load:
    """Applications that choose at one agent and submit the reward to another one."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.left = fleet, REWARDS
        self.acknowledged: dict[str, Counter[str]] = defaultdict(Counter)
        self.sums: dict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.tickets: set[str] = set()
        self.doubled = self.sticky = self.away = 0
        self.units: dict[tuple[str, str], str] = {}
        self.moved = 0

    async def work(self, worker: int) -> None:
        dice, names = Dice(7, worker), sorted(self.fleet.agents)
        while self.left > 0:
            self.left -= 1
            await asyncio.sleep(PAUSE)
            unit = f"user-{dice.word() % UNITS}" if dice.word() & 1 else None
            choice = None
            while choice is None:
                client = self.fleet.clients[dice.pick(names)]
                try:
                    choice = await client.choose(unit=unit)
                except (UnreachableError, UnavailableError, RateLimitError):
                    await asyncio.sleep(0.05)
            issuer, reward = issuer_of(choice), dice.word() % 5 / 4
            if unit is not None and choice.sticky:
                self.sticky += 1
                self.moved += self.units.setdefault((unit, issuer), choice.arm) != choice.arm
            elif unit is not None:
                self.away += 1
            receipt = await self.fleet.submit(names, choice.ticket, reward, dice)
            assert (receipt.arm, receipt.reward) == (choice.arm, reward)
            self.doubled += choice.ticket in self.tickets
            self.tickets.add(choice.ticket)
            self.acknowledged[issuer][choice.arm] += 1
            self.sums[issuer][choice.arm] += reward


async def trouble(fleet: Fleet, ends: Iterable[str]) -> tuple[int, int]:
    """Kill agents in turn, and cut two of them off in between, until cancelled."""
    dice, kills, cuts = Dice(8, 0), 0, 0
    names = sorted(fleet.agents)
    try:
        while True:
            await asyncio.sleep(2.0)
            name = dice.pick(names)
            await fleet.kill(name)
            await asyncio.sleep(0.5)
            await fleet.start(name)
            kills += 1
            await asyncio.sleep(2.0)
            fleet.cut(set(ends))
            await asyncio.sleep(3.0)
            fleet.restore()
            cuts += 1
    except asyncio.CancelledError:
        fleet.restore()
    return kills, cuts


@pytest.mark.slow
def test_rewards_at_random_agents_count_exactly_once(tmp_path: Path) -> None:
    async def use() -> None:
        ring = nx.relabel_nodes(nx.cycle_graph(6), dict(enumerate("abcdef")))
        async with running(tmp_path, ring, sticky_seconds=86400.0) as fleet:
            load, began = Load(fleet), time.monotonic()
            faults = asyncio.create_task(trouble(fleet, "ab"))
            async with asyncio.TaskGroup() as group:
                for worker in range(WORKERS):
                    group.create_task(load.work(worker))
            seconds = time.monotonic() - began
            faults.cancel()
            kills, cuts = await faults
            for agent in fleet.agents.values():
                if agent.process is None or agent.process.poll() is not None:
                    await fleet.start(agent.name)
            found = await fleet.counted()
            print(
                f"{len(load.tickets)} rewards in {seconds:.0f} s at random agents, with {kills} "
                f"kills and {cuts} partitions; {load.sticky} sticky choices, {load.away} others "
                f"for units, {load.moved} units moved"
            )
            assert (len(load.tickets), load.doubled, load.moved) == (REWARDS, 0, 0)
            assert min(kills, cuts) >= 3
            for name, arms in found.items():
                for arm, (pulls, total) in arms.items():
                    assert (pulls, total) == (
                        load.acknowledged[name][arm], load.sums[name][arm]
                    ), (name, arm)  # fmt: skip

    asyncio.run(use())
