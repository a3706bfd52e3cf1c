"""The page of an agent over HTTP: files for everybody, data for those who may have it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.api.server import Server
from coopbandits.page.assets import HEADERS
from coopbandits.page.state import AgentState, NeighborState, Note

from .running import ask, running
from .stand_in import StandIn
from .test_limits import call

KEY = "secret"
PROOF = {"authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def locked() -> Iterator[ApiServer]:
    with running(StandIn(), token=KEY) as server:
        yield server


def read(server: Server, count: int, headers: str = "") -> list[tuple[str, Any]]:
    """Return the first events of a stream."""
    found: list[tuple[str, Any]] = []
    question = f"GET /ui/events HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n"
    with call(server, question.encode()) as caller, caller.makefile("r") as lines:
        assert lines.readline().split()[1] == "200"
        kind = ""
        while len(found) < count:
            line = lines.readline()
            assert line, "the stream has ended"
            if line.startswith("event: "):
                kind = line.removeprefix("event: ").strip()
            elif line.startswith("data: "):
                found.append((kind, json.loads(line.removeprefix("data: "))))
    return found


def test_the_page_needs_no_token_and_its_data_does(locked: ApiServer) -> None:
    for path in ("/ui/", "/ui/main.js", "/ui/style.css"):
        assert ask(locked, "GET", path).status == 200
    for path in ("/ui/state", "/ui/events", "/ui/nothing", "/ui/../arms", "/ui/%2e%2e/assets.py"):
        assert ask(locked, "GET", path).status == 401
    assert ask(locked, "GET", "/ui/state", headers=PROOF).json()["id"] == "stand-in"
    assert read(locked, 1, f"authorization: Bearer {KEY}\r\n")[0][0] == "scene"


@pytest.mark.parametrize("path", ["/ui/", "/ui/main.js", "/ui/state", "/ui/events"])
def test_everything_has_the_headers_that_keep_a_page_in_its_place(
    locked: ApiServer, path: str
) -> None:
    answer = ask(locked, "HEAD", path, headers=PROOF)
    assert answer.status == 200
    for name, value in HEADERS:
        assert answer.headers[name.decode()] == value.decode()
    assert answer.headers["cache-control"] in {"no-store", "no-cache"}
    assert "access-control-allow-origin" not in answer.headers
    for wrong in ({}, {"host": "attacker.example"}, {"origin": "http://attacker.example"}):
        refused = ask(locked, "GET", f"{path}?x" if wrong else "/ui/nothing", headers=wrong)
        assert refused.status in {401, 403, 421}
        assert refused.headers["x-content-type-options"] == "nosniff"


def test_the_address_without_its_slash_leads_to_the_page(locked: ApiServer) -> None:
    answer = ask(locked, "GET", "/ui")
    assert (answer.status, answer.headers["location"]) == (308, "/ui/")


def test_a_file_that_the_browser_has_is_not_sent_again(locked: ApiServer) -> None:
    first = ask(locked, "GET", "/ui/main.js")
    again = ask(locked, "GET", "/ui/main.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    other = ask(locked, "GET", "/ui/main.js", headers={"if-none-match": '"other"'})
    assert other.body == first.body != b""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/ui/", "/ui/main.js", "/ui/state", "/ui/events"])
def test_nothing_can_be_changed_from_the_page(locked: ApiServer, method: str, path: str) -> None:
    headers = PROOF | {"content-type": "application/json"}
    assert ask(locked, method, path, b"{}", headers).status == 405


@pytest.mark.parametrize("path", ["/ui/", "/ui/main.js", "/ui/state", "/ui/events"])
def test_a_web_page_elsewhere_cannot_read_it(locked: ApiServer, path: str) -> None:
    assert ask(locked, "GET", path, headers=PROOF | {"host": "attacker.example"}).status == 421
    assert (
        ask(locked, "GET", path, headers=PROOF | {"origin": "http://attacker.example"}).status
        == 403
    )


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_pages_cannot_use_up_the_streams(site: str) -> None:
    """As images they come without an origin, and could not be read: but there are only so many."""
    with running(StandIn()) as server:
        image = {"sec-fetch-mode": "no-cors", "sec-fetch-site": site}
        assert ask(server, "GET", "/ui/events", headers=image).status == 403
        assert server.api.streams == 0
        for own in ("same-origin", "none"):
            assert read(server, 1, f"sec-fetch-site: {own}\r\n")[0][0] == "scene"


def test_a_stream_tells_the_scene_the_past_and_what_changes() -> None:
    agent = StandIn()
    agent.neighbors = [NeighborState("<script>", False, "no link yet", 0, 1.0)]
    with running(agent) as server:
        (_, scene), (_, history), (_, delta) = read(server, 3)
        assert scene["source"] == "agent"
        assert scene["arms"] == ["blue", "green", "red"]
        assert {each["name"] for each in scene["agents"]} == {"stand-in", "<script>"}
        assert scene["links"] == [[0, 1]]
        assert len(history["t"]) >= 1
        assert delta["links"]["0-1"]["state"] == "down"
        choice = agent.choose(["red"])
        agent.observe(choice.ticket, 1.0)
        time.sleep(0.3)  # the agent is looked at five times a second
        (_, _), (_, _), (_, later) = read(server, 3)
        assert later["all"]["ahead"] == 2


def test_the_past_is_remembered_while_nobody_watches() -> None:
    with running(StandIn()) as server:
        time.sleep(2.5)
        _, (_, history) = read(server, 2)
        assert len(history["t"]) >= 2


def test_an_agent_goes_on_without_its_page(caplog: pytest.LogCaptureFixture) -> None:
    class Silent(StandIn):
        def state(self, since: int = 0) -> AgentState:
            raise ValueError("no state")

    with running(Silent()) as server:
        time.sleep(1.2)
        assert ask(server, "POST", "/choose").status == 200
        assert ask(server, "GET", "/ui/state").status == 500
    assert caplog.text.count("cannot read the agent's state for its page") == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [("", [1, 2]), ("?since=1", [2]), ("?since=2&x=1", []), (f"?since={2**53}", [])],
)
def test_events_are_told_since_a_number(query: str, expected: list[int]) -> None:
    agent = StandIn()
    agent.notes = [Note(1, 0.0, "started", "started"), Note(2, 1.0, "link-up", "up")]
    with running(agent) as server:
        found = ask(server, "GET", f"/ui/state{query}").json()["events"]
    assert [note["seq"] for note in found] == expected


@pytest.mark.parametrize("since", ["-1", "x", "%F0%9F%98%80", "1" * 20, str(2**53 + 1), "1.5", "²"])
def test_what_is_no_number_of_an_event_is_refused(locked: ApiServer, since: str) -> None:
    quoted = since.encode().hex("%") if since == "²" else since
    quoted = f"%{quoted}" if since == "²" else quoted
    answer = ask(locked, "GET", f"/ui/state?since={quoted}", headers=PROOF)
    assert answer.status == 422
    assert "must be the number of an event" in answer.json()["error"]


def test_files_are_counted_as_one_path(locked: ApiServer) -> None:
    before = locked.api.meter.requests["/ui/", 200]
    for path in ("/ui/", "/ui/main.js", "/ui/vendor/uplot.css"):
        ask(locked, "GET", path)
    assert locked.api.meter.requests["/ui/", 200] == before + 3
    assert not any("main.js" in path for path, _ in locked.api.meter.requests)
