"""The connections of an API: how many there are, and how long each may take."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import Any

from coopbandits.fleet.api.answers import Answer
from coopbandits.fleet.api.guard import Guarded
from coopbandits.fleet.api.metrics import Meter
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.sparing import SparingLog

log = logging.getLogger(__name__)


class Connections:
    """Accepted connections within their budget.

    Where the budget is used up, the connection that has waited longest for its client makes room,
    one that never made a request first. So idle ones, however many, keep nobody out.

    Parameters
    ----------
    limits : ApiLimits
        The limits.
    tls : ssl.SSLContext or None
        For HTTPS.
    meter : Meter
        Counts what is refused and cut.
    settings
        What uvicorn's connections need.
    """

    def __init__(
        self, limits: ApiLimits, tls: ssl.SSLContext | None, meter: Meter, **settings: Any
    ) -> None:
        self.limits, self.tls, self.meter, self.settings = limits, tls, meter, settings
        self._open: dict[Guarded, asyncio.Task[Any]] = {}
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
        made = Guarded(self.limits, self._forget, self._note_refusal, **self.settings)
        self._open[made] = asyncio.create_task(self._enter(made, sock))

    async def _enter(self, made: Guarded, sock: socket.socket) -> None:
        patience = self.limits.header_timeout if self.tls else None
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: made, sock, ssl=self.tls, ssl_handshake_timeout=patience
            )
        except BaseException as error:
            self._forget(made)
            sock.close()
            if not isinstance(error, OSError):  # such as a handshake that failed
                raise

    def sweep(self, now: float) -> None:
        """Cut those that take too long."""
        for made in [made for made in self._open if made.is_late(now)]:
            self._cut(made, made.phase)

    def close(self) -> None:
        """End handshakes that are under way."""
        for made, entering in list(self._open.items()):
            if not made.connected:
                entering.cancel()

    def _make_room(self) -> bool:
        waiting = [made for made in self._open if not made.busy]
        if not waiting:
            self.meter.cuts["no room"] += 1
            return False
        self._cut(min(waiting, key=lambda made: (made.served > 0, made.since)), "room")
        return True

    def _cut(self, made: Guarded, reason: str) -> None:
        self.meter.cuts[reason] += 1
        if reason != "idle":
            now = asyncio.get_running_loop().time()
            self._cuts.warning(now, "cut a connection of the API, by its limit: %s", reason)
        entering = self._open.pop(made)
        if made.connected:
            made.transport.abort()
        else:
            entering.cancel()

    def _forget(self, made: Guarded) -> None:
        self._open.pop(made, None)

    def _note_refusal(self, answer: Answer) -> None:
        self.meter.count("other", answer.status)
        now = asyncio.get_running_loop().time()
        self._refusals.warning(now, "refused a request: %s", answer.body.decode())
