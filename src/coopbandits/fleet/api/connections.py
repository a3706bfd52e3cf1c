"""The connections of an API: how many there are, and how long each may take."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from email.utils import formatdate
from typing import Any

from coopbandits.fleet.api.answers import Answer
from coopbandits.fleet.api.protocol import Connection
from coopbandits.fleet.api.site import Site
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.sparing import SparingLog

log = logging.getLogger(__name__)


class Connections:
    """Accepted connections within their budget.

    Where the budget is used up, the connection that has waited longest for its client makes room,
    one that never made a request first. So idle ones, however many, keep nobody out.

    Parameters
    ----------
    api : Site
        Answers requests, and counts what is refused and cut.
    limits : ApiLimits
        The limits.
    tls : ssl.SSLContext or None
        For HTTPS.
    """

    def __init__(self, api: Site, limits: ApiLimits, tls: ssl.SSLContext | None) -> None:
        self.api, self.limits, self.tls = api, limits, tls
        self.date = formatdate(usegmt=True).encode()
        self._open: dict[Connection, asyncio.Task[Any]] = {}
        self._left = asyncio.Event()
        self._refusals = SparingLog(log, "refused requests")
        self._cuts = SparingLog(log, "cut connections")

    def __len__(self) -> int:
        return len(self._open)

    def take(self, sock: socket.socket, _: Any) -> None:
        """Serve an accepted socket, or close it if there is no room."""
        if len(self._open) >= self.limits.max_connections and not self._make_room():
            sock.close()
            return
        if sock.family != socket.AF_UNIX:  # without this, 40 ms are lost
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made = Connection(self, asyncio.get_running_loop())
        self._open[made] = asyncio.create_task(self._enter(made, sock))

    async def _enter(self, made: Connection, sock: socket.socket) -> None:
        patience = self.limits.header_timeout if self.tls else None
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: made, sock, ssl=self.tls, ssl_handshake_timeout=patience
            )
        except BaseException as error:
            self.forget(made)
            sock.close()
            if not isinstance(error, OSError):  # such as a handshake that failed
                raise

    def sweep(self, now: float) -> None:
        """Cut those that take too long, and set the date."""
        self.date = formatdate(usegmt=True).encode()
        for made in [made for made in self._open if made.is_late(now)]:
            self._cut(made, made.phase)

    async def close(self, grace: float) -> None:
        """Finish open requests and close; cut those that take longer."""
        for made, entering in list(self._open.items()):
            if made.transport is None:
                entering.cancel()
            else:
                made.leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._wait_until_left()
        for made in list(self._open):
            if made.transport is not None:
                made.transport.abort()
        await self._wait_until_left()

    async def _wait_until_left(self) -> None:
        while self._open:
            self._left.clear()
            await self._left.wait()

    def _make_room(self) -> bool:
        waiting = [made for made in self._open if not made.busy]
        if not waiting:
            self.api.meter.cuts["no room"] += 1
            return False
        self._cut(min(waiting, key=lambda made: (made.served > 0, made.since)), "room")
        return True

    def _cut(self, made: Connection, reason: str) -> None:
        self.api.meter.cuts[reason] += 1
        if reason != "idle":
            now = asyncio.get_running_loop().time()
            self._cuts.warning(now, "cut a connection of the API, by its limit: %s", reason)
        entering = self._open.pop(made)
        if made.transport is not None:
            made.transport.abort()
        else:
            entering.cancel()

    def forget(self, made: Connection) -> None:
        """Count a connection no longer."""
        self._open.pop(made, None)
        if not self._open:
            self._left.set()

    def note_refusal(self, answer: Answer) -> None:
        """Count and log what was no request within the limits."""
        self.api.meter.count("other", answer.status)
        now = asyncio.get_running_loop().time()
        self._refusals.warning(now, "refused a request: %s", answer.body.decode())
