"""HTTP: whatever comes over a socket to the API of a real agent."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coopbandits.fleet.address import Address, parse_address
from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.config import ApiLimits, NodeConfig
from coopbandits.fleet.process.main import make_api
from coopbandits.fleet.process.runtime import Runtime, make_runtime

from ..fleet.bandits import only
from .target import Check, Target

HERE = Address("127.0.0.1", 0)
LIMITS = ApiLimits(
    max_connections=64, max_header_bytes=4096, max_body_bytes=4096, header_timeout=0.5,
    body_timeout=0.5, idle_timeout=0.5,
)  # fmt: skip
PATIENCE = 5.0
"""Every client must have been answered or cut by then, in seconds."""

STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
ALIVE = b"GET /alive HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def request(line: bytes, body: bytes = b"", *headers: bytes) -> bytes:
    lines = [line + b" HTTP/1.1", b"host: localhost", *headers]
    if line.startswith(b"POST"):
        lines += [b"content-type: application/json", b"content-length: %d" % len(body)]
    return b"\r\n".join([*lines, b"", body])


def seeds() -> list[bytes]:
    paths = (
        b"/", b"/arms", b"/health", b"/ready", b"/alive", b"/metrics", b"/openapi.json", b"/ui",
        b"/ui/main.js", b"/ui/state?since=7",
    )  # fmt: skip
    found = [request(b"GET " + path) for path in paths]
    found += [
        request(b"POST /choose"),
        request(b"POST /choose", b'{"allowed":["red"]}'),
        request(b"POST /observe", b'{"ticket":"0b7c5f3a90c2e845-17","reward":1.0}'),
        request(b"POST /choose") + request(b"GET /arms") + request(b"HEAD /ready"),
        request(b"OPTIONS /choose", b"", b"origin: https://a.example"),
        request(b"GET /ready", b"", b"upgrade: websocket", b"connection: upgrade"),
        request(b"GET http://localhost/arms?x=%41"),
        b"POST /choose HTTP/1.1\r\nhost: [::1]:80\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx: y\r\n\r\n",
        b"GET /alive HTTP/1.0\r\n\r\n",
        b"POST /choose HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n"
        b"content-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
    ]
    return found


class Asking:
    """Sends inputs to an agent, each over a connection of its own."""

    def __init__(self, server: ApiServer) -> None:
        place = parse_address(server.address)
        self.place = place.host, place.port

    def __call__(self, data: bytes) -> None:
        with socket.create_connection(self.place, timeout=PATIENCE) as link:
            send(link, data)
            self.require_alive()
            require_answers(arrived(link), data)

    def require_alive(self) -> None:
        """Ask as another client: one must never wait for another's bad request."""
        with socket.create_connection(self.place, timeout=PATIENCE) as other:
            other.sendall(ALIVE)
            answer = b""
            while piece := other.recv(65536):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 200 "), f"the agent answers others with {answer!r}"

    def to_the_end(self, inputs: list[bytes]) -> None:
        """Send inputs at once, and wait until the agent has ended every connection."""
        links = [socket.create_connection(self.place, timeout=PATIENCE) for _ in inputs]
        try:
            for link, data in zip(links, inputs, strict=True):
                send(link, data)
            deadline = time.monotonic() + PATIENCE
            for link, data in zip(links, inputs, strict=True):
                link.settimeout(max(0.1, deadline - time.monotonic()))
                require_answers(until_closed(link), data)
        finally:
            for link in links:
                link.close()
        self.require_alive()


def send(link: socket.socket, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # cut before all was sent
        link.sendall(data)


def arrived(link: socket.socket) -> bytes:
    """Return what an agent has answered so far."""
    link.setblocking(False)
    try:
        return link.recv(1 << 20)
    except (BlockingIOError, ConnectionResetError):
        return b""


def until_closed(link: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := link.recv(1 << 16):
            found += piece
    return found


def require_answers(answers: bytes, data: bytes) -> None:
    """Anything but success, redirects and refusals is a failure; 100 asks for the body."""
    statuses = {int(found) for found in STATUS.findall(answers)}
    assert not answers or statuses, f"{data!r} is answered with {answers[:100]!r}"
    bad = {status for status in statuses if status // 100 not in (2, 3, 4) and status != 100}
    assert not bad, f"{data!r} is answered with {sorted(bad)}"


@contextmanager
def opened() -> Iterator[Check]:
    """Run an agent in a thread of its own."""
    with tempfile.TemporaryDirectory(prefix="cb-fuzz-") as folder:
        bandit = only(
            epoch=1_600_000_000,
            max_pulls_per_second=1e5,
            rounds_per_second=5.0,
        )
        config = NodeConfig(
            bandit.cluster, "shop-1", journal=Path(folder), neighbors={}, listen=HERE, api=HERE,
            ticket_lifetime=5.0, api_limits=LIMITS, bandits={bandit.name: bandit},
            default_bandit=bandit.name,
        )  # fmt: skip
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        beginning = asyncio.run_coroutine_threadsafe(_begin(config), loop)
        runtime, server = beginning.result(2 * PATIENCE)
        try:
            yield Asking(server)
            assert not runtime.failed.is_set(), "the agent failed"
        finally:
            asyncio.run_coroutine_threadsafe(_end(runtime, server), loop).result(2 * PATIENCE)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


async def _begin(config: NodeConfig) -> tuple[Runtime, ApiServer]:
    runtime = make_runtime(config)
    await runtime.start()
    server = make_api(config, runtime)
    await server.start()
    return runtime, server


async def _end(runtime: Runtime, server: ApiServer) -> None:
    await server.stop()
    await runtime.stop()


HTTP = Target(
    "http",
    "answers of 2xx or 4xx or a closed connection, never 500; every other client is answered "
    "meanwhile, and no connection is left open",
    seeds,
    opened,
)
