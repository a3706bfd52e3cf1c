"""Requests on one connection: their order, and what happens while a disk is slow."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
import uvloop

from coopbandits.fleet.address import parse_address
from coopbandits.fleet.api import Api, ApiServer
from coopbandits.fleet.api.protocol import Connection
from coopbandits.fleet.api.server import Connections
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.service import Stored, UnavailableError

from .running import ask, running
from .stand_in import StandIn

PATIENCE = 90.0
HEAD = b"POST /%s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CHOOSE = HEAD % b"choose" + b"content-length: 0\r\n\r\n"
NOWHERE = HEAD % b"nowhere" + b"content-length: 0\r\n\r\n"


class Slow(StandIn):
    """Nothing is on disk until it is said so."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Stored] = []

    def stored(self, then: Stored) -> None:
        self.waiting.append(then)


def call(server: ApiServer, data: bytes) -> socket.socket:
    caller = socket.create_connection(parse_address(server.address), timeout=PATIENCE)
    caller.sendall(data)
    return caller


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def statuses(caller: socket.socket, count: int) -> list[int]:
    """Return the statuses of so many answers."""
    heard = b""
    while heard.count(b"HTTP/1.1 ") < count or not heard.endswith(b"}"):
        piece = caller.recv(1 << 16)
        assert piece, heard
        heard += piece
    return [int(part[:3]) for part in heard.split(b"HTTP/1.1 ")[1:]]


def tell(server: ApiServer, agent: Slow, error: UnavailableError | None = None) -> None:
    """Say in the server's thread that the oldest event is on disk, or not."""
    until(lambda: bool(agent.waiting))
    loop = next(iter(server._connections._open)).loop
    loop.call_soon_threadsafe(agent.waiting.pop(0), error)


def silent(caller: socket.socket) -> bool:
    caller.settimeout(0.1)
    try:
        return not caller.recv(1)
    except TimeoutError:
        return True
    finally:
        caller.settimeout(PATIENCE)


def test_answers_keep_the_order_of_requests_while_the_disk_is_slow() -> None:
    agent = Slow()
    with running(agent) as server, call(server, CHOOSE + NOWHERE + CHOOSE) as caller:
        until(lambda: agent.made == 1)
        assert silent(caller), "the refusal of the second waits for the first"
        assert agent.made == 1, "the third is not served before"
        tell(server, agent)
        assert statuses(caller, 2) == [200, 404]
        tell(server, agent, UnavailableError("the disk is gone"))
        assert statuses(caller, 1) == [503]
        assert agent.made == 2


def test_a_client_that_leaves_before_its_answer_disturbs_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Slow()
    with running(agent) as server:
        call(server, CHOOSE).close()
        until(lambda: agent.made == 1)
        tell(server, agent)
        until(lambda: not server._connections._open)
        with call(server, CHOOSE) as caller:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            until(lambda: agent.made == 2)
        until(lambda: not server._connections._open)  # it was reset
        agent.waiting.pop(0)(None)
        assert ask(server, "GET", "/ready").status == 200
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def read_all(caller: socket.socket) -> bytes:
    heard = b""
    while piece := caller.recv(1 << 16):
        heard += piece
    return heard


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_client_that_has_said_all_is_answered_and_then_let_go(
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    agent, sent = Slow(), CHOOSE + NOWHERE + CHOOSE
    with running(agent, loop_factory=factory) as server, call(server, sent) as caller:
        caller.shutdown(socket.SHUT_WR)
        for made in (1, 2):
            until(lambda made=made: agent.made == made)  # type: ignore[misc]  # bound now
            tell(server, agent)
        heard = read_all(caller)
        assert [int(part[:3]) for part in heard.split(b"HTTP/1.1 ")[1:]] == [200, 404, 200]
        assert heard.count(b"connection: close\r\n") == 1
        until(lambda: not server._connections._open)


@pytest.mark.parametrize(
    "begun", [b"", CHOOSE[:40], HEAD % b"choose" + b"content-length: 9\r\n\r\n"]
)
def test_a_client_that_ends_without_a_whole_request_is_let_go(begun: bytes) -> None:
    with running(StandIn()) as server, call(server, begun) as caller:
        until(lambda: bool(server._connections._open))
        caller.shutdown(socket.SHUT_WR)
        assert read_all(caller) == b""


@pytest.mark.parametrize(
    ("sent", "answered", "last"),
    [
        (CHOOSE * 17, 17, None),
        (CHOOSE * 40, 17, 429),
        (CHOOSE * 500, 17, 429),
        (CHOOSE * 3 + b"?\r\n\r\n", 3, 400),
    ],
)
def test_answers_come_before_the_refusal_of_what_follows(
    sent: bytes, answered: int, last: int | None
) -> None:
    agent = Slow()
    expected = [200] * answered + ([] if last is None else [last])
    with running(agent) as server, call(server, b"") as caller:
        sending = threading.Thread(target=caller.sendall, args=[sent])
        sending.start()
        for _ in range(answered):
            tell(server, agent)
        sending.join()
        assert statuses(caller, len(expected)) == expected
        assert agent.made == answered
        if last is not None:
            with contextlib.suppress(ConnectionResetError):
                assert caller.recv(1) == b""
    assert server.api.meter.requests["other", last or 0] == (last is not None)


@pytest.mark.parametrize(
    "last", [b"connection: close\r\n", b"connection: upgrade\r\nupgrade: x\r\n"]
)
@pytest.mark.parametrize("apart", [False, True])
def test_what_follows_the_last_request_is_not_served(last: bytes, apart: bool) -> None:
    agent = Slow()
    with running(agent) as server:
        request = CHOOSE.replace(b"\r\nhost", b"\r\n" + last + b"host")
        with call(server, request if apart else request + CHOOSE) as caller:
            until(lambda: agent.made == 1)
            if apart:
                caller.sendall(CHOOSE)
                assert silent(caller)
            tell(server, agent)
            heard = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := caller.recv(1 << 16):
                    heard += piece
        assert heard.count(b"HTTP/1.1 200") == 1
        assert b"connection: close\r\n" in heard
        assert agent.made == 1


@pytest.mark.parametrize("ahead", [False, True])
def test_a_client_that_waits_to_be_asked_for_its_body_is(ahead: bool) -> None:
    agent = Slow()
    head = HEAD % b"choose" + b"content-length: 2\r\nexpect: 100-continue\r\n\r\n"
    with running(agent) as server, call(server, CHOOSE + head if ahead else head) as caller:
        if ahead:
            until(lambda: agent.made == 1)
            assert silent(caller)
            tell(server, agent)
            heard = b""
            while not heard.endswith(b"100 Continue\r\n\r\n"):
                piece = caller.recv(1000)
                assert piece, heard
                heard += piece
            assert heard.startswith(b"HTTP/1.1 200")
        else:
            assert caller.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        caller.sendall(b"{}")
        tell(server, agent)
        assert statuses(caller, 1) == [200]


def test_a_client_that_is_refused_is_not_asked_for_its_body() -> None:
    head = HEAD % b"nowhere" + b"content-length: 2\r\nexpect: 100-continue\r\n\r\n"
    with running(StandIn()) as server, call(server, head) as caller:
        assert statuses(caller, 1) == [404]


def test_a_trailer_without_end_is_refused() -> None:
    start = HEAD % b"choose" + b"transfer-encoding: chunked\r\n\r\n0\r\na: "
    with running(StandIn(), limits=ApiLimits(body_timeout=60.0)) as server:
        with call(server, start) as caller, contextlib.suppress(ConnectionError):
            for _ in range(100):
                caller.sendall(b"x" * 65536)
        assert server.api.meter.requests["other", 431] == 1


def test_a_body_in_many_pieces_is_put_together() -> None:
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in b'{"allowed": ["red"]}')
    whole = HEAD % b"choose" + b"transfer-encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"
    with running(StandIn()) as server, call(server, b"") as caller:
        for byte in whole:
            caller.sendall(bytes([byte]))
        assert b'"arm":"red"' in caller.recv(1000)


class Wire:
    """Stands in for a transport, where calls to it are counted."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.paused = self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


async def connected() -> tuple[Connection, Any]:
    limits = ApiLimits()
    connection = Connection(Connections(Api(StandIn()), limits, None), asyncio.get_running_loop())
    wire: Any = Wire()
    connection.connection_made(wire)
    return connection, wire


def test_an_answer_is_written_at_once_and_in_one_piece() -> None:
    async def play() -> None:
        connection, wire = await connected()
        tasks = asyncio.all_tasks()
        connection.data_received(CHOOSE)
        assert len(wire.written) == 1, "within the call that brought the request"
        assert asyncio.all_tasks() == tasks
        assert wire.written[0].endswith(b'"arm":"blue"}')

    asyncio.run(play())


def test_a_client_that_sends_ahead_has_one_turn_at_a_time() -> None:
    async def play() -> None:
        connection, wire = await connected()
        connection.data_received(CHOOSE * 5)
        assert (len(wire.written), wire.paused) == (1, True)
        for turn in range(2, 6):
            await asyncio.sleep(0)
            assert len(wire.written) == turn
        assert not wire.paused

    asyncio.run(play())


def test_nothing_is_answered_to_a_client_that_does_not_read() -> None:
    async def play() -> None:
        connection, wire = await connected()
        connection.pause_writing()
        connection.data_received(CHOOSE * 2)
        await asyncio.sleep(0.01)
        assert (wire.written, connection.busy) == ([], False)
        connection.resume_writing()
        await asyncio.sleep(0.01)
        assert (len(wire.written), wire.paused) == (2, False)

    asyncio.run(play())


def test_answers_have_the_date() -> None:
    with running(StandIn()) as server:
        told = parsedate_to_datetime(ask(server, "GET", "/ready").headers["date"])
        assert abs((datetime.now(UTC) - told).total_seconds()) < 5.0
