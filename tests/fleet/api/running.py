"""A real API server in a thread of its own, and raw HTTP requests to it."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

from coopbandits.fleet.address import Address, parse_place
from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.api.server import Server
from coopbandits.fleet.api.site import Site
from coopbandits.fleet.service import Service

Running = TypeVar("Running", bound=Server)


class Addressed(Protocol):
    """Something that answers at an address: a server here, or a process elsewhere."""

    @property
    def address(self) -> str: ...


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


@contextmanager
def running(
    service: Service,
    address: str = "127.0.0.1:0",
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    **settings: Any,
) -> Iterator[ApiServer]:
    """Serve an API until the block ends."""
    with started(ApiServer(service, parse_place(address), **settings), loop_factory) as server:
        yield server


@contextmanager
def serving(
    site: Site,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    **settings: Any,
) -> Iterator[Server]:
    """Serve a site until the block ends."""
    with started(Server(site, Address("127.0.0.1", 0), **settings), loop_factory) as server:
        yield server


@contextmanager
def started(
    server: Running, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> Iterator[Running]:
    """Run a server in a thread of its own until the block ends."""
    loop = loop_factory()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def ask(
    server: Addressed,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """Make one request, as JSON unless told otherwise; an iterator is sent in chunks."""
    kind = {"content-type": "application/json"} if method == "POST" else {}
    sent = kind if headers is None else headers
    if isinstance(body, dict):
        body = json.dumps(body).encode()
        sent = {**kind, **sent}
    place = parse_place(server.address)
    if isinstance(place, Address):
        connection = http.client.HTTPConnection(place.host, place.port, timeout=90)
    else:
        connection = http.client.HTTPConnection("localhost", timeout=90)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(place))
    try:
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Response(answer.status, found, answer.read())
    finally:
        connection.close()
