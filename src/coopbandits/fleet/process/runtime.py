"""Runs an agent in an event loop: its protocol by the clock, its transport, its journal's end."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from secrets import randbits

from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.process.assemble import make_node, open_books
from coopbandits.fleet.protocol.node import BEAT_SECONDS
from coopbandits.fleet.service.application import Desk
from coopbandits.fleet.storage.disk import Disk
from coopbandits.fleet.transport import Transport

JUMP = 5.0
"""A clock of the system that is ahead by more than so many seconds was set."""

log = logging.getLogger(__name__)


class SteadyClock:
    """Seconds since 1970 that pass evenly and never go back.

    A clock of the system that was set forward is followed, as after the machine slept. One that was
    set back is not: nothing that was planned for later shall wait for it.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        """Return the time."""
        return self._offset + time.monotonic()

    def compare(self) -> None:
        """Follow the system's clock if it was set forward."""
        offset = time.time() - time.monotonic()
        if offset - self._offset > JUMP:
            log.warning("the clock was set forward by %.0f s", offset - self._offset)
            self._offset = offset


class Runtime:
    """One running agent.

    Parameters
    ----------
    config : NodeConfig
        What it is told.
    disk : Disk
        Where its journal lies.
    transport : Transport
        How it reaches its neighbours.
    words : callable
        64 random bits.

    Attributes
    ----------
    desk : Desk
        What the application talks to.
    """

    def __init__(
        self,
        config: NodeConfig,
        disk: Disk,
        transport: Transport,
        words: Callable[[], int] = lambda: randbits(64),
    ) -> None:
        self.clock = SteadyClock()
        self.disk, self.transport = disk, transport
        books = open_books(config, disk, self.clock(), words() | 1)
        if books.journal.torn:
            log.warning("cut off %d bytes of a record that was torn", books.journal.torn)
        self.node = make_node(config, books, transport, self.clock)
        self.desk = Desk(config, self.node, words)
        self._timer: asyncio.TimerHandle | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._armed = math.inf

    @property
    def rounds(self) -> int:
        """Rounds that have ended."""
        return self.node.books.rounds

    async def start(self) -> None:
        """Begin to gossip."""
        self._loop = asyncio.get_running_loop()
        await self.transport.start(self)
        self._beat = self._loop.call_later(BEAT_SECONDS, self._on_beat)
        self._on_tick()

    async def stop(self) -> None:
        """Stop gossip, also one that could not begin, and close the journal."""
        for handle in (self._beat, self._timer):
            if handle:
                handle.cancel()
        await self.transport.stop()
        self.disk.close()

    # The transport's events: whatever happens may bring the next tick nearer.

    def link_up(self, peer: str) -> None:
        """Hand on."""
        self.node.link_up(peer)

    def received(self, peer: str, data: bytes) -> None:
        """Hand on; it may have been what the next round waited for."""
        self.node.received(peer, data)
        if self.node.next_tick < self._armed:
            self.node.tick()
            self._arm()

    def link_down(self, peer: str, reason: str) -> None:
        """Hand on."""
        self.node.link_down(peer, reason)

    def refused(self, who: str, reason: str) -> None:
        """Hand on."""
        self.node.refused(who, reason)

    # The clock's

    def _on_tick(self) -> None:
        self._timer, self._armed = None, math.inf
        self.node.tick()
        self._arm()

    def _arm(self) -> None:
        due = self.node.next_tick
        if due >= self._armed:
            return
        if self._timer:
            self._timer.cancel()
        self._armed = due
        delay = max(0.0, due - self.clock())
        self._timer = self._loop.call_later(delay, self._on_tick)

    def _on_beat(self) -> None:
        self.clock.compare()
        self.node.beat()
        self._arm()
        self._beat = self._loop.call_later(BEAT_SECONDS, self._on_beat)
