"""The server of a stored run: real sockets, and the rules of an agent's API."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

import coopbandits as cb
from coopbandits.dashboard.serving import serve
from coopbandits.dashboard.stored import StoredRun, StoredSite
from coopbandits.page import assets


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Place:
    """A server in a thread, and requests to it."""

    def __init__(self, site: StoredSite) -> None:
        self.ready, self.address = threading.Event(), ""
        self.thread = threading.Thread(target=lambda: asyncio.run(self.live(site)))
        self.thread.start()
        assert self.ready.wait(30)

    async def live(self, site: StoredSite) -> None:
        self.loop, self.task = asyncio.get_running_loop(), asyncio.current_task()
        with suppress(asyncio.CancelledError):
            await serve(site, 0, self.told)

    def told(self, address: str) -> None:
        self.address = address
        self.ready.set()

    def stop(self) -> None:
        assert self.task is not None
        self.loop.call_soon_threadsafe(self.task.cancel)
        self.thread.join(30)
        assert not self.thread.is_alive()

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address.split("/")[2], timeout=30)

    def ask(self, path: str, method: str = "GET", **headers: str) -> Reply:
        connection = self.connection()
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        reply = Reply(answer.status, dict(answer.getheaders()), answer.read())
        connection.close()
        return reply


@pytest.fixture(scope="module")
def run() -> StoredRun:
    policies = [cb.DDUCB(), cb.IndependentUCB()]
    network = cb.Network.from_spec("cycle:5")
    problem = cb.BernoulliBandit([0.2, 0.8])
    return StoredRun(cb.simulate(problem, network, policies, 30, keep="watch", engine="reference"))


@pytest.fixture(scope="module")
def place(run: StoredRun) -> Iterator[Place]:
    place = Place(StoredSite(run))
    yield place
    place.stop()


def test_the_page_is_served_with_its_policy(place: Place) -> None:
    assert place.address.startswith("http://127.0.0.1:")
    reply = place.ask("/ui/")
    assert reply.status == 200
    page = assets.find("")
    assert page is not None
    assert reply.body == page.body
    for name, value in assets.HEADERS:
        assert reply.headers[name.decode()] == value.decode()
    assert place.ask("/ui").headers["location"] == "/ui/"
    again = place.ask("/ui/", **{"if-none-match": page.etag.decode()})
    assert (again.status, again.body) == (304, b"")


def test_the_stream_begins_with_the_scene(place: Place, run: StoredRun) -> None:
    connection = place.connection()
    connection.request("GET", "/ui/events")
    answer = connection.getresponse()
    assert answer.getheader("content-type") == "text/event-stream"
    assert answer.getheader("content-security-policy")
    assert answer.readline() == b"event: scene\n"
    assert json.loads(answer.readline().removeprefix(b"data: ")) == run.scene()
    connection.close()


def test_tracks_and_agents_are_numbers_or_null(place: Place, run: StoredRun) -> None:
    track = json.loads(place.ask("/ui/track?panel=1").body)
    assert len(track["share"]) == len(run.rounds)
    assert track["regret"] == run.track(1)["regret"]
    agent = place.ask("/ui/agent?panel=0&agent=4")
    assert agent.headers["cache-control"] == "no-store"
    told: dict[str, Any] = json.loads(agent.body)
    assert told["mean"][0].count(None) == 1  # it has pulled one arm of two
    assert b"NaN" not in agent.body


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/ui/track", "/ui/track?panel=0"),
        ("/ui/track?panel=x", "'x'"),
        ("/ui/track?panel=-1", "'-1'"),
        ("/ui/track?panel=2", "panel 2"),
        ("/ui/track?panel=99999999999999999999", "99999999999999999999"),
        ("/ui/agent?panel=0", "/ui/agent?panel=0&agent=0"),
        ("/ui/agent?panel=0&agent=5", "agent 5"),
    ],
)
def test_bad_questions_get_a_sentence(place: Place, path: str, sentence: str) -> None:
    reply = place.ask(path)
    assert 400 <= reply.status < 500
    assert sentence in json.loads(reply.body)["error"]


def test_nothing_can_be_changed_and_nobody_else_may_ask(place: Place) -> None:
    assert place.ask("/ui/track?panel=0", "POST").status == 405
    assert place.ask("/ui/", host="elsewhere.example").status == 421
    assert place.ask("/ui/", origin="http://elsewhere.example").status == 403
    assert place.ask("/ui/../stored.py").status == 404
