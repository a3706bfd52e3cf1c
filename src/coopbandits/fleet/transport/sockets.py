"""Sockets, independent of what is sent: resolving, connecting, listening, timeouts."""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.tls import reason_of
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.ratelimit import RateLimitedLog

BACKLOG = 128

Found = tuple[Any, ...]
"""Family, type, protocol, name, and what `bind` and `connect` take: see `socket.getaddrinfo`."""


def require_loopback(addresses: Iterable[Address]) -> None:
    """Reject addresses that are not on this machine's loopback interface."""
    for address in addresses:
        if not address.is_loopback:
            raise InputError(
                f"the address {address} is not on the loopback interface, and there is no [tls]; "
                "make certificates with `coopbandits certs`, or use 127.0.0.1"
            )


async def resolve(address: Address) -> list[Found]:
    """Resolve an address; a host name is looked up in another thread."""
    host, port = address
    try:
        numeric = socket.AI_NUMERICHOST
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numeric))
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        return list(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))


async def connect(address: Address) -> socket.socket:
    """Return a socket connected to the first resolved address that answers."""
    error = OSError(errno.EADDRNOTAVAIL, "the host has no address")
    for family, kind, protocol, _, target in await resolve(address):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, target)
            return sock
        except OSError as found:
            sock.close()
            error = found
        except BaseException:  # cancelled by a timeout
            sock.close()
            raise
    raise error


def listen(found: Iterable[Found]) -> list[socket.socket]:
    """Return listening sockets; addresses that this machine does not have are skipped."""
    sockets: list[socket.socket] = []
    error = OSError(errno.EADDRNOTAVAIL, "the host has no address")
    try:
        for family, kind, protocol, _, target in found:
            try:
                sockets.append(_listen(family, kind, protocol, target))
            except OSError as problem:
                if problem.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                error = problem
        if not sockets:
            raise error
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _listen(family: int, kind: int, protocol: int, target: Any) -> socket.socket:
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(target)
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def tune(sock: socket.socket, user_timeout: float) -> None:
    """Send small messages at once, and break early if nobody acknowledges them."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * user_timeout))


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
        self._failures = RateLimitedLog(log, "failures to accept a connection", few=1)

    def attend(self, sockets: list[socket.socket]) -> None:
        """Accept connections at sockets that listen already."""
        self.sockets = sockets
        for sock in sockets:
            sock.setblocking(False)
            self._watch(sock)

    def close(self) -> None:
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
        except Exception:  # one connection must not end all others
            sock.close()
            log.exception(LogEvent("cannot accept a connection", address=str(address)))

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        loop = asyncio.get_running_loop()
        reason = reason_of(error)
        self._failures.warning(
            loop.time(), LogEvent("not accepting connections", seconds=RETRY_SECONDS, reason=reason)
        )
        loop.remove_reader(listener)
        self._breaks[listener] = loop.call_later(RETRY_SECONDS, self._watch, listener)


@dataclass(frozen=True)
class Timing:
    """Timeouts and pauses, in seconds.

    Attributes
    ----------
    connect : float
        For a TCP connection, including the lookup of the host's name.
    handshake : float
        From then on until the other end is authenticated.
    user_timeout : float
        Until a connection breaks whose bytes are not acknowledged, if the system supports that.
    close : float
        For sending what is queued when a link is closed.
    first_pause, longest_pause : float
        Between two attempts to dial. Pauses grow by half each time, so after an outage the last
        one is about a third of it.
    proven : float
        How long a link must have been up for pauses to start again at the first.
    """

    connect: float = 1.0
    handshake: float = 5.0
    user_timeout: float = 2.0
    close: float = 1.0
    first_pause: float = 0.02
    longest_pause: float = 5.0
    proven: float = 1.0

    def pause(self, failures: int, uniform: float) -> float:
        """Return the pause after this many failures in a row; half of it is random."""
        whole = min(self.longest_pause, self.first_pause * 1.5 ** min(failures, 60))
        return whole * (0.5 + 0.5 * uniform)


def chance() -> float:
    """Return a uniform number from the system's source, so that agents do not retry in step."""
    return secrets.randbits(53) * 2.0**-53
