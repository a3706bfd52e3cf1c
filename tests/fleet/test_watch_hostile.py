"""What a watch makes of agents that lie, flood it, stall it or never end: the others are shown."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from coopbandits.dashboard.watch import MOST_EVENTS, MOST_TEXT, Watch
from coopbandits.fleet.client.exchange import LARGEST
from coopbandits.page.feed import LONGEST_TEXT

from .api.running import running
from .watched import Agent, agent_of, fleet, lone, neighbor, until, up, watching

TRUE: dict[str, Any] = msgspec.to_builtins(Agent("liar").state())
EVENT = {"seq": 1, "t": 1.0, "kind": "up", "text": "up"}


@contextmanager
def answering(body: bytes, status: int = 200) -> Iterator[str]:
    """Answer every question with the same bytes; returns where."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # who asked may have had enough
                self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def state(**changes: Any) -> bytes:
    return json.dumps(TRUE | changes).encode()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[" * 100_000, "is not a JSON object"),
        (b"[]", "is not a JSON object"),
        (b'{"id": "liar"', "is not a JSON object"),
        (state(now=float("nan")), "impossible numbers"),
        (state(arms=[TRUE["arms"][0] | {"high": float("inf")}]), "impossible numbers"),
        (state(arms=[]), "reports no arm"),
        (state(arms={"a": 1}), "invalid state"),
        (state(id=""), "impossible names"),
        (state(neighbors=[TRUE]), "invalid state"),
        (state(events=[EVENT] * (MOST_EVENTS + 1)), "more than a page can show"),
        (state(policy="x" * (MOST_TEXT + 1)), "more than a page can show"),
        (state(events=[EVENT | {"text": "x" * MOST_TEXT}]), "more than a page can show"),
        (state(policy="x" * LARGEST), f"larger than {LARGEST} bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_agent_says_is_refused_and_the_others_are_shown(body: bytes, words: str) -> None:
    async def scenario(watch: Watch) -> None:
        await until(lambda: up(watch) == {"a", "b"} and address in watch.feed.agents)
        await until(lambda: words in watch.feed.agents[address].why)
        assert not watch.feed.agents[address].up
        watch.feed.step(time.time())

    with answering(body) as address, fleet("a", "b") as servers:
        watch = watching([address, servers[0].address], scenario)
    assert watch.feed.cells["all"][""]["up"] == 2


@pytest.mark.parametrize("status", [400, 500, 503])
def test_a_long_excuse_is_cut(status: int) -> None:
    async def scenario(watch: Watch) -> None:
        await until(lambda: bool(watch.feed.agents) and len(lone(watch).why) == LONGEST_TEXT)
        assert not lone(watch).up

    with answering(json.dumps({"error": "x" * 1_000_000}).encode(), status) as address:
        watching([address], scenario)


def test_who_talks_nonsense_is_asked_rarely() -> None:
    """Reading four megabytes takes a tenth of a second, in which nobody else is heard."""

    class Liar(Agent):
        def state(self, since: int = 0) -> Any:
            return msgspec.to_builtins(super().state(since)) | {"round": -1}

    async def scenario(watch: Watch) -> None:
        await asyncio.sleep(4.5)

    with running(Liar("liar")) as server:
        watching([server.address], scenario)
        asked = server.api.meter.requests["/ui/state", 200]
    assert asked <= 4  # after 0, 0.4, 1.2 and 2.8 seconds


HEADS = {
    "body": (b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n", b"x" * (1 << 16)),
    "chunks": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 9999),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 9999),
    "one header": (b"HTTP/1.1 200 OK\r\na: ", b"x" * (1 << 16)),
    "announcements": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2000),
}


@pytest.mark.covering(2)
@pytest.mark.parametrize("endless", HEADS)
def test_an_answer_without_end_is_not_read_to_its_end(endless: str) -> None:
    head, piece = HEADS[endless]
    most = [0]

    def pour(caller: socket.socket) -> None:
        sent = 0
        with caller, suppress(OSError):
            caller.recv(1000)
            caller.sendall(head)
            while True:
                sent += caller.send(piece)
                most[0] = max(most[0], sent)

    def welcome() -> None:
        with suppress(OSError):  # the end
            while True:
                threading.Thread(target=pour, args=(server.accept()[0],), daemon=True).start()

    async def scenario(watch: Watch) -> None:
        await until(lambda: bool(watch.feed.agents) and not lone(watch).up)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=welcome)
        thread.start()
        watching([f"127.0.0.1:{server.getsockname()[1]}"], scenario)
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)
    assert LARGEST <= most[0] < 4 * LARGEST  # what the system holds on its way comes on top


@pytest.mark.parametrize("first", ["hostile", pytest.param("honest", marks=pytest.mark.slow)])
def test_who_never_answers_keeps_nobody_waiting(first: str) -> None:
    """A hostile agent names 1000 neighbours, all behind a door that nobody opens."""
    with socket.create_server(("127.0.0.1", 0), backlog=500) as silent, fleet("a", "b") as servers:
        door = f"http://127.0.0.1:{silent.getsockname()[1]}"
        hostile, honest = Agent("hostile"), agent_of(servers[0])
        hostile.neighbors = [neighbor(f"ghost-{n}", door) for n in range(1000)]
        named, honest.neighbors = honest.neighbors, []

        async def scenario(watch: Watch) -> None:
            if first == "hostile":
                await until(lambda: len(watch.feed.agents) > 100)
            honest.neighbors = named
            await until(lambda: up(watch) == {"a", "b", "hostile"})  # behind ghosts it takes 15 s
            await until(lambda: len(watch.feed.agents) > 100)
            asked = servers[1].api.meter.requests
            before = asked["/ui/state", 200]
            await until(lambda: asked["/ui/state", 200] >= before + 5)

        with running(hostile) as other:
            watching([servers[0].address, other.address], scenario)


def test_who_says_that_another_is_elsewhere_does_not_hide_it() -> None:
    async def scenario(watch: Watch) -> None:
        await until(lambda: "b" in watch.feed.agents)
        honest.neighbors = named
        await until(lambda: up(watch) == {"a", "b", "liar"})
        await asyncio.sleep(1.5)
        assert up(watch) == {"a", "b", "liar"}

    with fleet("a", "b") as servers:
        liar, honest = Agent("liar"), agent_of(servers[0])
        liar.neighbors = [neighbor("b", "http://127.0.0.1:1")]
        named, honest.neighbors = honest.neighbors, []
        with running(liar) as other:
            watching([servers[0].address, other.address], scenario)


def test_ghosts_make_room_once_they_have_been_silent_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coopbandits.dashboard.watch.MOST_AGENTS", 5)
    monkeypatch.setattr("coopbandits.dashboard.watch.SILENT_SECONDS", 0.7)

    async def scenario(watch: Watch) -> None:
        await until(lambda: len(watch._found) == 5)
        honest.neighbors = named
        await until(lambda: up(watch) == {"a", "b", "liar"})
        assert len(watch._found) == 5

    with fleet("a", "b") as servers:
        liar, honest = Agent("liar"), agent_of(servers[0])
        liar.neighbors = [neighbor(f"ghost-{n}", "http://127.0.0.1:1") for n in range(4)]
        named, honest.neighbors = honest.neighbors, [neighbor("ghost", "http://127.0.0.1:1")]
        with running(liar) as other:
            watching([servers[0].address, other.address], scenario)


def test_who_answers_again_does_not_make_room_for_those_whom_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coopbandits.dashboard.watch.MOST_AGENTS", 2)
    monkeypatch.setattr("coopbandits.dashboard.watch.SILENT_SECONDS", 0.0)

    with fleet("a", "b") as servers:
        returning = agent_of(servers[1])
        returning.name = "nobody"  # so what it tells is refused
        returning.neighbors = [neighbor("c", "http://127.0.0.1:1")]

        async def scenario(watch: Watch) -> None:
            await until(lambda: "b" in watch._silent and "b" in watch.feed.agents)
            task = watch._found["b"].task
            agent_of(servers[0]).neighbors = []
            watch._found["ghost"] = watch._found["b"]  # the place that would be left
            returning.name = "b"
            await until(lambda: "b" in up(watch))
            await asyncio.sleep(0.5)
            assert not task.done()
            del watch._found["ghost"]

        watching([servers[0].address], scenario)
