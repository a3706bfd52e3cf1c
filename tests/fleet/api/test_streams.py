"""Streams over real sockets: many readers, and such as never read, vanish, or talk."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvloop

from coopbandits.fleet.api import protocol
from coopbandits.fleet.api.app import Api
from coopbandits.fleet.api.messages import Answer
from coopbandits.fleet.api.site import Endpoint, Request
from coopbandits.fleet.client import Client
from coopbandits.fleet.config import ApiLimits

from .certificates import contexts
from .running import ask, serving
from .stand_in import StandIn
from .test_limits import PATIENCE, answered, call, calls, cuts, rest, status

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
WATCH = b"GET /watch HTTP/1.1\r\nhost: localhost\r\n\r\n"
READY = b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Watched(Api):
    """An API with a stream: a line with the number of the piece, and as much as asked for."""

    def __init__(self, size: int = 0, **settings: Any) -> None:
        super().__init__(StandIn(), **settings)
        self.size, self.pulled, self.begun, self.failing = size, 0, 0, False
        self.endpoints["/watch"] = Endpoint("GET", self.watch)

    def watch(self, _: Request) -> Answer:
        return self.streamed(b"text/event-stream", self.begin)

    def begin(self) -> Callable[[], bytes]:
        self.begun += 1
        return self.pull

    def pull(self) -> bytes:
        if self.failing:
            raise OSError("nothing to be seen")
        self.pulled += 1
        return b"data: %d%s\n\n" % (self.pulled, b"x" * self.size)

    @property
    def ended(self) -> int:
        return self.begun - self.streams


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def head(caller: socket.socket) -> bytes:
    """Return an answer's head, byte by byte, so that nothing of the stream is read."""
    found = b""
    while not found.endswith(b"\r\n\r\n"):
        piece = caller.recv(1)
        assert piece
        found += piece
    return found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "PERIOD", 0.01)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_reader_gets_one_piece_after_the_other(loop: Any) -> None:
    site = Watched()
    with serving(site, loop_factory=loop) as server:
        with call(server, WATCH) as caller:
            found = head(caller)
            assert status(found) == 200
            assert b"content-type: text/event-stream\r\n" in found
            assert b"connection: close\r\n" in found
            assert b"content-length" not in found
            with caller.makefile("rb") as lines:
                assert [lines.readline() for _ in range(5)][::2] == [
                    b"data: 1\n", b"data: 2\n", b"data: 3\n",
                ]  # fmt: skip
            assert site.streams == 1
        wait_until(lambda: site.streams == 0)
        assert site.ended == 1
        assert site.meter.requests["/watch", 200] == 1


def test_over_tls(tmp_path: Any) -> None:
    wanting, holding = contexts(tmp_path)
    with (
        serving(Watched(), tls=wanting) as server,
        call(server) as plain,
        holding.wrap_socket(plain, server_hostname="127.0.0.1") as secret,
    ):
        secret.sendall(WATCH)
        with secret.makefile("rb") as lines:
            while lines.readline() != b"data: 3\n":
                pass


def test_head_begins_no_stream() -> None:
    site = Watched()
    with serving(site) as server, call(server, WATCH.replace(b"GET", b"HEAD")) as caller:
        assert rest(caller).endswith(b"\r\n\r\n")
        assert (site.streams, site.pulled) == (0, 0)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer secret", "host": "attacker.example"}, 421),
        ({"authorization": "Bearer secret", "origin": "http://attacker.example"}, 403),
    ],
)
def test_streams_are_guarded_as_all_paths_are(headers: dict[str, str], expected: int) -> None:
    site = Watched(token="secret")
    with serving(site) as server:
        assert ask(server, "GET", "/watch", headers=headers).status == expected
        assert (
            ask(server, "POST", "/watch", headers={"authorization": "Bearer secret"}).status == 405
        )
    assert site.pulled == 0


def test_readers_beyond_the_limit_are_told_so_and_may_come_back() -> None:
    site = Watched(limits=ApiLimits(max_streams=3))
    with serving(site) as server:
        with calls(server, 3, WATCH):
            wait_until(lambda: site.streams == 3)
            answer = ask(server, "GET", "/watch")
            assert answer.status == 503
            assert answer.headers["retry-after"] == "5"
            assert "3 streams are open" in answer.json()["error"]
            assert "max_streams in [api_limits]" in answer.json()["error"]
        wait_until(lambda: site.streams == 0)
        with call(server, WATCH) as caller:
            assert status(head(caller)) == 200


@pytest.mark.covering(1)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_thousand_readers_keep_no_application_waiting(loop: Any) -> None:
    site, waited = Watched(), []
    limits = ApiLimits(max_connections=40)
    with serving(site, loop_factory=loop, limits=limits) as server:
        with calls(server, 8, WATCH) as patient, Client(server.address) as client:
            wait_until(lambda: site.streams == 8)
            for _ in range(10):
                with calls(server, 100, WATCH):
                    for _ in range(5):
                        begun = time.monotonic()
                        assert client.choose().ticket
                        waited.append(time.monotonic() - begun)
                    assert site.streams <= 16
                    assert len(server._connections) <= 40
            assert max(waited) < 2.0
            pulled = site.pulled
            wait_until(lambda: site.pulled > pulled + 100)  # the first eight were never cut
            for caller in patient:
                assert status(head(caller)) == 200
            wait_until(lambda: site.streams == 8)
        wait_until(lambda: site.streams == 0)


@contextlib.contextmanager
def deaf(server: Any) -> Iterator[socket.socket]:
    """Ask for a stream over a tiny window, and read nothing of it."""
    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        caller.settimeout(PATIENCE)
        caller.connect(("127.0.0.1", int(server.address.rpartition(":")[2])))
        caller.sendall(WATCH)
        yield caller


@pytest.mark.parametrize("loop", LOOPS)
def test_who_does_not_read_is_asked_for_nothing_more_and_cut(
    loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "STALL_SECONDS", 0.5)
    site = Watched(size=10_000)
    with serving(site, loop_factory=loop) as server, deaf(server):
        wait_until(lambda: site.ended == 1)
        assert site.pulled < 60  # 600 kB: what the system and the transport hold
        assert cuts(server) == {"stream": 1}
        assert ask(server, "GET", "/ready").status == 200


@pytest.mark.parametrize("loop", LOOPS)
def test_a_slow_reader_gets_fewer_pieces_and_none_twice(loop: Any) -> None:
    site = Watched(size=10_000)
    with serving(site, loop_factory=loop) as server, deaf(server) as caller:
        wait_until(lambda: site.pulled > 5)
        stuck = -1
        while stuck != site.pulled:
            stuck = site.pulled
            time.sleep(0.3)
        head(caller)
        numbers: list[int] = []
        text = b""
        while len(numbers) < stuck + 20:
            text += caller.recv(1 << 16)
            *whole, text = text.split(b"\n\n")
            numbers += [int(piece[6:].rstrip(b"x")) for piece in whole]
        assert numbers == list(range(1, len(numbers) + 1))
        assert not cuts(server)


def is_one_clogged(server: Any) -> bool:
    """Return whether one connection alone is, and stays so: a good reader may be for a moment."""
    looks = []
    for _ in range(3):
        looks.append([made for made in [*server._connections._open] if not made.busy])
        time.sleep(0.3)
    return len(looks[0]) == 1 and looks[0] == looks[1] == looks[2]


def test_clogged_streams_make_room_and_others_do_not() -> None:
    site = Watched(size=10_000)
    limits = ApiLimits(max_connections=2)
    with serving(site, limits=limits) as server, deaf(server), call(server, WATCH) as good:
        reader = threading.Thread(target=rest, args=[good])
        reader.start()
        wait_until(lambda: is_one_clogged(server))
        assert ask(server, "GET", "/ready").status == 200
        wait_until(lambda: site.ended == 1)
        assert site.streams == 1
        assert cuts(server) == {"room": 1}
        good.shutdown(socket.SHUT_RDWR)
        reader.join(PATIENCE)


def test_readers_that_vanish_are_forgotten() -> None:
    site = Watched()
    with serving(site) as server:
        for _ in range(50):
            caller = call(server, WATCH)
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            caller.close()  # with a reset
        wait_until(lambda: site.ended >= 1 and site.streams == 0)
        assert ask(server, "GET", "/ready").status == 200


@pytest.mark.parametrize("more", [READY, b"\0" * 100_000, WATCH])
def test_who_talks_while_a_stream_is_sent_is_cut(more: bytes) -> None:
    site = Watched()
    with serving(site) as server, call(server, WATCH) as caller:
        head(caller)
        with contextlib.suppress(ConnectionError):
            caller.sendall(more)
        wait_until(lambda: site.ended == 1)


def test_what_is_asked_behind_a_stream_is_not_answered() -> None:
    site = Watched()
    chosen = b"POST /choose HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\r\n"
    with serving(site) as server, call(server, READY + WATCH + chosen + READY) as caller:
        assert answered(caller) == 200
        wait_until(lambda: site.pulled > 5)
        assert site.meter.requests["/choose", 200] == 0
        assert site.service.made == 0  # type: ignore[attr-defined]  # it has that here


def test_streams_end_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coopbandits.fleet.api.server.GRACE", 90.0)
    site = Watched()
    with contextlib.ExitStack() as stack:
        with serving(site) as server:
            callers = stack.enter_context(calls(server, 5, WATCH))
            wait_until(lambda: site.streams == 5)
            begun = time.monotonic()
        assert time.monotonic() - begun < 60.0  # there is no grace for them
        for caller in callers:
            assert rest(caller).endswith(b"\n\n")
    assert (site.streams, site.ended) == (0, 5)


def test_a_stream_is_not_idle_and_says_that_it_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "ALIVE_SECONDS", 0.5)
    site = Watched()
    site.pull = lambda: b""  # type: ignore[method-assign]  # the test's own instead
    limits = ApiLimits(idle_timeout=0.1, header_timeout=0.1)
    with serving(site, limits=limits) as server, call(server, WATCH) as caller:
        head(caller)
        with caller.makefile("rb") as lines:
            assert [lines.readline() for _ in range(4)] == [b": alive\n", b"\n"] * 2


def test_a_stream_that_fails_ends_alone(caplog: pytest.LogCaptureFixture) -> None:
    site = Watched()
    with serving(site) as server, call(server, WATCH) as caller:
        head(caller)
        site.failing = True
        wait_until(lambda: site.ended == 1)
        assert ask(server, "GET", "/ready").status == 200
    assert "nothing to be seen" in caplog.text
