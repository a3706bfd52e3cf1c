"""The handshake that turns a connected socket into a link, or refuses it."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

from coopbandits.fleet.identity.tls import Credentials, reason_of
from coopbandits.fleet.transport.connection import Connection
from coopbandits.fleet.transport.sockets import tune
from coopbandits.fleet.transport.timing import Timing

log = logging.getLogger(__name__)


async def establish(
    connection: Connection, sock: socket.socket, credentials: Credentials, timing: Timing
) -> None:
    """Bring a connection up or give it up; the outcome is reported as an event."""
    try:
        async with asyncio.timeout(timing.handshake):
            tune(sock, timing.user_timeout)
            sock = secure = await secured(sock, credentials, connection.dialled)
            connection.open(secure)
            await connection.settled.wait()
    except OSError as error:
        connection.refuse(f"no handshake ({reason_of(error)})")
    except Exception:  # a bug must not cost more than this connection
        log.exception("a handshake with %s failed", connection.who)
        connection.refuse("the handshake failed")
    finally:
        if not connection.up:
            connection.abort("given up")
            sock.close()


async def secured(sock: socket.socket, credentials: Credentials, dialled: bool) -> ssl.SSLSocket:
    """Wrap a socket in TLS; returns once both ends have verified certificates."""
    contexts = credentials.contexts()
    context = contexts.client if dialled else contexts.server
    # No server_hostname: the connection itself compares ids.
    secure = context.wrap_socket(
        sock,
        server_side=not dialled,
        do_handshake_on_connect=False,
        suppress_ragged_eofs=False,  # an unannounced end may be forged
    )
    try:
        await _shake_hands(secure)
    except BaseException:
        secure.close()
        raise
    return secure


async def _shake_hands(sock: ssl.SSLSocket) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            return sock.do_handshake()
        except ssl.SSLWantReadError:
            await _ready(sock, loop.add_reader, loop.remove_reader)
        except ssl.SSLWantWriteError:
            await _ready(sock, loop.add_writer, loop.remove_writer)


async def _ready(
    sock: socket.socket, watch: Callable[..., Any], forget: Callable[[socket.socket], Any]
) -> None:
    ready = asyncio.Event()
    watch(sock, ready.set)
    try:
        await ready.wait()
    finally:
        forget(sock)
