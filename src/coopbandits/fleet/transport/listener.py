"""Sockets that take calls, as callbacks of the event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.tls import reason_of
from coopbandits.fleet.transport.sockets import listen, resolve

log = logging.getLogger(__name__)

BREAK = 1.0
"""Seconds without taking calls when that is not possible, mostly for want of file descriptors."""


class Listener:
    """Listens at one address until closed.

    `loop.sock_accept` would do the same in fewer lines, but it loses the socket that it accepted
    if it is cancelled at the wrong moment.

    Parameters
    ----------
    take : callable
        What is called with every socket accepted, and where it comes from.
    """

    def __init__(self, take: Callable[[socket.socket, Address], None]) -> None:
        self.take = take
        self.sockets: list[socket.socket] = []
        self._breaks: dict[socket.socket, asyncio.TimerHandle] = {}

    async def open(self, address: Address, timeout: float) -> Address:
        """Begin to listen, and return where: a port of 0 has been chosen by then."""
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
        except BlockingIOError:  # who called has gone
            return
        except OSError as error:
            log.warning("no calls are taken for %s s: %s", BREAK, reason_of(error))
            loop = asyncio.get_running_loop()
            loop.remove_reader(listener)
            self._breaks[listener] = loop.call_later(BREAK, self._attend, listener)
            return
        sock.setblocking(False)
        self.take(sock, Address(*address[:2]))
