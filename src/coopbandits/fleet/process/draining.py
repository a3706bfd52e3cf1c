"""Stops an agent in order, so that nobody has to wait for it to come back.

From the first call on it makes no more choices and is not ready. It waits for the rewards of open
tickets and, where nobody else knows of all that it has, for a link, both until a deadline; then
until its neighbours have what they lack. A second signal ends it at once; a second request may
bring the deadline forward, and never puts it off.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable

from coopbandits.fleet.process.runtime import Runtime

HAND_IN_SECONDS = 2.0
"""For telling neighbours of the last rewards, beyond the deadline if need be; besides three rounds
and the time from one signature to the next."""

LOOK_SECONDS = 0.02

log = logging.getLogger(__name__)


class Drain:
    """The way from being told to stop to stopping.

    Parameters
    ----------
    runtime : Runtime
        The agent.
    seconds : float
        How long open tickets are waited for unless told otherwise; 0 stops at once.
    begun : callable
        Called once, when it begins.

    Attributes
    ----------
    over : Event
        The process may end.
    """

    def __init__(self, runtime: Runtime, seconds: float, begun: Callable[[], None]) -> None:
        self.runtime, self.seconds, self._begun = runtime, seconds, begun
        self.over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._deadline = math.inf  # until when tickets and a link are waited for

    def begin(self) -> None:
        """Begin; the second time, end at once."""
        if self._task is not None:
            log.warning("told to stop a second time: stopping at once")
            self.over.set()
            return
        self._begun()
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + self.seconds
        self._task = loop.create_task(self._drain(self.seconds))

    def ask(self, seconds: float | None) -> None:
        """Begin, with another deadline if given; once begun, the earliest one asked for counts.

        So a request that is repeated changes nothing, and nobody puts off what others wait for.
        """
        if self._task is None:
            self.seconds = self.seconds if seconds is None else seconds
            self.begin()
        elif seconds is not None:
            self._bring_forward(seconds)

    def _bring_forward(self, seconds: float) -> None:
        now = asyncio.get_running_loop().time()
        if now + seconds >= self._deadline:
            left = max(0.0, self._deadline - now)
            log.info("asked to drain for %g s, but going on for at most %.1f s", seconds, left)
            return
        log.info("draining for at most %g s from now on", seconds)
        self._deadline = now + seconds
        if seconds <= 0:
            self.over.set()

    async def _drain(self, seconds: float) -> None:
        try:
            if seconds > 0:
                await self._wait(seconds)
        finally:
            self.over.set()

    async def _wait(self, seconds: float) -> None:
        service, node = self.runtime.service, self.runtime.node
        service.draining = True
        waiting = node.bandits.open_tickets
        log.info("draining for at most %g s; open tickets: %d", seconds, waiting)
        node.events.note("draining", "stops soon, and makes no more choices")
        await self._until(lambda: not node.bandits.open_tickets, lambda: self._deadline)
        await self._until(
            lambda: node.is_linked() or not node.undelivered(), lambda: self._deadline
        )
        is_delivered = node.delivery_check()
        pace = node.in_force  # the document may have slowed it since the start
        allowed = HAND_IN_SECONDS + 3.0 / pace.rounds + pace.interval
        deadline = asyncio.get_running_loop().time() + allowed
        if not await self._until(is_delivered, lambda: deadline):
            log.warning("stopping although not all neighbours have the last rewards")
        elif not node.is_linked() and (undelivered := node.undelivered()):
            log.warning(
                "stopping without a link: up to %d rewards since the start are known to nobody "
                "else, and stay in the journal alone; start the agent again to hand them in",
                undelivered,
            )
        left = node.bandits.open_tickets
        log.info("drained; open tickets, which the journal keeps: %d", left)

    async def _until(self, holds: Callable[[], bool], deadline: Callable[[], float]) -> bool:
        """Wait until something holds, up to a deadline that may move; return whether it does."""
        loop = asyncio.get_running_loop()
        while not holds() and not self.runtime.failed.is_set() and loop.time() < deadline():
            await asyncio.sleep(LOOK_SECONDS)
        return holds()

    async def stop(self) -> None:
        """Give up what is left of it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
