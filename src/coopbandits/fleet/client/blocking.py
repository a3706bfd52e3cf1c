"""The client for programs without an event loop."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from coopbandits.fleet.address import parse_place
from coopbandits.fleet.client.exchange import (
    BROKEN,
    Reply,
    Request,
    UnreachableError,
    Wire,
    arms_in,
    choose_request,
    observe_request,
    pauses,
    unpack,
    unreachable,
)
from coopbandits.fleet.service import ArmEstimate, Choice, Receipt, UnavailableError


class Client:
    """Talks to an agent over one connection, which is kept open and renewed if it breaks.

    Every call can be repeated safely: a reward counts once, and a choice whose answer got lost
    leaves a ticket that expires. So while the agent is away, for example restarting, a call retries
    until `timeout`. Threads may share a client; their calls take turns.

    Parameters
    ----------
    address : str
        `host:port` or `unix:/path` of the agent's API.
    token : str, optional
        The token that the agent requires.
    timeout : float
        Seconds a call may take in total.
    tls : ssl.SSLContext, optional
        For an API that serves HTTPS.

    Raises
    ------
    UnreachableError
        By any call, if no agent answered in time. Refusals of the agent are raised as the errors
        of `coopbandits.fleet.service`.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        timeout: float = 2.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.place = parse_place(address)
        self.token, self.timeout, self.tls = token, timeout, tls
        self._lock = threading.Lock()
        self._connection: tuple[socket.socket, Wire] | None = None

    def choose(self, allowed: Sequence[str] | None = None) -> Choice:
        """Return an option to use now, one of `allowed` if given."""
        return Choice(**self._ask(choose_request(allowed)))

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Hand in the reward of a ticket."""
        return Receipt(**self._ask(observe_request(ticket, reward)))

    def arms(self) -> list[ArmEstimate]:
        """Return an estimate of every option."""
        return arms_in(self._ask(Request("GET", "/arms")))

    def health(self) -> dict[str, Any]:
        """Return the agent's state."""
        return self._ask(Request("GET", "/health"))

    def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason."""
        try:
            self._ask(Request("GET", "/ready"))
        except (UnavailableError, UnreachableError) as error:
            return str(error)
        return None

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._connection is not None:
            self._connection[0].close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(self, request: Request) -> dict[str, Any]:
        with self._lock:
            return unpack(self._exchange(request), self.place)

    def _exchange(self, request: Request) -> Reply:
        deadline = time.monotonic() + self.timeout
        for pause in pauses():
            try:
                return self._attempt(request, deadline)
            except BROKEN as error:
                if time.monotonic() + pause >= deadline:
                    raise unreachable(self.place, self.timeout, error) from error
            time.sleep(pause)
        raise AssertionError("there is always another pause")

    def _attempt(self, request: Request, deadline: float) -> Reply:
        if self._connection is None:
            self._connection = self._connect(_left(deadline)), Wire(self.place, self.token)
        connection, wire = self._connection
        reply = None
        try:
            connection.sendall(wire.encode(request))
            while reply is None:
                connection.settimeout(_left(deadline))
                reply = wire.feed(connection.recv(65536))
        finally:
            if reply is None or not wire.reusable:  # also after an interrupted call
                self.close()
        return reply

    def _connect(self, timeout: float) -> socket.socket:
        if isinstance(self.place, Path):
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.settimeout(timeout)
            try:
                made.connect(str(self.place))
            except OSError:
                made.close()
                raise
            return made
        made = socket.create_connection(self.place, timeout)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls is not None:
            return self.tls.wrap_socket(made, server_hostname=self.place.host)
        return made


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
