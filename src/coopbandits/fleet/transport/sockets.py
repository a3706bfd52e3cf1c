"""Resolving, connecting and listening, independent of what is sent."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterable
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address

BACKLOG = 128

Found = tuple[Any, ...]
"""Family, type, protocol, name, and what `bind` and `connect` take: see `socket.getaddrinfo`."""


def require_loopback(addresses: Iterable[Address]) -> None:
    """Refuse addresses that are not on this machine's loopback interface."""
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
