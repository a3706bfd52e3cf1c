"""Runs an agent in an event loop: timers drive the protocol, and stopping closes the journal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable
from secrets import randbits

from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.process.assemble import make_node, open_replica
from coopbandits.fleet.process.commit import GroupCommit, Outbox
from coopbandits.fleet.protocol.node import BEAT_SECONDS
from coopbandits.fleet.service.application import ApplicationService
from coopbandits.fleet.storage.disk import Disk, DiskError
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.transport import Transport

JUMP = 5.0
"""A system clock that is ahead by more seconds than this was set forward."""

WATCH_SECONDS = 0.5
"""How often the journal is looked for where it was."""

log = logging.getLogger(__name__)


class SteadyClock:
    """Seconds since 1970 that pass evenly and never go back.

    If the system clock is set forward, as after the machine slept, this clock follows. If it is set
    back, this one does not: timers would otherwise wait for it to catch up.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        """Return the time."""
        return self._offset + time.monotonic()

    def follow_system_clock(self) -> None:
        """Jump if the system clock was set forward."""
        offset = time.time() - time.monotonic()
        if offset - self._offset > JUMP:
            log.warning("the clock was set forward by %.0f s", offset - self._offset)
            self._offset = offset


class Runtime:
    """One running agent.

    Parameters
    ----------
    config : NodeConfig
        Its configuration.
    disk : Disk
        Stores its journal.
    transport : Transport
        Its links.
    words : callable
        Returns 64 random bits.

    Attributes
    ----------
    service : ApplicationService
        Serves the application.
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
        replica = open_replica(config, disk, self.clock(), words() | 1, words())
        tell_opening(replica.journal)
        self.outbox = Outbox(transport)
        self.node = make_node(config, replica, self.outbox, self.clock)
        self.service = ApplicationService(config, self.node, words)
        self._committer: GroupCommit | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._armed = math.inf

    @property
    def rounds(self) -> int:
        """Rounds completed."""
        return self.node.replica.rounds

    async def start(self) -> None:
        """Start the transport and the timers."""
        self._loop = asyncio.get_running_loop()
        if self.disk.durability == "power":
            journal = self.node.replica.journal
            self.service.committer = self._committer = GroupCommit(journal, self.outbox)
        await self.transport.start(self)
        self._beat = self._loop.call_later(BEAT_SECONDS, self._on_beat)
        self._on_watch()
        self._on_tick()

    async def stop(self) -> None:
        """Stop, even after a failed start, and close the journal."""
        for handle in (self._beat, self._timer, self._watch):
            if handle:
                handle.cancel()
        if self._committer:
            await self._committer.close()
        await self.transport.stop()
        self.disk.close()

    # Events of the transport

    def link_up(self, peer: str) -> None:
        """Pass on to the node."""
        self.node.link_up(peer)

    def received(self, peer: str, data: bytes) -> None:
        """Pass on to the node; the next round may have waited for just this message."""
        self.node.received(peer, data)
        if self.node.next_tick < self._armed:
            self.node.tick()
            self._arm()

    def link_down(self, peer: str, reason: str) -> None:
        """Pass on to the node; what waits to be sent was meant for this link."""
        self.outbox.forget(peer)
        self.node.link_down(peer, reason)

    def refused(self, who: str, reason: str) -> None:
        """Pass on to the node."""
        self.node.refused(who, reason)

    # Timers

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

    def _on_watch(self) -> None:
        with contextlib.suppress(DiskError):  # the journal remembers it, and the beat tells
            self.node.replica.journal.check()
        self._watch = self._loop.call_later(WATCH_SECONDS, self._on_watch)

    def _on_beat(self) -> None:
        self.clock.follow_system_clock()
        self.node.beat()
        self._arm()
        self._beat = self._loop.call_later(BEAT_SECONDS, self._on_beat)


def tell_opening(journal: Journal) -> None:
    """Log what is unusual about a journal that was opened."""
    if journal.torn:
        log.warning(
            "cut off %d bytes of a record that was torn, and kept them beside the journal",
            journal.torn,
        )
    if journal.converts and not journal.trouble:
        log.info("converted the journal of version 0.1, and kept the original as journal.v1")
    if journal.trouble:
        log.error("%s; until it can, choices come without tickets", journal.trouble)
