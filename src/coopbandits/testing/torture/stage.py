"""A fleet on a virtual clock, network and disk, driven by events from one queue.

Nothing here depends on anything but the schedule: time is a whole number of microseconds, events at
the same time happen in the order in which they were planned, and all chance is words at places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from coopbandits.core.aggregate.aggregation import ROBUST
from coopbandits.core.draws import stream_key, word_at
from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.service import TooManyTicketsError, UnavailableError
from coopbandits.testing.torture.application import (
    LIFETIME,
    MOST_TICKETS,
    RETRY,
    Account,
    Application,
    Reward,
    ViolationError,
    reward_of,
)
from coopbandits.testing.torture.checks import Checks
from coopbandits.testing.torture.files import Killed, VirtualFiles
from coopbandits.testing.torture.liars import Liar
from coopbandits.testing.torture.network import MOST_WAITING, Link
from coopbandits.testing.torture.process import Process, VirtualClock, Wire, name, number
from coopbandits.testing.torture.schedule import (
    DISKS,
    IDENTITIES,
    LIES,
    PHASES,
    PULLS,
    SECOND,
    Schedule,
)
from coopbandits.testing.torture.trace import Trace
from coopbandits.testing.torture.troubles import strike

SILENCE = 2.0
NOWHERE = Address("127.0.0.1", 1)
PATIENCE = 60
"""Seconds after healing until everything must be well."""


class Actor:
    """One agent's machine: its disk, clock and application, and the process while there is one."""

    def __init__(self, stage: Stage, index: int) -> None:
        seed = stage.schedule.seed
        self.index, self.name = index, name(index)
        self.files = VirtualFiles(stream_key(seed, DISKS, index))
        word = word_at(stream_key(seed, PHASES), index)
        self.phase = word % (SECOND // 10)
        speed = SECOND + (word >> 32) % (SECOND // 10) - SECOND // 20
        self.clock = VirtualClock(lambda: stage.time, speed)
        self.app = Application(stream_key(seed, PULLS, index))
        self._key, self._draws = stream_key(seed, IDENTITIES, index), 0
        self.neighbors: set[int] = set()
        self.process: Process | None = None
        self.life = 0
        self.awake_at = self.broken_until = 0
        self.armed = 0.0
        self.beaten = -math.inf
        self.due = math.nan
        self.down_for = SECOND
        self.damaged = self.uncertain = False
        self.sound: dict[str, bytes] = {}
        self.copies: list[tuple[dict[str, bytes], Account]] = []
        self.losses = self.rollbacks = 0
        self.heard: dict[str, tuple[int, int, int]] = {}

    def words(self) -> int:
        """Return 64 random bits, as the operating system would."""
        self._draws += 1
        return word_at(self._key, self._draws)


class Stage:
    """Plays one schedule.

    Parameters
    ----------
    schedule : Schedule
        What goes wrong.
    trace : Trace or None
        Notes what happens; None for one that only hashes.
    """

    def __init__(self, schedule: Schedule, trace: Trace | None = None) -> None:
        self.schedule, self.setting = schedule, schedule.setting
        self.trace = trace or Trace()
        self.cluster = replace(self.setting.cluster(), signed=schedule.signed)
        self.robust = self.cluster.mode == ROBUST
        self.weather = schedule.weather
        self.time, self.events, self._planned = 0, 0, 0
        self.healed = False
        self.revoked: frozenset[str] = frozenset()
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.actors = [Actor(self, i) for i in range(self.setting.agents)]
        self.links: dict[tuple[int, int], Link] = {}
        self._broken: list[tuple[int, int, str]] = []
        self.liar: Liar | None = None
        self._lay_links()
        self.checks = Checks(self)
        self._begin()

    def _lay_links(self) -> None:
        size = self.setting.agents
        edges = [(i, (i + 1) % size) for i in range(size)]
        for one, other in edges:
            self.lay(one, other)
        if any(trouble.kind == "liar" for trouble in self.schedule.troubles):
            self.liar = Liar(self, size, stream_key(self.schedule.seed, LIES))
            for victim in (0, size // 2 - 1):
                self.lay(victim, size)

    def lay(self, one: int, other: int) -> Link:
        """Make two agents neighbours from their next start on."""
        edge = min(one, other), max(one, other)
        if edge not in self.links:
            self.links[edge] = Link(self.schedule.seed, *edge)
        for here, there in (edge, edge[::-1]):
            if here < len(self.actors):
                self.actors[here].neighbors.add(there)
        return self.links[edge]

    def _begin(self) -> None:
        for actor in self.actors:
            self.plan(actor.phase, self.start, actor)
            self.plan(actor.phase + self._pause(actor), self._pull, actor)
        for edge in self.links:
            self.plan(SECOND // 10, self.dial, self.links[edge])
        for trouble in self.schedule.troubles:
            self.plan(trouble.at, strike, self, trouble)
        if any(trouble.kind == "rollback" for trouble in self.schedule.troubles):
            self.plan(SECOND, self._back_up)
        self.plan(self.setting.trouble_time, self._heal)

    def _pause(self, actor: Actor) -> int:
        return 1 + actor.app.word() % (2 * self.weather.thinking)

    # The queue

    def plan(self, delay: int, call: Callable[..., None], *args: Any) -> None:
        """Let something happen after some microseconds."""
        self._planned += 1
        heappush(self._queue, (self.time + delay, self._planned, call, args))

    def run(self) -> None:
        """Play until everything is well again; a ViolationError says what is not."""
        deadline = self.setting.trouble_time + PATIENCE * SECOND
        while self._queue:
            at, _, call, args = heappop(self._queue)
            if at > deadline:
                self.checks.overdue()
            self.time = at
            self.events += 1
            call(*args)
            if self.checks.done:
                return

    def act(self, actor: Actor, call: Callable[[], Any]) -> Any:
        """Let a process do something; it may die over it. What follows from it is done, too."""
        try:
            result = call()
        except Killed as death:
            self.die(actor, power=death.power)
            return None
        except (ViolationError, InputError):
            raise
        except Exception as error:
            raise ViolationError(
                f"{actor.name}: {type(error).__name__} escaped: {error}"
            ) from error
        if actor.files.cost:
            actor.awake_at = max(actor.awake_at, self.time + int(actor.files.cost * SECOND))
            actor.files.cost = 0.0
        while self._broken:
            one, other, reason = self._broken.pop(0)
            self.close(self.links[min(one, other), max(one, other)], reason)
        if actor.process is not None:
            self._arm(actor)
            self.checks.after(actor)
        return result

    def later(self, actor: Actor, delay: int, call: Callable[[], None]) -> None:
        """Let a process do something later, if it lives then."""
        self.plan(delay, self._if_alive, actor, actor.life, call)

    def _if_alive(self, actor: Actor, life: int, call: Callable[[], None]) -> None:
        if actor.process is None or actor.life != life:
            return
        if actor.awake_at > self.time:
            self.plan(actor.awake_at - self.time, self._if_alive, actor, life, call)
            return
        self.act(actor, call)

    # Processes

    def config(self, actor: Actor) -> NodeConfig:
        """Return an agent's configuration."""
        return NodeConfig(
            self.cluster,
            actor.name,
            Path("/virtual"),
            {name(j): NOWHERE for j in sorted(actor.neighbors)},
            durability=self.schedule.durability,
            ticket_lifetime=LIFETIME,
            max_open_tickets=MOST_TICKETS,
            silence=SILENCE,
        )

    def start(self, actor: Actor) -> None:
        """Start a process, unless one runs; a journal that was damaged may be refused."""
        if actor.process is not None:
            return
        found = actor.files.copy()
        try:
            process = Process(self.config(actor), actor.files, actor.clock, actor.words)
        except Killed as death:
            self._clear(actor, power=death.power)
            self.plan(actor.down_for, self.start, actor)
            return
        except InputError as error:
            self._refused(actor, found, error)
            return
        except OSError as error:
            if not self._reads_fail(actor):
                raise ViolationError(f"{actor.name} does not start: {error}") from error
            self.plan(SECOND, self.start, actor)
            return
        actor.process, actor.armed, actor.due, actor.beaten = process, math.inf, math.nan, -math.inf
        wire = Wire(
            lambda peer, data: self.post(actor.index, number(peer), data),
            lambda peer, reason: self._broken.append((actor.index, number(peer), reason)),
        )
        process.connect(
            wire, lambda delay, call: self.later(actor, delay, call), lambda: self.revoked
        )
        self.trace.note(self.time, "start", actor.index, process.replica.rounds)
        self.checks.started(actor)
        actor.damaged = False
        self.later(actor, 0, lambda: None)  # arms its timer
        self.later(actor, SECOND, lambda: self._beat(actor))
        self.later(actor, SECOND // 2, lambda: self._watch(actor))
        for link in self._links_of(actor):
            if not link.up:
                self.plan(link.dial_pause(), self.dial, link)

    def _reads_fail(self, actor: Actor) -> bool:
        return "read" in actor.files.failing

    def _refused(self, actor: Actor, found: dict[str, bytes], error: InputError) -> None:
        """Let the operator put back what was there before the damage."""
        if actor.files.copy() != found:
            raise ViolationError(f"{actor.name} has changed a journal that it refused: {error}")
        if not actor.damaged:
            raise ViolationError(f"{actor.name} refuses a journal that nobody damaged: {error}")
        self.trace.note(self.time, "refused", actor.index)
        if actor.sound:
            actor.files.put_back(actor.sound)
            actor.damaged = False
        else:
            self.forget(actor)
        self.plan(SECOND, self.start, actor)

    def forget(self, actor: Actor) -> None:
        """Lose a journal; the agent that begins anew is another one to all others."""
        actor.files.put_back({})
        self.checks.lost(actor)
        actor.damaged = actor.uncertain = False
        actor.app.account = Account()
        actor.losses += 1

    def die(self, actor: Actor, *, power: bool) -> None:
        """End a process, and begin it again later."""
        if actor.process is None:
            return
        self.trace.note(self.time, "dies", actor.index, int(power))
        self._clear(actor, power=power)
        for link in self._links_of(actor):
            self.close(link, "it died")
        self.plan(actor.down_for, self.start, actor)

    def _clear(self, actor: Actor, *, power: bool) -> None:
        actor.process = None
        actor.life += 1
        actor.awake_at = self.time
        if not power:
            actor.files.process_died()
            return
        actor.files.power_failed()
        if self.schedule.durability == "process":  # promises nothing for what was not synced
            actor.uncertain, actor.damaged, actor.sound = True, True, {}

    def _arm(self, actor: Actor) -> None:
        assert actor.process is not None  # noqa: S101
        due = actor.process.node.next_tick
        if due == actor.due or due == math.inf:
            return
        actor.due = due
        at = self.time if due == -math.inf else max(self.time, actor.clock.when(due))
        if actor.armed <= self.time or at < actor.armed:
            at += at == self.time
            actor.armed = at
            self.plan(at - self.time, self._tick, actor, actor.life, at)

    def _tick(self, actor: Actor, life: int, armed: int) -> None:
        if actor.process is None or actor.life != life or actor.armed != armed:
            return
        actor.due = math.nan
        if actor.awake_at > self.time:
            actor.armed, actor.due = actor.awake_at, actor.process.node.next_tick
            self.plan(actor.awake_at - self.time, self._tick, actor, life, actor.armed)
            return
        self.trace.note(self.time, "tick", actor.index, actor.process.replica.rounds)
        self.act(actor, actor.process.node.tick)

    def _beat(self, actor: Actor) -> None:
        process = actor.process
        assert process is not None  # noqa: S101
        process.beat()
        if not process.node.trouble:
            actor.beaten = process.clock()
        self.later(actor, SECOND, lambda: self._beat(actor))
        self.checks.beat(actor)

    def _watch(self, actor: Actor) -> None:
        assert actor.process is not None  # noqa: S101
        actor.process.watch()
        self.later(actor, SECOND // 2, lambda: self._watch(actor))

    # Links

    def _links_of(self, actor: Actor) -> Iterator[Link]:
        for edge, link in self.links.items():
            if actor.index in edge:
                yield link

    def _end(self, index: int) -> Any:
        """Return what handles the events of one end; None if nobody does."""
        if index == len(self.actors):
            return self.liar if self.liar is not None and self.liar.present else None
        process = self.actors[index].process
        return None if process is None else process.node

    def _wants(self, index: int, other: int) -> bool:
        if self._end(index) is None:
            return False
        if index == len(self.actors):
            return True
        process = self.actors[index].process
        return process is not None and name(other) in process.node.peers

    def dial(self, link: Link) -> None:
        """Open a link, if both ends are there and nothing is between them."""
        if link.up:
            return
        one, other = link.ends
        if not (self._wants(one, other) and self._wants(other, one)):
            return  # whoever starts dials again
        held = max(way.held_until for way in link.directions.values())
        if max(held, link.cut_until) > self.time:
            self.plan(max(held, link.cut_until) - self.time + link.dial_pause(), self.dial, link)
            return
        link.open()
        for here, there in (link.ends, link.ends[::-1]):
            self._call_end(here, "link_up", name(there))

    def _call_end(self, index: int, method: str, *args: Any) -> None:
        end = self._end(index)
        if end is None:
            return
        if index == len(self.actors):
            getattr(end, method)(*args)
        else:
            self.act(self.actors[index], lambda: getattr(end, method)(*args))

    def close(self, link: Link, reason: str) -> None:
        """Break a link; it is dialled again."""
        if not link.up:
            return
        link.close()
        self.trace.note(self.time, "down", *link.ends)
        for here, there in (link.ends, link.ends[::-1]):
            process = self.actors[here].process if here < len(self.actors) else None
            if process is not None:
                process.outbox.forget(name(there))
            self._call_end(here, "link_down", name(there), reason)
        self.plan(link.dial_pause(), self.dial, link)

    def post(self, sender: int, receiver: int, data: bytes) -> bool:
        """Put a message under way."""
        link = self.links[min(sender, receiver), max(sender, receiver)]
        if not link.up:
            return False
        ends = sender, receiver
        if len(link.directions[ends].waiting) >= MOST_WAITING:
            self._broken.append((sender, receiver, "too many bytes wait to be sent"))
            return False
        for at in link.post(ends, data, self.weather, self.time):
            self.plan(at - self.time, self._arrive, link, ends, link.generation)
        return True

    def _arrive(self, link: Link, ends: tuple[int, int], generation: int) -> None:
        if link.generation != generation:
            return
        receiver = ends[1]
        until = link.directions[ends].held_until
        if receiver < len(self.actors):
            until = max(until, self.actors[receiver].awake_at)
        if until > self.time:
            self.plan(until - self.time, self._arrive, link, ends, generation)
            return
        for data in link.take(ends, self.weather):
            self.trace.note(self.time, "arrives", *ends, len(data))
            if link.generation == generation:
                self._call_end(receiver, "received", name(ends[0]), data)
        if receiver < len(self.actors):
            self.checks.heard(self.actors[receiver], name(ends[0]))

    # Applications

    def _pull(self, actor: Actor) -> None:
        if self.healed:
            return
        self.plan(self._pause(actor), self._pull, actor)
        self.choose(actor, actor.app.word())

    def choose(self, actor: Actor, word: int) -> None:
        """Ask for a choice, and plan what becomes of its ticket."""
        process = actor.process
        if process is None or actor.awake_at > self.time:
            return  # the application is told that nobody answers, and uses its default
        self.act(actor, lambda: self._choose(actor, process, word))

    def _choose(self, actor: Actor, process: Process, word: int) -> None:
        try:
            choice = process.service.choose()
        except UnavailableError:
            self.checks.unavailable(actor)
            return
        except TooManyTicketsError:
            return
        now = process.clock()
        self.trace.note(self.time, "chose", actor.index, self.cluster.arms.index(choice.arm))
        if choice.ticket:
            process.answer(lambda ok: self._chosen(actor, choice.ticket, choice.arm, now, word, ok))

    def _chosen(self, actor: Actor, ticket: str, arm: str, now: float, word: int, ok: bool) -> None:
        if not ok:
            return
        actor.app.took(ticket, arm, now)
        if word & 1023 < self.weather.forgotten:
            return
        value = reward_of(actor.app.key, len(actor.app.given) << 20, self.cluster.arms.index(arm))
        delay = (word >> 10) % SECOND if word >> 60 else int(LIFETIME * SECOND) + SECOND
        self.plan(delay, self._hand_in, actor, Reward(ticket, value), word >> 40)

    def _hand_in(self, actor: Actor, reward: Reward, word: int) -> None:
        if reward.ticket in actor.app.given_up:
            return  # what became of it is unknown, and the application has given it up
        process = actor.process
        if process is None or actor.awake_at > self.time:
            self.plan(RETRY, self._hand_in, actor, reward, word)
            return
        self.act(actor, lambda: self._observe(actor, process, reward, word))
        if actor.process is not process:
            self.plan(RETRY, self._hand_in, actor, reward, word)

    def _observe(self, actor: Actor, process: Process, reward: Reward, word: int) -> None:
        again = actor.app.hand_in(process, reward, actor.beaten)
        self.trace.note(self.time, "rewards", actor.index, int(4 * reward.value))
        if again is None:
            account = actor.app.account
            process.answer(lambda ok: self._observed(actor, account, reward, word, ok))
        elif again:
            self.plan(RETRY, self._hand_in, actor, reward, word)

    def _observed(
        self, actor: Actor, account: Account, reward: Reward, word: int, ok: bool
    ) -> None:
        if not ok:
            self.plan(RETRY, self._hand_in, actor, reward, word)
            return
        account.acknowledge(reward)
        if word % 16 == 0:
            self.plan(RETRY, self._hand_in, actor, reward, 1)
        elif word % 16 == 1:
            other = Reward(reward.ticket, 1.0 - reward.value)
            self.plan(RETRY, self._hand_in, actor, other, 2)

    # Backups and healing

    def _back_up(self) -> None:
        for actor in self.actors:
            if actor.files.names and not actor.uncertain and not actor.damaged:
                actor.copies.append((actor.files.copy(), actor.app.account.copy()))
        self.plan(2 * SECOND, self._back_up)

    def _heal(self) -> None:
        self.healed, self.weather = True, self.weather.calm
        for link in self.links.values():
            link.cut_until = 0
            for way in link.directions.values():
                way.held_until = 0
        for actor in self.actors:
            actor.files.heal()
            actor.awake_at = self.time
        if self.liar is not None:
            self.liar.leave()
            self.revoked = frozenset([name(self.liar.index)])
        self.trace.note(self.time, "heals")
        self.plan(SECOND, self._look)

    def _look(self) -> None:
        self.checks.settle()
        self.plan(SECOND // 2, self._look)
