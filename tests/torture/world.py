"""A fleet that goes on step by step: the real protocol, and any trouble on demand.

Where `Stage` plays a schedule by itself, a test moves this one: `step` lets time pass, and
in between the test crashes agents, cuts links, or says what it likes to a node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count
from pathlib import Path

import networkx as nx
import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import DocumentConfig, NodeConfig, TlsFiles
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.identity.notary import Notary
from coopbandits.fleet.process.assemble import make_shell, open_bandits
from coopbandits.fleet.process.declarations import DocumentBandits
from coopbandits.fleet.process.shell import Shell
from coopbandits.fleet.protocol.gossip import Session
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.service.bandit import ServedBandit
from coopbandits.fleet.storage.disk import MemoryDisk
from coopbandits.fleet.storage.records import Chose
from coopbandits.fleet.storage.replica import Replica
from tests.torture.notary import virtual_notary
from tests.torture.process import Wire, name, number
from tests.torture.schedule import ROUNDS_PER_SECOND, START

PERIOD = 1.0 / ROUNDS_PER_SECOND


class World:
    """Agents, links that are up or down, bytes under way, and what was acknowledged."""

    def __init__(
        self,
        declared: BanditConfig | Mapping[str, BanditConfig],
        graph: nx.Graph[int],
        identity_words: Sequence[int] | None = None,
        certificates: Path | None = None,
        revoked: Path | None = None,
        durability: str = "process",
        document: DocumentConfig | None = None,
        max_open_tickets: int = 10_000,
    ) -> None:
        if isinstance(declared, BanditConfig):
            declared = {declared.name: declared}
        self.bandit = next(iter(declared.values()))  # what `pull`, `totals` and `shares` are about
        self.cluster, self.graph, self.now = self.bandit.cluster, graph, float(START)
        self.identity_words = list(identity_words or [(i + 1) << 16 | 1 for i in graph])
        self.starts = 0
        self.declared = [dict(declared) for _ in graph]  # what each agent's file says
        self.certificates, self.revoked = certificates, revoked
        self.document = document or DocumentConfig()
        self.max_open_tickets = max_open_tickets  # from the next start on
        self.disks = [MemoryDisk(durability=durability) for _ in graph]
        self.nodes: list[Node | None] = [None for _ in graph]
        self.shells: list[Shell] = [None for _ in graph]  # type: ignore[misc]  # made by `restart`
        self.up: set[tuple[int, int]] = set()
        self.cut: set[tuple[int, int]] = set()
        self.queue: deque[tuple[int, int, bytes]] = deque()
        self.broken: list[tuple[int, int, str]] = []
        self.acknowledged = np.zeros(2 * len(self.bandit.arms))
        for agent in graph:
            self.restart(agent)

    def config(self, agent: int, neighbors: Sequence[int] | None = None) -> NodeConfig:
        """Return an agent's configuration."""
        others = sorted(self.graph.neighbors(agent) if neighbors is None else neighbors)
        places: Mapping[str, Address] = {name(j): Address("127.0.0.1", 1) for j in others}
        tls, node = None, name(agent)
        if self.certificates is not None:
            ends = ("ca.pem", f"{node}.pem", f"{node}-key.pem")
            tls = TlsFiles(*(self.certificates / end for end in ends))
        return NodeConfig(
            self.cluster,
            node,
            Path("unused"),
            places,
            tls=tls,
            revoked=self.revoked,
            document=self.document,
            max_open_tickets=self.max_open_tickets,
            bandits=self.declared[agent],
            default_bandit=self.bandit.name,
        )

    def node(self, agent: int) -> Node:
        """Return an agent that runs."""
        node = self.nodes[agent]
        assert node is not None
        return node

    # Trouble

    def crash(self, agent: int, torn: int = 0) -> None:
        """Kill an agent; some bytes of what it was about to write may be on disk."""
        journal = self.node(agent).bandits.journal if torn else None
        self.nodes[agent] = None
        if journal is not None:
            self.disks[agent].data += journal._encode(Chose(0, self.now), self.bandit.number)[:torn]
        for other in self.graph.neighbors(agent):
            self._down(agent, other, "crash")

    def restart(self, agent: int, neighbors: Sequence[int] | None = None) -> None:
        """Start an agent from its disk, perhaps with other neighbours."""
        config = self.config(agent, neighbors)
        self.starts += 1  # a nonce need only be new
        words = chain([self.identity_words[agent]], count(1000 * self.starts))
        bandits = open_bandits(config, self.disks[agent], self._clock, words.__next__, number)
        wire, notary = self._wire(agent), self._notary(config)
        shell = make_shell(config, bandits, wire, self.clock_of(agent), number, notary)
        self.nodes[agent], self.shells[agent] = shell.node, shell

    def _clock(self) -> float:
        return self.now

    def clock_of(self, agent: int) -> Callable[[], float]:
        """Return the clock of an agent's machine; all have the same here."""
        del agent
        return self._clock

    def _wire(self, agent: int) -> Wire:
        return Wire(
            lambda peer, data: self.post(agent, number(peer), data),
            lambda peer, reason: self.broken.append((agent, number(peer), reason)),
        )

    def _notary(self, config: NodeConfig) -> Notary | None:
        """Return what signs: with the agent's certificate where there are any."""
        return virtual_notary(config) if self.certificates is None else None

    def service(self, agent: int, words: Callable[[], int]) -> ServedAgent:
        """Return the service of an agent."""
        node = self.node(agent)
        made = ServedAgent(
            self.config(agent), node, words, self.clock_of(agent), self.shells[agent].wait
        )
        node.settings.documents.subscribe("bandits", DocumentBandits(made))
        return made

    def served(self, agent: int, words: Callable[[], int]) -> ServedBandit:
        """Return the service of an agent's first bandit."""
        return self.service(agent, words).bandit(self.bandit.name)

    def replica(self, agent: int) -> Replica:
        """Return the state of an agent's first bandit."""
        return self.node(agent).bandits.replicas[self.bandit.number]

    def session(self, agent: int) -> Session:
        """Return what an agent says of its first bandit."""
        return self.node(agent).sessions.by_number[self.bandit.number]

    def cut_link(self, one: int, other: int) -> None:
        """Cut a link until `heal`."""
        self.cut.add((min(one, other), max(one, other)))
        self._down(one, other, "cut")

    def heal(self) -> None:
        """Mend all links and start who is down."""
        self.cut.clear()
        for agent, node in enumerate(self.nodes):
            if node is None:
                self.restart(agent)

    # What goes on

    def connect(self) -> None:
        """Bring up all links that can be."""
        for one, other in self.graph.edges:
            edge = (min(one, other), max(one, other))
            alive = self.nodes[one] is not None and self.nodes[other] is not None
            if alive and edge not in self.cut and (one, other) not in self.up:
                self.up |= {(one, other), (other, one)}
                self.shells[one].link_up(name(other))
                self.shells[other].link_up(name(one))

    def _down(self, one: int, other: int, reason: str) -> None:
        if (one, other) not in self.up:
            return
        self.up -= {(one, other), (other, one)}
        self.queue = deque(item for item in self.queue if {item[0], item[1]} != {one, other})
        for here, there in ((one, other), (other, one)):
            if self.nodes[here] is not None:
                self.shells[here].link_down(name(there), reason)

    def post(self, sender: int, receiver: int, data: bytes) -> bool:
        """Put bytes under way."""
        if (sender, receiver) not in self.up:
            return False
        self.queue.append((sender, receiver, data))
        return True

    def deliver(self, most: int = 10**9) -> None:
        """Deliver what is under way, and what that leads to."""
        while self.queue and most:
            sender, receiver, data = self.queue.popleft()
            self.shells[receiver].received(name(sender), data)
            self._break()
            most -= 1

    def _break(self) -> None:
        broken, self.broken = self.broken, []
        for one, other, reason in broken:
            self._down(one, other, reason)

    def step(self, seconds: float = PERIOD, deliver: int = 10**9) -> None:
        """Let some time pass."""
        self.now += seconds
        self.connect()
        self.deliver(deliver)
        for node, shell in zip(self.nodes, self.shells, strict=True):
            if node is not None:
                shell.tick()
                shell.beat()
                self._break()
        self.deliver(deliver)

    def pull(self, agent: int, word: int, reward: float | Callable[[int], float]) -> int | None:
        """Let an agent's application choose and hand in a reward, if the agent lives.

        `reward` may be a function of the arm.
        """
        node = self.nodes[agent]
        if node is None:
            return None
        replica = self.replica(agent)
        ticket, arm = replica.choose(word, None, self.now)
        reward = reward(arm) if callable(reward) else reward
        replica.observe(ticket, reward)
        node.sessions.wake(self.bandit.number)
        self.shells[agent].settle()
        self.acknowledged[arm] += reward
        self.acknowledged[len(self.bandit.arms) + arm] += 1.0
        return arm

    # What is known

    def totals(self, agent: int) -> Vector:
        """Return what an agent knows: sums, then counts."""
        estimate = self.replica(agent).agent.estimate()
        return np.concatenate([estimate.sums, estimate.counts])

    def shares(self) -> Vector:
        """Return what all hold together after the last round that all have ended."""
        last = min(self.replica(agent).rounds for agent in self.graph)
        shares = [np.concatenate(self.replica(i).shares()[last]) for i in self.graph]
        total: Vector = np.sum(shares, axis=0)
        return total
