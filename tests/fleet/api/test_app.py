from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.api.app import Api
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.service import Choice, UnavailableError

from .running import ask, running
from .stand_in import StandIn

JSON = {"content-type": "application/json"}
MAX_BODY = ApiLimits().max_body_bytes
KEY = "secret"


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with running(StandIn()) as server:
        yield server


def test_choose_then_observe(server: ApiServer) -> None:
    choice = ask(server, "POST", "/choose", {"allowed": ["green"]}).json()
    assert choice["arm"] == "green"
    reward = {"ticket": choice["ticket"], "reward": 1}
    answer = ask(server, "POST", "/observe", reward)
    assert answer.status == 200
    assert answer.json() == {**choice, "reward": 1.0, "duplicate": False}
    again = ask(server, "POST", "/observe", reward)
    assert again.json() == {**choice, "reward": 1.0, "duplicate": True}


@pytest.mark.parametrize("body", [None, {}, {"allowed": None}, b""])
def test_choose_without_restriction(server: ApiServer, body: Any) -> None:
    assert ask(server, "POST", "/choose", body).json()["arm"] in {"blue", "green", "red"}


def test_a_body_may_come_in_pieces(server: ApiServer) -> None:
    pieces = iter([b'{"allo', b'wed": ["red"]}'])
    answer = ask(server, "POST", "/choose", pieces, JSON)
    assert answer.json()["arm"] == "red"


def test_arms_tell_what_was_learned() -> None:
    with running(StandIn(["left", "right"])) as server:
        ticket = ask(server, "POST", "/choose", {"allowed": ["right"]}).json()["ticket"]
        ask(server, "POST", "/choose", {"allowed": ["left"]})
        ask(server, "POST", "/observe", {"ticket": ticket, "reward": 0.5})
        left, right = ask(server, "GET", "/arms").json()["arms"]
    assert left == {
        "arm": "left", "mean": None, "pulls": 0.0, "confidence": None,
        "own_pulls": 0, "own_reward": 0.0, "open": 1,
    }  # fmt: skip
    assert (right["mean"], right["own_pulls"], right["open"]) == (0.5, 1, 0)
    assert right["confidence"][0] < 0.5 < right["confidence"][1]


def test_a_recommendation_is_asked_for_with_a_confidence() -> None:
    with running(StandIn(["left", "right"])) as server:
        nothing = ask(server, "GET", "/recommendation").json()
        ticket = ask(server, "POST", "/choose", {"allowed": ["right"]}).json()["ticket"]
        ask(server, "POST", "/observe", {"ticket": ticket, "reward": 0.5})
        found = ask(server, "GET", "/recommendation?confidence=0.99").json()
        refused = [
            ask(server, "GET", f"/recommendation?confidence={c}") for c in ("2", "sure", "1&" * 11)
        ]
    assert (nothing["arm"], nothing["confidence"]) == (None, 0.95)
    assert (found["arm"], found["pulls"], found["confidence"]) == ("right", 1.0, 0.99)
    assert [answer.status for answer in refused] == [422, 422, 422]
    assert "between 0 and 1" in refused[1].json()["error"]
    assert "more than 10 fields" in refused[2].json()["error"]


def test_health_is_the_agents_own(server: ApiServer) -> None:
    assert ask(server, "GET", "/health").json()["id"] == "stand-in"


def test_ready_says_why_not() -> None:
    agent = StandIn()
    with running(agent) as server:
        assert ask(server, "GET", "/ready").json() == {"ready": True}
        agent.unready = "the journal is being read; try again soon"
        answer = ask(server, "GET", "/ready")
    assert answer.status == 503
    assert answer.json() == {"error": agent.unready}


def test_who_may_ask_an_agent_to_stop(tmp_path: Path) -> None:
    asked: list[float | None] = []
    headers = {"content-type": "application/json"}
    with running(StandIn(), drain=asked.append) as server:  # whoever is on this machine
        answer = ask(server, "POST", "/drain", headers=headers)
        assert answer.status == 403
        assert answer.json()["error"].endswith("or send its process SIGTERM")
    with running(StandIn(), token=KEY, drain=asked.append) as server:
        assert ask(server, "POST", "/drain", headers=headers).status == 401
        proof = headers | {"authorization": f"Bearer {KEY}"}
        assert ask(server, "POST", "/drain", headers=proof).status == 200
    with running(StandIn(), f"unix:{tmp_path}/api", drain=asked.append) as server:
        assert ask(server, "POST", "/drain", headers=headers).status == 200
    assert asked == [None, None]


def test_a_drain_is_asked_for_with_a_number_of_seconds_or_without() -> None:
    asked: list[float | None] = []
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    with running(StandIn(), token=KEY, drain=asked.append) as server:
        for body in (b"", b'{"seconds": 1.5}', b'{"seconds": null}'):
            answer = ask(server, "POST", "/drain", body, headers=headers)
            assert answer.json() == {"draining": True}
        for body in (b'{"seconds": -1}', b'{"seconds": "soon"}', b'{"second": 1}', b"[]"):
            assert ask(server, "POST", "/drain", body, headers=headers).status == 422
        assert ask(server, "POST", "/drain").status == 401
    assert asked == [None, 1.5, None]


def test_index_lists_every_path(server: ApiServer) -> None:
    answer = ask(server, "GET", "/")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.body.decode().splitlines()
    assert isinstance(server.api, Api)
    assert len(lines) == len(server.api.endpoints) + len(server.api.of_bandit)
    for line in lines:
        method, path = line.replace("NAME", "button").split()
        method = "HEAD" if path == "/ui/events" else method  # which never ends
        # Without a token nobody may stop an agent.
        assert ask(server, method, path).status in {200, 400} | (
            {403} if path == "/drain" else set()
        )


def test_head_is_get_without_its_body(server: ApiServer) -> None:
    answer = ask(server, "HEAD", "/health")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "words"),
    [
        ("POST", "/choose", {"allowed": ["bleu"]}, {}, 422, "did you mean 'blue'?"),
        ("POST", "/choose", {"allowed": []}, {}, 422, "allowed is an empty list"),
        ("POST", "/choose", {"allowed": "blue"}, {}, 422, "'blue'"),
        ("POST", "/choose", {"allowed": ["red", "red"]}, {}, 422, "'red' more than once"),
        ("POST", "/choose", {"allowed": 7}, {}, 422, "got 7"),
        ("POST", "/choose", {"allowed": ["red", 7]}, {}, 422, "got 7"),
        ("POST", "/choose", b"[" * 60_000, JSON, 422, "nested too deeply"),
        ("POST", "/choose", b"[1]", JSON, 422, r'{"allowed": ['),
        ("POST", "/choose", {"allow": ["blue"]}, {}, 422, "unknown field 'allow'; known"),
        ("POST", "/choose", b"{", JSON, 400, "not JSON"),
        ("POST", "/choose", b'{"allowed": ["\xff"]}', JSON, 400, "not JSON"),
        ("POST", "/choose", b"{}", {}, 415, "got no content type"),
        ("POST", "/choose", b"a=1", {"content-type": "text/plain"}, 415, "got text/plain"),
        ("POST", "/choose", b" " * (MAX_BODY + 1), JSON, 413, "up to 65536 bytes"),
        ("POST", "/observe", None, JSON, 400, "not JSON"),
        ("POST", "/choose", None, {}, 415, "got no content type"),
        ("POST", "/observe", {"ticket": "x", "reward": "1"}, {}, 422, "a finite number, got '1'"),
        ("POST", "/observe", {"ticket": 1, "reward": 1}, {}, 422, "got 1"),
        ("POST", "/observe", {"ticket": "x", "reward": None}, {}, 422, "finite number, got None"),
        ("POST", "/observe", {"ticket": "x"}, {}, 422, "'reward' is missing"),
        ("POST", "/observe", b'{"ticket": "x", "reward": NaN}', JSON, 400, "not JSON"),
        ("POST", "/observe", b'{"ticket": "x", "reward": 1e999}', JSON, 422, "out of range"),
        (
            "POST",
            "/observe",
            {"ticket": "x", "reward": True},
            {},
            422,
            "not true or false",
        ),
        ("POST", "/observe", {"ticket": "x", "reward": 7}, {}, 422, "from 0 to 1"),
        ("POST", "/observe", {"ticket": "x", "reward": 1}, {}, 404, "no ticket 'x'"),
        ("GET", "/nowhere", None, {}, 404, "nothing at '/nowhere'"),
        ("GET", "/arms/", None, {}, 404, "GET / lists"),
    ],
)
def test_wrong_requests_are_answered_with_a_sentence(
    server: ApiServer,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
    status: int,
    words: str,
) -> None:
    answer = ask(server, method, path, body, headers)
    assert answer.status == status
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"]


def test_a_body_of_the_largest_size_is_read(server: ApiServer) -> None:
    assert ask(server, "POST", "/choose", b"{}".ljust(MAX_BODY), JSON).status == 200


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("GET", "/choose", "POST"), ("DELETE", "/arms", "GET, HEAD"), ("HEAD", "/observe", "POST")],
)
def test_a_wrong_method_is_told_the_right_one(
    server: ApiServer, method: str, path: str, allow: str
) -> None:
    answer = ask(server, method, path)
    assert (answer.status, answer.headers["allow"]) == (405, allow)


def test_a_path_that_led_nowhere_leads_to_a_bandit_that_comes_later() -> None:
    service = StandIn()
    with running(service) as server:
        paths = "/bandits/later/choose", "/bandits/l%61ter/choose?why=not"
        assert [ask(server, "POST", path, {}).status for path in paths] == [404, 404]
        service.name = "later"
        assert [ask(server, "POST", path, {}).status for path in paths] == [200, 200]
        assert ask(server, "POST", "/bandits/button/choose", {}).status == 404


def test_tickets_expire_and_conflict() -> None:
    time = [0.0]
    with running(StandIn(clock=lambda: time[0])) as server:
        first = ask(server, "POST", "/choose").json()["ticket"]
        assert ask(server, "POST", "/observe", {"ticket": first, "reward": 1}).status == 200
        assert ask(server, "POST", "/observe", {"ticket": first, "reward": 0}).status == 409
        second = ask(server, "POST", "/choose").json()["ticket"]
        time[0] = 61.0
        assert ask(server, "POST", "/observe", {"ticket": second, "reward": 1}).status == 410


@pytest.mark.parametrize(("pause", "wait"), [(2.5, "3"), (0.2, "1")])
def test_choices_that_come_too_fast_are_told_when_to_come_back(pause: float, wait: str) -> None:
    with running(StandIn(pause=pause, clock=lambda: 0.0)) as server:
        ask(server, "POST", "/choose")
        answer = ask(server, "POST", "/choose")
    assert (answer.status, answer.headers["retry-after"]) == (429, wait)
    assert "slow down" in answer.json()["error"]


@pytest.fixture(scope="module")
def locked() -> Iterator[ApiServer]:
    with running(StandIn(), token=KEY, public=["/ready"]) as server:
        yield server


@pytest.mark.parametrize("shown", [None, "", "Bearer", "Bearer wrong", "Basic secret", "secret"])
@pytest.mark.parametrize("path", ["/health", "/metrics", "/nowhere"])
def test_a_token_is_needed(locked: ApiServer, shown: str | None, path: str) -> None:
    headers = {} if shown is None else {"authorization": shown}
    answer = ask(locked, "GET", path, headers=headers)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "token" in answer.json()["error"]


@pytest.mark.parametrize("shown", ["Bearer secret", "bearer  secret "])
def test_the_token_opens(locked: ApiServer, shown: str) -> None:
    assert ask(locked, "POST", "/choose", headers=JSON | {"authorization": shown}).status == 200


def test_some_paths_may_be_public(locked: ApiServer) -> None:
    assert ask(locked, "GET", "/ready").status == 200


def test_an_agent_that_cannot_serve_says_why() -> None:
    class Full(StandIn):
        def choose(self, allowed: Sequence[str] | None = None, context: object = None) -> Choice:
            raise UnavailableError("the disk is full; nothing was chosen")

    with running(Full()) as server:
        answer = ask(server, "POST", "/choose")
    assert (answer.status, answer.json()["error"]) == (503, "the disk is full; nothing was chosen")


def test_a_failing_agent_is_answered_for(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(StandIn):
        def health(self) -> dict[str, Any]:
            raise OSError("the disk is full")

    with running(Failing()) as server:
        answer = ask(server, "GET", "/health")
        assert ask(server, "GET", "/arms").status == 200
    assert answer.status == 500
    assert answer.json()["error"].endswith("see the agent's log")
    assert "the disk is full" in caplog.text


def test_the_token_of_the_default_bandit_is_needed_where_it_is_not_named_either() -> None:
    agent = StandIn()
    agent.token = KEY
    with running(agent) as server:
        for method, path in (("POST", "/choose"), ("POST", "/observe"), ("GET", "/arms")):
            assert ask(server, method, path).status == 401
        shown = JSON | {"authorization": f"Bearer {KEY}"}
        assert ask(server, "POST", "/choose", headers=shown).status == 200
        assert ask(server, "GET", "/health").status == 200


def test_probes_need_no_token_and_are_told_one_bit() -> None:
    agent, proof = StandIn(), {"authorization": f"Bearer {KEY}"}
    with running(agent, token=KEY) as server:
        assert ask(server, "GET", "/alive").json() == {"alive": True}
        assert ask(server, "GET", "/ready").json() == {"ready": True}
        agent.unready = "the journal /var/lib/x cannot be written"
        hidden, told = ask(server, "GET", "/ready"), ask(server, "GET", "/ready", headers=proof)
        assert (hidden.status, told.status) == (503, 503)
        assert told.json() == {"error": agent.unready}
        assert "journal" not in hidden.body.decode()
        assert ask(server, "GET", "/alive").status == 200
        others = set(server.api.endpoints) - {"/alive", "/ready", "/ui/"}
        for path in others:
            for method in ("GET", "POST", "HEAD"):
                assert ask(server, method, path).status == 401
