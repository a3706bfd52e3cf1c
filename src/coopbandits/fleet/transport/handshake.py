"""From a connected socket to a link, or to the word that there will be none."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

from coopbandits.fleet.tls import Credentials, reason_of
from coopbandits.fleet.transport.connection import Connection
from coopbandits.fleet.transport.sockets import tune
from coopbandits.fleet.transport.timing import Timing


async def establish(
    connection: Connection, sock: socket.socket, credentials: Credentials | None, timing: Timing
) -> None:
    """Bring a connection up, or give it up: what becomes of it is an event."""
    tune(sock, timing.user_timeout)
    opening = asyncio.ensure_future(_open(connection, sock, credentials, timing.close))
    try:
        async with asyncio.timeout(timing.handshake):
            await asyncio.shield(opening)
            await connection.settled
    except OSError as error:
        connection.refuse(f"no handshake ({reason_of(error)})")
    finally:
        if not connection.up:
            connection.closing = True
            await _give_up(opening, sock)
            connection.abort("given up")


async def _open(
    connection: Connection, sock: socket.socket, credentials: Credentials | None, close: float
) -> None:
    loop = asyncio.get_running_loop()
    tls: dict[str, Any] = {}
    if credentials is not None:
        contexts = credentials.contexts()
        context = contexts.client if connection.dialled else contexts.server
        tls = {"ssl": context, "ssl_shutdown_timeout": close}
    if connection.dialled:
        name = "" if tls else None  # ids are compared by the connection itself
        await loop.create_connection(lambda: connection, sock=sock, server_hostname=name, **tls)
    else:
        await loop.connect_accepted_socket(lambda: connection, sock, **tls)


async def _give_up(opening: asyncio.Future[None], sock: socket.socket) -> None:
    """End a handshake from below: one that is cancelled in its first moment stays open for ever."""
    if not opening.done():
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
    await asyncio.gather(opening, return_exceptions=True)
