"""Runs an agent in an event loop: timers drive the protocol, and stopping closes the journal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable
from functools import partial
from secrets import randbits

from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.document.seal import WatchedDocument
from coopbandits.fleet.process.commit import BesideRewriter, GroupCommit, Thread
from coopbandits.fleet.process.declare import (
    Declarations,
    RuledBandits,
    make_shell,
    open_bandits,
    take_file,
)
from coopbandits.fleet.protocol.gossip import HalfDoneError
from coopbandits.fleet.protocol.node import BEAT_SECONDS
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.storage.disk import Disk, DiskError
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.transport import Transport

JUMP = 5.0
"""A system clock that is ahead by more seconds than this was set forward."""

WATCH_SECONDS = 0.5
"""How often the journal is looked for where it was."""

EARLY = 0.001
"""uvloop's timers come up to so many seconds too early: a round would wait, and wake, once more."""

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
    service : ServedAgent
        Serves the application.
    failed : Event
        Something unexpected happened, so it serves no more; all that is left is to stop it.
    """

    def __init__(
        self,
        config: NodeConfig,
        disk: Disk,
        transport: Transport,
        words: Callable[[], int] = lambda: randbits(64),
    ) -> None:
        self.clock, self.id = SteadyClock(), config.id
        self.disk, self.transport = disk, transport
        bandits = open_bandits(config, disk, self.clock, words, stepwise=True)
        tell_opening(bandits.journal)
        self.shell = make_shell(config, bandits, transport, self.clock)
        self.node = self.shell.node
        self.service = ServedAgent(config, self.node, words, self.clock, self.shell.wait)
        self.node.settings.documents.subscribe("bandits", RuledBandits(self.service))
        self._watched = WatchedDocument(config.document.file, self.shell.adopt)
        self._thread: Thread | None = None
        self._writer: GroupCommit | BesideRewriter | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._armed = math.inf
        self.failed = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None

    @property
    def rounds(self) -> int:
        """Rounds completed."""
        return self.node.bandits.rounds

    def take(self, declared: Declarations) -> None:
        """Go by other declarations of bandits from now on; see `declare.take_file`."""
        take_file(self.service, declared)
        self.shell.settle()

    async def start(self) -> None:
        """Start the transport and the timers."""
        self._loop = asyncio.get_running_loop()
        self._thread = Thread()
        journal = self.node.bandits.journal
        if self.disk.durability == "power":
            self._writer = GroupCommit(self.shell, self._thread, self.fail)
        else:
            self._writer = BesideRewriter(journal, self._thread)
        if self.node.reads_at_ticks:
            self.transport.hold()
        await self.transport.start(self)
        self._arm_beat()
        self._on_watch()
        self._on_tick()

    async def stop(self) -> None:
        """Stop, even after a failed start, and close the journal, whatever fails before that."""
        self._stop_timers()
        async with contextlib.AsyncExitStack() as ends:  # the last one first
            ends.callback(self.disk.close)
            ends.push_async_callback(self._stop_transport)
            if self._thread:
                ends.callback(self._thread.close)
            if self._writer:
                ends.push_async_callback(self._writer.close)
            if self._ending is None:
                if self.node.members is not None:
                    self.node.members.leave()
                self.shell.leave()

    async def _stop_transport(self) -> None:
        await (self._ending or self.transport.stop())

    def _stop_timers(self) -> None:
        for handle in (self._beat, self._timer, self._watch):
            if handle:
                handle.cancel()

    def fail(self, where: str, error: BaseException | None) -> None:
        """End all service at once: half an agent is worse than none, which others notice.

        What is in memory may no longer be what the journal says; a restart reads it anew.
        """
        if self._ending is not None:
            return
        log.critical("agent %s failed in %s and stops", self.id, where, exc_info=error)
        self.service.failure = f"the agent failed in {where}; its log says why, start it again"
        self.failed.set()
        self._stop_timers()
        self._ending = self._loop.create_task(self.transport.stop())

    def _vital(self, where: str, *steps: Callable[[], None]) -> None:
        """Do what must not fail."""
        if self._ending is not None:
            return
        try:
            for step in steps:
                step()
        except Exception as error:
            self.fail(where, error)

    # Events of the transport

    def link_up(self, peer: str) -> None:
        """Pass on to the node."""
        self._vital("greeting a neighbour", partial(self.shell.link_up, peer))

    def received(self, peer: str, data: bytes) -> None:
        """Pass on to the node; the next round may have waited for just this message.

        A bug costs the link that brought it up, since a neighbour could do that again and again; if
        it may have left the agent's state half changed, it ends the agent.
        """
        if self._ending is not None:
            return
        try:
            self.shell.received(peer, data)
        except HalfDoneError as error:
            self.fail("a round of gossip", error)
            return
        except Exception as error:
            self._vital("giving up a link", partial(self.shell.give_up, peer, error))
            return
        if self.node.next_tick < self._armed:
            self._vital("a round of gossip", self.shell.tick, self._arm)

    def link_down(self, peer: str, reason: str) -> None:
        """Pass on to the node."""
        self._vital("losing a link", partial(self.shell.link_down, peer, reason))

    def refused(self, who: str, reason: str) -> None:
        """Pass on to the node."""
        self.shell.refused(who, reason)

    # Timers

    def _on_tick(self) -> None:
        self._timer = None
        self._vital("a round of gossip", self.transport.read, self._tick)

    def _tick(self) -> None:
        self._armed = math.inf
        self.shell.tick()
        self._arm()

    def _arm(self) -> None:
        due = self.node.next_tick
        if due >= self._armed:
            return
        if self._timer:
            self._timer.cancel()
        self._armed = due
        delay = max(0.0, due - self.clock())
        if delay > EARLY:
            delay += EARLY
        self._timer = self._loop.call_later(delay, self._on_tick)

    def _on_watch(self) -> None:
        self._vital("watching its journal", self._check_journal, self._arm_watch)

    def _check_journal(self) -> None:
        with contextlib.suppress(DiskError):  # the journal remembers it, and the beat tells
            self.node.bandits.journal.check()

    def _arm_watch(self) -> None:
        self._watch = self._loop.call_later(WATCH_SECONDS, self._on_watch)

    def _on_beat(self) -> None:
        beat = self.clock.follow_system_clock, self._watched.refresh, self.shell.beat
        self._vital("its upkeep", *beat, self._arm, self._arm_beat)

    def _arm_beat(self) -> None:
        self._beat = self._loop.call_later(BEAT_SECONDS, self._on_beat)


def tell_opening(journal: Journal) -> None:
    """Log what is unusual about a journal that was opened."""
    if journal.torn:
        log.warning(
            "cut off %d bytes of a record that was torn, and kept them beside the journal",
            journal.torn,
        )
    if journal.trouble:
        log.error("%s; until it can, choices come without tickets", journal.trouble)
