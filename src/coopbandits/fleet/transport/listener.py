"""Listening sockets, driven by callbacks of the event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.tls import reason_of
from coopbandits.fleet.sparing import SparingLog
from coopbandits.fleet.transport.sockets import listen, resolve

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""How long to wait after a failed accept, mostly for want of file descriptors."""


class Listener:
    """Listens at one address until closed.

    `loop.sock_accept` would take fewer lines, but if it is cancelled at the wrong moment, it loses
    the accepted socket. `loop.create_server` tries again at once, and logs it, while there are no
    file descriptors left.

    Parameters
    ----------
    take : callable
        Called with every accepted socket, which it must close, and its remote address.
    """

    def __init__(self, take: Callable[[socket.socket, Any], None]) -> None:
        self.take = take
        self.sockets: list[socket.socket] = []
        self._breaks: dict[socket.socket, asyncio.TimerHandle] = {}
        self._failures = SparingLog(log, "failures to take a call", few=1)

    async def open(self, address: Address, timeout: float) -> Address:
        """Start to listen, and return the address with its actual port."""
        async with asyncio.timeout(timeout):
            found = await resolve(address)
        self.attend(listen(found))
        return Address(*self.sockets[0].getsockname()[:2])

    def attend(self, sockets: list[socket.socket]) -> None:
        """Take calls at sockets that listen already."""
        self.sockets = sockets
        for sock in sockets:
            sock.setblocking(False)
            self._watch(sock)

    def close(self) -> None:
        """Stop listening."""
        for pause in self._breaks.values():
            pause.cancel()
        for sock in self.sockets:
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
        self.sockets = []

    def _watch(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, address = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # the caller has hung up already
            return
        except OSError as error:
            self._pause(listener, error)
            return
        sock.setblocking(False)
        try:
            self.take(sock, address)
        except Exception:  # one call must not end all
            sock.close()
            log.exception("a call from %s could not be taken", address)

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        loop = asyncio.get_running_loop()
        text = "no calls are taken for %s s: %s"
        self._failures.warning(loop.time(), text, RETRY_SECONDS, reason_of(error))
        loop.remove_reader(listener)
        self._breaks[listener] = loop.call_later(RETRY_SECONDS, self._watch, listener)
