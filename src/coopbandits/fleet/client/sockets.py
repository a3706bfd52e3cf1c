"""A connection for programs without an event loop."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopbandits.fleet.client.pool import Ear
from coopbandits.fleet.client.wire import Reply, Wire

if TYPE_CHECKING:
    import ssl

    from coopbandits.fleet.address import Address
    from coopbandits.fleet.client.caller import Call

CHUNK = 2**14


class SocketLink:
    """A connection to the agent, open once `open` has returned."""

    def __init__(self) -> None:
        self.wire = Wire()
        self._socket = socket.socket()

    def open(self, place: Address | Path, call: Call, tls: ssl.SSLContext | None) -> None:
        """Connect to the first address of a place that answers."""
        failure = OSError(f"{place} has no address")
        for family, end in _ends(place):
            self.close()
            self._socket = socket.socket(family, socket.SOCK_STREAM)
            try:
                self._connect(end, call, tls)
            except OSError as error:
                failure = error
            else:
                return
        raise failure

    def _connect(self, end: Any, call: Call, tls: ssl.SSLContext | None) -> None:
        self._socket.settimeout(call.left())
        self._socket.connect(end)
        if self._socket.family != socket.AF_UNIX:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                wrapped = tls.wrap_socket(
                    self._socket, server_hostname=call.host, do_handshake_on_connect=False
                )
                self._socket = wrapped  # before the handshake, so that a fork meanwhile finds it
                wrapped.settimeout(call.left())
                wrapped.do_handshake()
        self.is_quiet = Ear(self._socket.fileno()).is_quiet

    def ask(self, call: Call) -> Reply:
        """Send a request, and wait for the reply."""
        self._socket.settimeout(call.left())
        self._socket.sendall(call.data)
        while True:
            self._socket.settimeout(call.left())
            reply = self.wire.feed(self._socket.recv(CHUNK))
            if reply is not None:
                return reply

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def forget(self) -> None:
        """Close a copy that a fork made, whatever a thread of the parent does with it."""
        with contextlib.suppress(OSError):
            os.close(self._socket.detach())


def _ends(place: Address | Path) -> Iterator[tuple[int, Any]]:
    """Yield the family and the address of each socket that may be the agent's."""
    if isinstance(place, Path):
        yield socket.AF_UNIX, str(place)
        return
    for family, _, _, _, end in socket.getaddrinfo(*place, type=socket.SOCK_STREAM):
        yield family, end
