"""A fleet on a virtual clock, network and disk, driven by events from one queue.

Nothing here depends on anything but the schedule: time is a whole number of microseconds, events at
the same time happen in the order in which they were planned, and all chance is words at places.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from coopbandits.core.draws import stream_key, word_at
from tests.torture.actor import Actor
from tests.torture.checks import Checks
from tests.torture.liars import Liar
from tests.torture.lives import Lives
from tests.torture.open_wiring import SEEDS, OpenWiring
from tests.torture.operator import Operator
from tests.torture.schedule import JOINS, LIES, SECOND, Schedule
from tests.torture.trace import Trace
from tests.torture.troubles import strike
from tests.torture.visits import Visits
from tests.torture.wiring import Wiring

PATIENCE = 60
"""Seconds after healing until everything must be well."""


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
        self.bandit = self.setting.bandit()
        self.robust = not self.bandit.is_synchronous
        self.weather = schedule.weather
        self.time, self.events, self._planned = 0, 0, 0
        self.healed = False
        self.era = 0  # the latest
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        size = self.setting.agents
        self.actors = [Actor(schedule.seed, i, lambda: self.time) for i in range(size)]
        self.lives, self.visits = Lives(self), Visits(self)
        self.wiring = OpenWiring(self) if schedule.auto else Wiring(self)
        self.operator = Operator(self)
        self.liar: Liar | None = None
        self._lay_links()
        self.checks = Checks(self)
        self._begin()

    def _lay_links(self) -> None:
        """Make agents a ring, and the liar a neighbour of two; or let any two be connected."""
        size, auto = self.setting.agents, self.schedule.auto
        for one in range(size):
            for other in range(one + 1, size) if auto else [(one + 1) % size]:
                self.wiring.lay(one, other)
        if any(trouble.kind == "liar" for trouble in self.schedule.troubles):
            self.liar = Liar(self, size, stream_key(self.schedule.seed, LIES))
            for victim in range(size) if auto else (0, size // 2 - 1):
                self.wiring.lay(victim, size)

    def _begin(self) -> None:
        for actor in self.actors:
            self.plan(self._first_start(actor), self.lives.start, actor)
            self.visits.begin(actor)
        self.wiring.begin()
        for trouble in self.schedule.troubles:
            self.plan(trouble.at, strike, self, trouble)
        if any(trouble.kind == "rollback" for trouble in self.schedule.troubles):
            self.plan(SECOND, self._back_up)
        self.plan(self.setting.trouble_time, self._heal)

    def _first_start(self, actor: Actor) -> int:
        """Return when an agent starts; where agents find each other, half of them join later."""
        if not self.schedule.auto or actor.name in {seed.host for seed in SEEDS}:
            return actor.phase
        word = word_at(stream_key(self.schedule.seed, JOINS), actor.index)
        return actor.phase + (word & 1) * ((word >> 1) % (self.setting.trouble_time // 2))

    @property
    def lies(self) -> Liar:
        """The liar, where there is one."""
        assert self.liar is not None
        return self.liar

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
                self.checks.overdue((at - deadline) / SECOND)
            self.time = at
            self.events += 1
            call(*args)
            if self.checks.done:
                return

    # Backups and healing

    def _back_up(self) -> None:
        for actor in self.actors:
            actor.back_up()
        self.plan(2 * SECOND, self._back_up)

    def _heal(self) -> None:
        self.healed, self.weather = True, self.weather.calm
        for link in self.wiring.links.values():
            link.cut_until = 0
            for way in link.directions.values():
                way.held_until = 0
        for actor in self.actors:
            actor.files.heal()
            actor.awake_at = self.time
        if self.liar is not None:
            self.liar.leave()
            for actor in self.actors:
                self.liar.revoke(actor)
        self.trace.note(self.time, "heals")
        self.plan(SECOND, self._look)

    def _look(self) -> None:
        if self.schedule.bandits or self.era:
            self._complete()
        self.operator.hand_over(self.actors[0])  # who got the latest may have lost it
        self.checks.settle()
        self.plan(SECOND // 2, self._look)

    def _complete(self) -> None:
        """Bring all agents to the latest era, and give them the second bandit."""
        for actor in self.actors:
            actor.file.side, actor.file.era = True, self.era
            process = actor.process
            if process is not None and (
                process.replica.era != self.era or (self.schedule.bandits and not process.has_side)
            ):
                self.lives.redeclare(actor)
