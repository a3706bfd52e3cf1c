"""A running agent: the event loop's clock and timers drive its protocol.

Whatever fails unexpectedly ends the agent (`Runtime.fail`): what is in memory may no longer be what
the journal says, and half an agent, which peers and applications still reach, is worse than none.
"""

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
from coopbandits.fleet.config.read import credentials_of
from coopbandits.fleet.document.seal import WatchedDocument
from coopbandits.fleet.identity.tls import ExpiryWatch
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.process.assemble import make_members, make_shell, open_bandits
from coopbandits.fleet.process.declarations import Declarations, DocumentBandits, take_file
from coopbandits.fleet.process.shell import BackgroundRewriter, DiskThread, GroupCommit
from coopbandits.fleet.protocol.gossip import HalfDoneError
from coopbandits.fleet.protocol.node import BEAT_SECONDS
from coopbandits.fleet.service import Stored
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.storage.disk import Disk, DiskError, FileDisk
from coopbandits.fleet.transport import Transport
from coopbandits.fleet.transport.tcp import OpenTransport, TcpTransport

JUMP = 5.0
"""The system clock was set forward if it is ahead by more than this, in seconds."""

WATCH_SECONDS = 0.5
"""Interval of the checks that the journal's file is still in its place."""

EARLY = 0.001
"""Seconds by which uvloop's timers may come too early, so that a round would need a second one."""

log = logging.getLogger(__name__)

draw_word = partial(randbits, 64)
"""Return 64 random bits."""


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


def make_runtime(config: NodeConfig, disk: Disk | None = None) -> Runtime:
    """Return an agent with its neighbours on the network, and its journal in its folder.

    `disk` is another place for the journal, for an agent that is not going to run.
    """
    credentials = credentials_of(config)
    if config.auto:
        transport: TcpTransport = OpenTransport(config.id, config.listen, credentials)
    else:
        transport = TcpTransport(config.id, config.listen, config.neighbors, credentials)
    disk = disk or FileDisk(config.journal, config.durability)
    try:
        runtime = Runtime(config, disk, transport)
        if config.auto:
            node = runtime.node
            node.members = make_members(config, node, draw_word, lambda: transport.address.port)
    except BaseException:
        disk.close()
        raise
    credentials.report = runtime.node.events.note
    runtime.service.certificate_ends = lambda: credentials.expires
    runtime.expiry = ExpiryWatch(credentials)
    return runtime


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
        Something unexpected happened and service has ended; what is left is `stop`.
    """

    def __init__(
        self,
        config: NodeConfig,
        disk: Disk,
        transport: Transport,
        words: Callable[[], int] = draw_word,
    ) -> None:
        self.clock, self.id = SteadyClock(), config.id
        self.disk, self.transport = disk, transport
        bandits = open_bandits(config, disk, self.clock, words, stepwise=True)
        self.journal = bandits.journal
        self.shell = make_shell(config, bandits, transport, self.clock)
        self.node = self.shell.node
        self.service = ServedAgent(config, self.node, words, self.clock, self._stored)
        self.node.settings.documents.subscribe("bandits", DocumentBandits(self.service))
        self._watched = WatchedDocument(config.document.file, self.shell.adopt)
        self._thread: DiskThread | None = None
        self._writer: GroupCommit | BackgroundRewriter | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._beat_timer: asyncio.TimerHandle | None = None
        self._watch_timer: asyncio.TimerHandle | None = None
        self._armed = math.inf  # the time of the next tick
        self.expiry: ExpiryWatch | None = None
        self.failed = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None  # of the transport, after a failure

    @property
    def rounds(self) -> int:
        """Rounds completed."""
        return self.node.bandits.rounds

    def _stored(self, then: Stored) -> None:
        """Call `then` once all events so far are on disk; see to calls that were begun."""
        self.shell.wait(then)
        if self.node.calls.pending:
            self.transport.hurry(True)
            self._arm()

    def take(self, declared: Declarations) -> None:
        """Change the bandits to those of the agent's changed file; see `take_file`."""
        take_file(self.service, declared)
        self.shell.settle()

    async def start(self) -> None:
        """Start the transport and the timers."""
        self._loop = asyncio.get_running_loop()
        if self.journal.torn:
            log.warning(
                "cut off %d bytes of a torn record, and kept them beside the journal",
                self.journal.torn,
            )
        if self.journal.trouble:
            log.error(
                LogEvent(
                    "/choose is read-only and returns no ticket until the journal can be written",
                    reason=self.journal.trouble,
                )
            )
        self._thread = DiskThread()
        if self.disk.durability == "power":
            self._writer = GroupCommit(self.shell, self._thread, self.fail)
        else:
            self._writer = BackgroundRewriter(self.journal, self._thread)
        if self.node.reads_at_ticks:
            self.transport.hold()
        await self.transport.start(self)
        self._arm_beat()
        self._look_at_certificate()
        self._on_watch()
        self._on_tick()

    async def stop(self) -> None:
        """Stop, also after a failed start, and close the journal, whatever fails before that."""
        self._stop_timers()
        async with contextlib.AsyncExitStack() as ends:  # the last one first
            ends.callback(self.disk.close)
            ends.push_async_callback(self._stop_transport)
            if self._thread:
                ends.callback(self._thread.close)
            if self._writer:
                ends.push_async_callback(self._writer.close)
            if self._ending is None:
                self.shell.leave()

    async def _stop_transport(self) -> None:
        await (self._ending or self.transport.stop())

    def _stop_timers(self) -> None:
        for handle in (self._beat_timer, self._tick_timer, self._watch_timer):
            if handle:
                handle.cancel()

    def fail(self, where: str, error: BaseException | None) -> None:
        """End all service at once; a restart recovers the state from the journal."""
        if self._ending is not None:
            return
        log.critical("agent %s failed in %s and stops", self.id, where, exc_info=error)
        self.service.failure = f"the agent failed in {where}; its log says why, start it again"
        self.failed.set()
        self._stop_timers()
        self._ending = self._loop.create_task(self.transport.stop())
        self.node.calls.abandon()

    def _vital(self, where: str, *steps: Callable[[], None]) -> None:
        """Run steps whose failure ends the agent."""
        if self._ending is not None:
            return
        try:
            for step in steps:
                step()
        except Exception as error:
            self.fail(where, error)

    # Events of the transport

    def link_up(self, peer: str) -> None:
        self._vital("greeting a neighbour", partial(self.shell.link_up, peer))

    def received(self, peer: str, data: bytes) -> None:
        """Handle bytes; the next round may have waited for just this message.

        A bug closes the link that triggered it, so that no neighbour can end the agent at will,
        unless the agent's state may be half changed.
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
        self._vital("losing a link", partial(self.shell.link_down, peer, reason))

    def refused(self, who: str, reason: str) -> None:
        self.shell.refused(who, reason)

    # Timers

    def _on_tick(self) -> None:
        self._tick_timer = None
        self._vital("a round of gossip", self.transport.read, self._tick)

    def _tick(self) -> None:
        self._armed = math.inf
        self.shell.tick()
        self.transport.hurry(self.node.calls.is_lively)
        self._arm()

    def _arm(self) -> None:
        """Set the timer for the next tick, if it is earlier than the one that is set."""
        due = self.node.next_tick
        if due >= self._armed:
            return
        if self._tick_timer:
            self._tick_timer.cancel()
        self._armed = due
        delay = max(0.0, due - self.clock())
        if delay > EARLY:
            delay += EARLY
        self._tick_timer = self._loop.call_later(delay, self._on_tick)

    def _on_watch(self) -> None:
        self._vital("watching its journal", self._watch)

    def _watch(self) -> None:
        with contextlib.suppress(DiskError):  # the journal remembers it, and `beat` reports it
            self.journal.check()
        self._watch_timer = self._loop.call_later(WATCH_SECONDS, self._on_watch)

    def _on_beat(self) -> None:
        beat = self.clock.follow_system_clock, self._watched.refresh, self.shell.beat
        self._vital("its upkeep", *beat, self._look_at_certificate, self._arm, self._arm_beat)

    def _look_at_certificate(self) -> None:
        if self.expiry is not None:
            self.expiry.look(self.clock())

    def _arm_beat(self) -> None:
        self._beat_timer = self._loop.call_later(BEAT_SECONDS, self._on_beat)
