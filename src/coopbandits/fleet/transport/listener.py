"""Listening sockets, driven by callbacks of the event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.tls import reason_of
from coopbandits.fleet.transport.sockets import listen, resolve

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""How long to wait after a failed accept, mostly for want of file descriptors."""


class Listener:
    """Listens at one address until closed.

    `loop.sock_accept` would take fewer lines, but if it is cancelled at the wrong moment, it loses
    the accepted socket.

    Parameters
    ----------
    take : callable
        Called with every accepted socket and its remote address.
    """

    def __init__(self, take: Callable[[socket.socket, Address], None]) -> None:
        self.take = take
        self.sockets: list[socket.socket] = []
        self._breaks: dict[socket.socket, asyncio.TimerHandle] = {}

    async def open(self, address: Address, timeout: float) -> Address:
        """Start to listen, and return the address with its actual port."""
        async with asyncio.timeout(timeout):
            found = await resolve(address)
        self.sockets = listen(found)
        for sock in self.sockets:
            self._attend(sock)
        return Address(*self.sockets[0].getsockname()[:2])

    def close(self) -> None:
        """Stop listening."""
        for pause in self._breaks.values():
            pause.cancel()
        for sock in self.sockets:
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
        self.sockets = []

    def _attend(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, address = listener.accept()
        except BlockingIOError:  # the caller has hung up already
            return
        except OSError as error:
            log.warning("no calls are taken for %s s: %s", RETRY_SECONDS, reason_of(error))
            loop = asyncio.get_running_loop()
            loop.remove_reader(listener)
            self._breaks[listener] = loop.call_later(RETRY_SECONDS, self._attend, listener)
            return
        sock.setblocking(False)
        self.take(sock, Address(*address[:2]))
