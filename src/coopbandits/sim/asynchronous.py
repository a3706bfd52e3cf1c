"""Agents with clocks of their own, as a queue of events; part of the reference engine.

At an event of its pull clock an agent pulls. At an event of its gossip clock it hands a message to
every neighbour, which arrives after a latency, and then receives the latest message of every
neighbour that has arrived since its last gossip event. Simultaneous events are ordered by the
constants below, then by agent, then by when they were scheduled.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.core.draws import Words, stream_key, uniforms, words
from coopbandits.core.errors import InputError
from coopbandits.sim.clocks import Clocks, exponential
from coopbandits.sim.engine import Engine
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.reference import Agents, ReferenceEngine, make_account, make_players, outgoing
from coopbandits.sim.tapes import DECISIONS, REWARDS, agent_keys, tape_words, variates

CLOCKS = 5
"""The stream of random words for clocks; these are its parts:"""
RATES, PULLS, GOSSIPS, LATENCIES, LOSSES = range(5)

WHOLE, ARRIVAL, PULL, GOSSIP = range(4)
"""Events: a unit of time is over, a message arrives, an agent pulls, an agent gossips."""

CHUNK = 64


class AsynchronousEngine(ReferenceEngine):
    """Plays agents with clocks of their own."""

    def obstacle(self, task: Task) -> str | None:
        """Leave tasks with common rounds to the engine that plays in rounds."""
        return None if task.clocks else "has common rounds"

    def play_run(self, task: Task, run: int, record: Record, row: int, tick: Tick) -> None:
        """Play one run as a queue of events."""
        if task.clocks is None:
            raise InputError("there are no clocks to play by; give some, such as 'poisson'")
        Run(task, task.clocks, run).play(record, row, tick)


ENGINE: Engine = AsynchronousEngine()


class Tape:
    """A sequence of numbers per row, read one at a time and generated in chunks."""

    def __init__(self, keys: Words, read: Callable[[Words], Words | Vector]) -> None:
        self.keys, self.read = keys, read
        self.used = [0] * keys.size
        self.chunks: list[list[float]] = [[] for _ in range(keys.size)]

    def next(self, row: int) -> float:
        """Return the next number of a row."""
        number = self.used[row]
        if number % CHUNK == 0:
            made = tape_words(self.keys[row : row + 1], number, CHUNK)
            self.chunks[row] = self.read(made)[0].tolist()
        self.used[row] = number + 1
        return self.chunks[row][number % CHUNK]


class Letter(NamedTuple):
    """A message in transit."""

    sender: int
    sent: float
    message: Vector


class Run:
    """One run: the agents, or the controller, and the queue of events."""

    def __init__(self, task: Task, clocks: Clocks, run: int) -> None:
        self.task, self.clocks = task, clocks
        self.players = make_players(task, run)
        self.agents = self.players.agents if isinstance(self.players, Agents) else []
        agents = range(task.network.num_agents)
        self.overtakes = [task.policy.overtakes_from(agent) for agent in agents]
        self.newest: dict[tuple[int, int], float] = {}  # when the newest that arrived was sent
        self.counts = self.players.counts
        self.queue: list[tuple[float, int, int, int]] = []
        self.made = 0
        self.letters: dict[int, Letter] = {}
        self.inboxes: list[dict[int, Letter]] = [{} for _ in range(task.network.num_agents)]
        self.pulls = np.zeros((task.network.num_agents, task.problem.num_arms), dtype=np.int64)
        self.reward_total = 0.0
        self._make_tapes(run)
        self._start()

    def _make_tapes(self, run: int) -> None:
        task = self.task
        agents, links = task.network.num_agents, task.network.adjacency.nnz
        self.account, self.features = make_account(task, run)

        def tape(part: int, rows: int) -> Tape:
            key = stream_key(task.seed, CLOCKS, run, part)
            return Tape(words(key, np.arange(rows, dtype=np.uint64)), uniforms)

        rewards, decisions = (
            agent_keys(task.seed, stream, run, agents) for stream in (REWARDS, DECISIONS)
        )
        self.rewards = Tape(rewards, lambda made: variates(task.problem.variate, made))
        self.decisions = Tape(decisions, lambda made: made)
        self.rates = self.clocks.pull_rates(tape(RATES, agents).keys)
        self.ticks = {PULL: tape(PULLS, agents), GOSSIP: tape(GOSSIPS, agents)}
        self.latencies, self.losses = tape(LATENCIES, links), tape(LOSSES, links)
        chances = [kind.loss_without_rounds or 0.0 for kind in task.faults.kinds]
        self.loss = 1.0 - float(np.prod([1.0 - chance for chance in chances]))

    def _start(self) -> None:
        self._push(1.0, WHOLE, 0)
        for kind in (PULL, GOSSIP) if self.agents else (PULL,):
            for agent in range(self.task.network.num_agents):
                self._push_tick(0.0, kind, agent, first=True)

    def _push(self, time: float, kind: int, who: int) -> int:
        self.made += 1
        heapq.heappush(self.queue, (time, kind, who, self.made))
        return self.made

    def _push_tick(self, time: float, kind: int, agent: int, *, first: bool = False) -> None:
        rate = float(self.rates[agent]) * (self.clocks.gossip if kind == GOSSIP else 1.0)
        gap = self.clocks.gap(self.ticks[kind].next(agent), first=first)
        self._push(time + gap / rate, kind, agent)

    def play(self, record: Record, row: int, tick: Tick) -> None:
        task, kept = self.task, 0
        while kept < task.rounds.size:
            time, kind, who, number = heapq.heappop(self.queue)
            if kind == WHOLE:
                if not self.agents:
                    self.players.end_round([])  # delays of a controller count units of time
                if round(time) == task.rounds[kept]:
                    self._record(record, row, kept)
                    kept += 1
                self._push(time + 1.0, WHOLE, 0)
                tick(task.network.num_agents)
            elif kind == ARRIVAL:
                self._arrive(who, self.letters.pop(number))
            elif kind == PULL:
                self._pull(time, who)
                self._push_tick(time, PULL, who)
            else:
                self._gossip(time, who)
                self._push_tick(time, GOSSIP, who)
        self.counts.write(record, row)
        if task.keep:
            record.agent_pulls[row] = self.pulls

    def _record(self, record: Record, row: int, kept: int) -> None:
        record.arm_counts[row, kept] = self.pulls.sum(axis=0)
        record.rewards[row, kept] = self.reward_total
        self.account.write(record, row, kept)
        record.values[row, kept] = self.counts.values

    def _pull(self, time: float, agent: int) -> None:
        variate = self.rewards.next(agent)
        self.account.begin(int(time), agent)

        def reward(_: int, arm: int) -> float:
            paid = self.account.pay(agent, arm, variate)
            self.reward_total += paid
            return paid

        word = int(self.decisions.next(agent))
        (arm,) = self.players.pull([agent], [word], reward, self.features)
        self.pulls[agent, arm] += 1
        self.account.book(np.array([agent]), np.array([arm]))

    def _gossip(self, time: float, agent: int) -> None:
        """Send to every neighbour, then receive what has arrived."""
        me = self.agents[agent]
        start = int(self.task.network.adjacency.indptr[agent])
        for link, neighbor in enumerate(self.task.network.neighbors(agent), start):
            message = outgoing(me, neighbor)
            if message is not None:
                self._send(time, link, neighbor, Letter(agent, time, message))
        inbox = self.inboxes[agent]
        self.inboxes[agent] = {}
        self.counts.delivered += len(inbox)
        self.counts.late += sum(time - letter.sent >= 1.0 for letter in inbox.values())
        me.receive({sender: inbox[sender].message for sender in sorted(inbox)})

    def _send(self, time: float, link: int, receiver: int, letter: Letter) -> None:
        self.counts.sent += 1
        self.counts.values += letter.message.size
        delay = self.clocks.latency * exponential(self.latencies.next(link))
        if self.losses.next(link) < self.loss:
            self.counts.lost += 1
        else:
            self.letters[self._push(time + delay, ARRIVAL, receiver)] = letter

    def _arrive(self, receiver: int, letter: Letter) -> None:
        """Keep only the newest letter of each sender; the older one counts as lost."""
        link, there = (receiver, letter.sender), self.inboxes[receiver].get(letter.sender)
        newest = self.newest[link] = max(letter.sent, self.newest.get(link, letter.sent))
        overtaken = self.overtakes[letter.sender] and letter.sent < newest
        self.counts.lost += overtaken or there is not None
        if not overtaken and (there is None or there.sent < letter.sent):
            self.inboxes[receiver][letter.sender] = letter
