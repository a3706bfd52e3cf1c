"""The API within its limits, whatever clients do: real sockets, many, slow, endless and rude."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from coopbandits.fleet.address import parse_address
from coopbandits.fleet.api import protocol
from coopbandits.fleet.api.server import Server
from coopbandits.fleet.client import Client
from coopbandits.fleet.config import ApiLimits

from .certificates import contexts
from .running import ask, running
from .stand_in import StandIn

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
PATIENCE = 90.0
HEAD = b"POST /choose HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
ASK = b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n"


def call(server: Server, data: bytes = b"") -> socket.socket:
    caller = socket.create_connection(parse_address(server.address), timeout=PATIENCE)
    caller.sendall(data)
    return caller


@contextlib.contextmanager
def calls(server: Server, count: int, data: bytes = b"") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(call(server, data)) for _ in range(count)]


def rest(caller: socket.socket) -> bytes:
    """Return what is answered until the server hangs up; TimeoutError if it does not."""
    parts: list[bytes] = []
    with contextlib.suppress(ConnectionResetError):
        while parts[-1:] != [b""]:
            parts.append(caller.recv(1 << 16))
    return b"".join(parts)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def answered(caller: socket.socket) -> int:
    """Return the status of the next answer, read to its end."""
    with caller.makefile("rb") as stream:
        head = stream.readline()
        length = 0
        while (line := stream.readline()) != b"\r\n":
            if line.startswith(b"content-length:"):
                length = int(line.split()[1])
        stream.read(length)
    return status(head)


def pour(caller: socket.socket, piece: bytes, most: int) -> int:
    """Send until refused; return how many bytes were taken."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < most:
            caller.sendall(piece)
            sent += len(piece)
    return sent


def cuts(server: Server) -> dict[str, int]:
    return dict(server.api.meter.cuts)


@pytest.mark.covering
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("data", [b"", b"GET /rea", ASK, HEAD + b"content-length: 9\r\n\r\n{"])
def test_idle_connections_however_many_keep_nobody_out(data: bytes, loop: Any) -> None:
    with running(StandIn(), loop_factory=loop, limits=ApiLimits(max_connections=40)) as server:
        with Client(server.address) as client, calls(server, 300, data):
            for _ in range(20):
                assert client.choose().ticket
                assert ask(server, "GET", "/ready").status == 200
            assert len(server._connections) <= 40
        assert cuts(server)["room"] >= 250


def test_a_client_that_asks_is_not_cut_for_others_that_never_do() -> None:
    with running(StandIn(), limits=ApiLimits(max_connections=10)) as server, call(server) as busy:
        for _ in range(5):
            busy.sendall(ASK)
            assert answered(busy) == 200
            with calls(server, 20):
                ask(server, "GET", "/ready")
        busy.sendall(ASK)
        assert answered(busy) == 200


def test_connections_that_only_shake_hands_make_room_too(tmp_path: Any) -> None:
    wanting, holding = contexts(tmp_path)
    limits = ApiLimits(max_connections=5)
    with running(StandIn(), tls=wanting, limits=limits) as server, calls(server, 20):
        plain = call(server)
        with holding.wrap_socket(plain, server_hostname="127.0.0.1") as secret:
            secret.sendall(ASK)
            assert status(secret.recv(1000)) == 200
        assert len(server._connections) <= 5


@pytest.mark.covering(4)
@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET / HTTP/1.1\r\na: ", b"x" * 65536),  # one header without end
        (b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 10000),  # headers without end
        (b"GET / HTTP/1.1\r\n", b"a" * 65536),  # a name without end
        (b"GET /", b"x" * 65536),  # a target without end
        (b"", b"\r\n" * 30000),  # nothing without end
        (HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n" * 10000),  # trailers
        (HEAD + b"transfer-encoding: chunked\r\n\r\n5;a=", b"x" * 65536),  # a chunk's extension
    ],
)
def test_headers_without_end_are_refused_in_little_memory(start: bytes, piece: bytes) -> None:
    limits = ApiLimits(header_timeout=5.0, body_timeout=1.0)
    with running(StandIn(), limits=limits) as server:
        ask(server, "GET", "/ready")
        tracemalloc.start()
        try:
            with call(server, start) as caller:
                pour(caller, piece, 100 << 20)
                rest(caller)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 8 << 20
        assert ask(server, "GET", "/ready").status == 200


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (b"a: " + b"x" * 20000, 431),
        (b"\r\n".join(b"a%d: b" % n for n in range(101)), 431),
        (b"\r\n".join(b"a%d: b" % n for n in range(99)), 200),
        (b"a: " + b"x" * 15000, 200),
        (b"a\x00b: c", 400),
        (b"\xff\xfe: c", 400),
        (b"a: \x00", 400),
        (b": c", 400),
        (b"a : c", 400),
        (b"content-length: 1\r\ncontent-length: 2", 400),
        (b"content-length: -1", 400),
        (b"content-length: 1\r\ntransfer-encoding: chunked", 400),
    ],
)
def test_headers_that_are_too_large_or_odd_are_answered(headers: bytes, expected: int) -> None:
    with (
        running(StandIn()) as server,
        call(
            server, b"GET /ready HTTP/1.1\r\nhost: localhost\r\n" + headers + b"\r\n\r\n"
        ) as caller,
    ):
        answer = caller.recv(1000)
        assert status(answer) == expected
        if expected != 200:
            assert list(json.loads(answer.partition(b"\r\n\r\n")[2])) == ["error"]
            assert rest(caller) == b""
        assert ask(server, "GET", "/ready").status == 200


SLOW = {
    "nothing at all": (b"", b"", "headers"),
    "headers": (b"GET /ready HTTP/1.1\r\n", b"a: b\r\n", "headers"),
    "one header": (b"GET /ready HTTP/1.1\r\na: ", b"b", "headers"),
    "second request": (ASK + b"GET /ready HTTP/1.1\r\n", b"a: b\r\n", "headers"),
    "body": (HEAD + b"content-length: 9999\r\n\r\n", b" ", "body"),
    "chunks": (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n", "body"),
    "refused body": (HEAD.replace(b"json", b"xml") + b"content-length: 9999\r\n\r\n", b" ", "body"),
    "awaited body": (HEAD + b"content-length: 999\r\nexpect: 100-continue\r\n\r\n", b" ", "body"),
    "upgrade": (
        b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
        b"x",
        "",
    ),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("what", SLOW)
def test_who_takes_too_long_is_cut(what: str, loop: Any) -> None:
    limits = ApiLimits(header_timeout=0.3, body_timeout=0.3, idle_timeout=60.0)
    start, piece, reason = SLOW[what]
    with (
        running(StandIn(), loop_factory=loop, limits=limits) as server,
        call(server, start) as caller,
    ):
        began = time.monotonic()
        caller.settimeout(0.05)
        while True:
            try:
                caller.sendall(piece)
                if caller.recv(1000) == b"":
                    break
            except TimeoutError:
                assert time.monotonic() - began < PATIENCE
            except ConnectionError:
                break
        assert ask(server, "GET", "/ready").status == 200
        assert reason in {"", *cuts(server)}


def test_an_idle_connection_is_closed_in_its_time() -> None:
    with (
        running(StandIn(), limits=ApiLimits(idle_timeout=0.3)) as server,
        call(server, ASK) as caller,
    ):
        assert status(rest(caller)) == 200


class Talkative(StandIn):
    def health(self) -> dict[str, Any]:
        return {"long": "x" * (20 << 20)}


@pytest.mark.parametrize("close", [b"", b"connection: close\r\n"])
def test_who_does_not_read_answers_is_cut(monkeypatch: pytest.MonkeyPatch, close: bytes) -> None:
    monkeypatch.setattr(protocol, "ANSWER_SECONDS", 0.5)
    question = b"GET /health HTTP/1.1\r\nhost: localhost\r\n%s\r\n" % close
    limits = ApiLimits(idle_timeout=0.5)
    with running(Talkative(), limits=limits) as server, call(server, question):
        deadline = time.monotonic() + PATIENCE
        while not cuts(server):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert len(server._connections) == 0
        assert ask(server, "GET", "/ready").status == 200


def test_who_does_not_read_answers_keeps_nobody_out() -> None:
    question = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    limits = ApiLimits(max_connections=4)
    with running(Talkative(), limits=limits) as server, calls(server, 8, question):
        for _ in range(10):
            assert ask(server, "GET", "/ready").status == 200
        assert "no room" not in cuts(server)


def test_a_few_requests_may_come_at_once_and_are_answered_in_order() -> None:
    one = b"GET /%s HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with running(StandIn()) as server, call(server, one % b"ready" + one % b"nowhere") as caller:
        caller.sendall((one % b"alive").replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        answers = rest(caller)
    assert [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]] == [200, 404, 200]


def test_requests_without_end_are_not_queued() -> None:
    with running(StandIn()) as server, call(server) as caller:
        tracemalloc.start()
        try:
            pour(caller, ASK * 4000, 100 << 20)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 8 << 20
        assert ask(server, "GET", "/ready").status == 200


def test_bodies_are_taken_up_to_their_limit() -> None:
    with running(StandIn(), limits=ApiLimits(max_body_bytes=100)) as server:
        fits = b"{}" + b" " * 98
        assert ask(server, "POST", "/choose", fits).status == 200
        assert ask(server, "POST", "/choose", fits + b" ").status == 413
        assert ask(server, "POST", "/choose", iter([fits, b" "])).status == 413


def test_chunks_without_end_are_answered_and_cut() -> None:
    piece = b"1000\r\n" + b" " * 4096 + b"\r\n"
    with running(StandIn(), limits=ApiLimits(body_timeout=0.2)) as server:
        began = time.monotonic()
        with call(server, HEAD + b"transfer-encoding: chunked\r\n\r\n") as caller:
            for _ in range(17):
                caller.sendall(piece)
            assert status(caller.recv(1000)) == 413
            pour(caller, piece, 1 << 40)
        assert time.monotonic() - began < PATIENCE
        assert ask(server, "GET", "/ready").status == 200


def test_a_connection_goes_on_after_an_error() -> None:
    with running(StandIn()) as server, call(server) as caller:
        for path, expected in ((b"/nowhere", 404), (b"/choose", 405), (b"/ready", 200)):
            caller.sendall(b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % path)
            assert answered(caller) == expected


def test_refused_requests_are_few_lines_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with running(StandIn()) as server:
        for _ in range(100):
            with call(server, b"\x16\x03\x01 no HTTP\r\n\r\n") as caller:
                assert status(rest(caller)) == 400
        counted = server.api.meter.requests["other", 400]
    assert counted == 100
    assert caplog.text.count("refused a request") == 5
    assert caplog.text.count("more refused requests are only counted for 60 s") == 1
    assert len(caplog.records) < 12
