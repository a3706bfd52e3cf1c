"""The description of the API: complete, true of every answer, and that of the running agent."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import msgspec
import pytest

from coopbandits.fleet import service
from coopbandits.fleet.address import Address, parse_address
from coopbandits.fleet.api import Api, ApiServer, messages, protocol
from coopbandits.fleet.api.openapi import describe
from coopbandits.fleet.config import ApiLimits, parse_config
from coopbandits.fleet.process.runtime import make_runtime
from coopbandits.fleet.service import (
    BanditSchema,
    DrainingError,
    ExpiredTicketError,
    OtherRewardError,
    RateLimitError,
    UnavailableError,
    UnknownBanditError,
    UnknownTicketError,
)

from ..process.agents import Agent, lonely, wait
from .running import Addressed, Response, ask, running
from .stand_in import StandIn

TOKEN = "0123456789abcdef"
BUTTON = BanditSchema("button", ["blue"], (0.0, 1.0), None)
CONTEXT = {"type": "object", "properties": {"hour": {"type": "number"}}}


def test_every_endpoint_is_described() -> None:
    described = {
        path: [method.upper() for method in methods]
        for path, methods in describe([BUTTON])["paths"].items()
    }
    api = Api(StandIn())
    below = {f"/bandits/{{bandit}}/{call}": each for call, each in api.of_bandit.items()}
    endpoints = api.endpoints | below
    assert described == {path: [endpoint.method] for path, endpoint in endpoints.items()}


def test_a_reward_goes_to_the_bandit_that_chose() -> None:
    paths = describe([BUTTON])["paths"]
    operations = {each["operationId"]: path for path, of in paths.items() for each in of.values()}
    for prefix in ("", "/bandits/{bandit}"):
        (link,) = paths[f"{prefix}/choose"]["post"]["responses"]["200"]["links"].values()
        assert operations[link["operationId"]] == f"{prefix}/observe"
        assert ("parameters" in link) == bool(prefix)


def test_calls_without_a_bandit_may_have_no_default() -> None:
    paths = describe([BUTTON])["paths"]
    for path in ("/choose", "/observe", "/arms", "/recommendation"):
        for operation in paths[path].values():
            assert operation["summary"].endswith("of the default bandit")
            assert "default_bandit is not set" in operation["responses"]["404"]["description"]
    assert "404" not in paths["/export"]["get"]["responses"]


def test_the_options_of_a_single_bandit_are_named() -> None:
    schemas = describe([BUTTON._replace(arms=["left", "right"])])["components"]["schemas"]
    several, nothing = schemas["ChooseRequest"]["properties"]["allowed"]["anyOf"]
    assert several["items"]["enum"] == ["left", "right"]
    assert nothing == {"type": "null"}


def test_a_retired_bandit_takes_rewards_and_makes_no_choices() -> None:
    retired = BanditSchema("search", [], (-5.0, 0.5), CONTEXT)
    schemas = describe([BUTTON, retired])["components"]["schemas"]
    assert schemas["BanditName"]["enum"] == ["button", "search"]
    assert schemas["ObserveRequest"]["properties"]["reward"]["minimum"] == -5.0
    several, _ = schemas["ChooseRequest"]["properties"]["allowed"]["anyOf"]
    assert several["items"]["enum"] == ["blue"]
    assert "context" not in schemas["ChooseRequest"]["properties"]


def test_what_any_of_several_bandits_accepts_is_described() -> None:
    other = BanditSchema("search", ["old", "new"], (-5.0, 0.5), CONTEXT)
    described = describe([BUTTON, other])
    schemas = described["components"]["schemas"]
    assert schemas["BanditName"]["enum"] == ["button", "search"]
    reward = schemas["ObserveRequest"]["properties"]["reward"]
    assert (reward["minimum"], reward["maximum"]) == (-5.0, 1.0)
    jsonschema.validate({"allowed": ["new"], "context": {"hour": 1}}, schemas["ChooseRequest"])
    jsonschema.validate({"allowed": ["blue"]}, schemas["ChooseRequest"])
    (_, asked) = described["paths"]["/bandits/{bandit}/arms"]["get"]["parameters"]
    assert asked["name"] == "context"
    assert "enum" not in describe([])["components"]["schemas"]["BanditName"]


def test_a_token_is_described_where_it_is_needed() -> None:
    plain = describe([BUTTON])
    assert "securitySchemes" not in plain["components"]
    assert "401" not in plain["paths"]["/arms"]["get"]["responses"]
    locked = describe([BUTTON], protected=True, public=["/ready"])
    assert locked["paths"]["/arms"]["get"]["security"] == [
        {"token": ["choose"]},
        {"token": ["admin"]},
    ]
    assert locked["paths"]["/drain"]["post"]["security"] == [{"token": ["admin"]}]
    assert "lacks the scope" in locked["paths"]["/drain"]["post"]["responses"]["403"]["description"]
    assert "401" in locked["paths"]["/arms"]["get"]["responses"]
    assert "security" not in locked["paths"]["/ready"]["get"]


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (messages.ChoiceAnswer, service.Choice),
        (messages.ReceiptAnswer, service.Receipt),
        (messages.ArmAnswer, service.ArmEstimate),
        (messages.BanditAnswer, service.BanditState),
        (messages.RecommendationAnswer, service.Recommendation),
    ],
)
def test_messages_have_the_fields_of_the_answers(
    message: type[msgspec.Struct], answer: type[service.Choice]
) -> None:
    assert message.__struct_fields__ == answer._fields


# Every answer is described

BEARER = {"authorization": f"Bearer {TOKEN}"}
POSTED = BEARER | {"content-type": "application/json"}
BODIES = {"choose": b"{}", "observe": b'{"ticket": "x", "reward": 1}'}

STREAM_SECONDS = 0.1


class BriefStream(protocol.Stream):
    """A stream that the agent ends soon, as it ends all of them when it stops."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.loop.call_later(STREAM_SECONDS, self.transport.close)


class Described:
    """The description that an agent serves, to which its answers are held."""

    def __init__(self, server: Addressed) -> None:
        self.server = server
        self.content = ask(server, "GET", "/openapi.json", headers=BEARER).json()
        self.seen: set[int] = set()

    def ask(
        self, path: str, method: str, query: str = "", body: Any = None, **more: str
    ) -> Response:
        """Make a request; fail unless status, headers and body of the answer are described."""
        headers = (POSTED if method == "post" else BEARER) | {
            name.replace("_", "-"): value for name, value in more.items()
        }
        place = path.replace("{bandit}", "button") + query
        answer = ask(self.server, method.upper(), place, body, headers)
        operation = self.content["paths"][path]["get" if method == "head" else method]
        assert str(answer.status) in operation["responses"], (method, place, answer)
        response = operation["responses"][str(answer.status)]
        for name, header in response.get("headers", {}).items():
            assert name.lower() in answer.headers or not header.get("required"), (place, answer)
        if method == "head" or "content" not in response:
            assert answer.body == b""
        else:
            kind = answer.headers["content-type"].partition(";")[0]
            schema = response["content"][kind]["schema"]
            if kind == "application/json":
                parts = {"components": self.content["components"]}
                jsonschema.validate(answer.json(), schema | parts)
        self.seen.add(answer.status)
        return answer


class Failing(StandIn):
    """A service that fails as told."""

    failure: Exception | None = None

    def choose(self, *asked: Any) -> service.Choice:
        if self.failure is not None:
            raise self.failure
        return super().choose(*asked)

    def observe(self, ticket: str, reward: float) -> service.Receipt:
        if self.failure is not None:
            raise self.failure
        return super().observe(ticket, reward)


@pytest.fixture
def failing() -> Failing:
    return Failing()


@pytest.fixture
def brief_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "Stream", BriefStream)


@pytest.fixture
def described(failing: Failing) -> Iterator[Described]:
    limits = ApiLimits(max_streams=1)
    with running(failing, token=TOKEN, drain=lambda _: None, limits=limits) as server:
        yield Described(server)


def operations(described: Described) -> list[tuple[str, str]]:
    return [(path, each) for path, of in described.content["paths"].items() for each in of]


@pytest.mark.usefixtures("brief_streams")
def test_good_requests_and_their_heads_are_described(described: Described) -> None:
    for path, method in operations(described):
        answer = described.ask(path, method, body=BODIES.get(path.rpartition("/")[2]))
        if method == "get":
            assert described.ask(path, "head").status == answer.status
    tag = described.ask("/ui/", "get").headers["etag"]
    assert described.ask("/ui/", "get", if_none_match=tag).status == 304


@pytest.mark.usefixtures("brief_streams")
def test_answers_to_bad_requests_are_described(described: Described) -> None:
    for path, method in operations(described):
        good = BODIES.get(path.rpartition("/")[2])
        for status, headers in (
            (421, {"host": "elsewhere.example"}),
            (403, {"origin": "https://elsewhere.example"}),
            (431, {"x_long": "x" * 20_000}),
        ):
            assert described.ask(path, method, body=good, **headers).status == status
        described.ask(path, method, body=good, authorization="Bearer wrong")
        assert described.ask(path, method, body=b"x" * 600_000).status == 413
        if method == "post":
            for body in (b"{", b"[]", b'{"unknown": 1}', b'{"ticket": 1, "reward": 2}', b"\xff"):
                assert described.ask(path, method, body=body).status in (400, 422)
            assert described.ask(path, method, body=good, content_type="text/plain").status == 415
    for path, query in (
        ("/arms", "?context={}"), ("/recommendation", "?confidence=2"), ("/ui/state", "?since=x"),
        ("/ui/events", "?" + "a=1&" * 11),
    ):  # fmt: skip
        assert described.ask(path, "get", query).status == 422
    for path in ("/ui/state", "/ui/events"):
        assert described.ask(path, "get", "?bandit=nothing").status == 404
    assert described.seen == {400, 401, 403, 404, 413, 415, 421, 422, 431} | (
        described.seen & {200, 503}  # probes and files of the page need no token
    )


@pytest.mark.parametrize(
    ("failure", "status", "calls"),
    [
        (RateLimitError("slow down", 2.0), 429, ("choose", "observe")),
        (DrainingError("about to stop"), 503, ("choose", "observe")),
        (UnavailableError("the disk is full"), 503, ("choose", "observe")),
        (RuntimeError("a bug"), 500, ("choose", "observe")),
        (UnknownBanditError("unknown"), 404, ("choose", "observe")),
        (UnknownTicketError("unknown"), 404, ("observe",)),
        (OtherRewardError("another"), 409, ("observe",)),
        (ExpiredTicketError("expired"), 410, ("observe",)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_failures_are_described(
    described: Described, failing: Failing, failure: Exception, status: int, calls: tuple[str, ...]
) -> None:
    failing.failure = failure
    for call in calls:
        for path in (f"/{call}", f"/bandits/{{bandit}}/{call}"):
            assert described.ask(path, "post", body=BODIES[call]).status == status


def test_an_agent_that_is_not_ready_is_described(described: Described, failing: Failing) -> None:
    failing.unready = "no neighbours yet"
    assert described.ask("/ready", "get").status == 503


def test_other_methods_are_answered_as_described(described: Described) -> None:
    assert "405" in described.content["info"]["description"]
    for path, method in operations(described):
        place = path.replace("{bandit}", "button")
        for other in ("PUT", "PATCH", "DELETE", "OPTIONS", "GET" if method == "post" else "POST"):
            answer = ask(described.server, other, place, headers=POSTED)
            accepted = "POST" if method == "post" else "GET, HEAD"
            assert (answer.status, answer.headers["allow"]) == (405, accepted)
            assert set(answer.json()) == {"error"}


def test_requests_beyond_those_that_may_wait_are_described(described: Described) -> None:
    head = f"GET /ui/state HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    with socket.create_connection(parse_address(described.server.address), timeout=90) as link:
        link.sendall(head.encode() * (protocol.MAX_AHEAD + 9))
        with link.makefile("rb") as stream:
            answers = stream.read()
    last = answers[answers.rindex(b"HTTP/1.1 ") :].decode()
    assert last.startswith("HTTP/1.1 429 ")
    assert "retry-after: 1\r\n" in last
    for path, method in operations(described):
        response = described.content["paths"][path][method]["responses"]["429"]
        assert response["headers"]["Retry-After"]["required"]


def test_a_stream_too_many_is_described(described: Described) -> None:
    place = parse_address(described.server.address)
    with closing(http.client.HTTPConnection(place.host, place.port, timeout=90)) as first:
        first.request("GET", "/ui/events", headers=BEARER)
        with first.getresponse() as stream:
            assert stream.status == 200
            answer = described.ask("/ui/events", "get")
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")


class Process(NamedTuple):
    """An agent in a process of its own."""

    address: str


def address_of(agent: Agent) -> str:
    return str(re.findall(r"serves at (\S+),", agent.told())[-1])


def test_an_agent_that_drains_and_stops_answers_as_described(tmp_path: Path) -> None:
    with lonely(tmp_path, api="127.0.0.1:0") as agent:
        agent.write_token(TOKEN)
        agent.start()
        described = Described(Process(address_of(agent)))
        ticket = described.ask("/bandits/{bandit}/choose", "post", body=b"{}").json()["ticket"]
        for body in (b'{"seconds": 600}', b"{}", b""):
            assert described.ask("/drain", "post", body=body).json() == {"draining": True}
        for path in ("/choose", "/bandits/{bandit}/choose"):
            refused = described.ask(path, "post", body=b"{}")
            assert (refused.status, refused.json()["reason"]) == (503, "draining")
        assert described.ask("/ready", "get").status == 503
        assert described.ask("/alive", "get").status == 200
        reward = {"ticket": ticket, "reward": 1.0}
        assert described.ask("/observe", "post", body=reward).status == 200
        assert agent.end() == 0


def test_the_description_follows_declared_bandits(tmp_path: Path) -> None:
    with lonely(tmp_path, api="127.0.0.1:0") as agent:
        agent.start()
        place = address_of(agent)

        def names() -> list[str]:
            with urllib.request.urlopen(f"http://{place}/openapi.json", timeout=90) as answer:
                return list(json.load(answer)["components"]["schemas"]["BanditName"]["enum"])

        assert names() == ["button"]
        agent.tables["bandits"]["banner"] = {"arms": ["a", "b"], "sigma": 1.0}
        agent.write()
        agent.send(signal.SIGHUP)
        wait(lambda: names() == ["button", "banner"])


# What a client generated from the description does

# A made-up ticket was never issued, and a made-up document is not signed by an operator.
SETTINGS = """
[[operations]]
include-path-regex = "/observe$"
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 409]

[[operations]]
include-path = "/cluster/document"
checks.positive_data_acceptance.expected-statuses = [422]
warnings = false
"""

# Which options a path accepts, the description of several bandits cannot hold.
SEVERAL = """
[[operations]]
include-path-regex = "/choose$"
checks.positive_data_acceptance.expected-statuses = ["2xx", 422]
"""

BANDITS: list[dict[str, dict[str, Any]]] = [
    {"button": {"arms": ["blue", "red"], "reward_range": [-1.0, 3.0]}},
    {"button": {"arms": ["blue", "red"], "reward_range": [0.0, 1.0],
                "features": {"hour": [0, 24], "country": ["PT", "ES"]}}},
    {"button": {"arms": ["blue", "red"], "reward_range": [0.0, 1.0]},
     "search": {"arms": ["old", "new"], "reward_range": [0.0, 1.0]}},
]  # fmt: skip


@contextmanager
def real_agent(folder: Path, bandits: Mapping[str, Any]) -> Iterator[ApiServer]:
    """Run an agent with its journal and its gossip, whose process `/drain` does not end."""
    config = parse_config(
        {
            "cluster": {"name": "shop", "epoch": datetime(2026, 1, 31, tzinfo=UTC)},
            "bandits": bandits,
            "node": {"id": "shop-1", "journal": "journal", "listen": "127.0.0.1:0",
                     "default_bandit": "button"},
        },
        folder / "node.toml",
        now=time.time(),
        insecure=True,
    )  # fmt: skip
    with asyncio.Runner() as runner, ExitStack() as ends:
        loop = runner.get_loop()
        runtime = make_runtime(config)
        server = ApiServer(
            runtime.service, Address("127.0.0.1", 0), token=TOKEN, drain=lambda _: None
        )
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        ends.callback(thread.join)
        ends.callback(loop.call_soon_threadsafe, loop.stop)
        ends.callback(lambda: run_in(loop, runtime.stop()))
        run_in(loop, runtime.start())
        ends.callback(lambda: run_in(loop, server.stop()))
        run_in(loop, server.start())
        yield server


def run_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    asyncio.run_coroutine_threadsafe(work, loop).result(90)


@pytest.mark.slow
@pytest.mark.usefixtures("brief_streams")
@pytest.mark.parametrize("bandits", BANDITS, ids=["single", "features", "several"])
def test_schemathesis_finds_nothing_in_the_api_of_a_real_agent(
    tmp_path: Path, bandits: Mapping[str, Any]
) -> None:
    settings = SETTINGS + SEVERAL * (len(bandits) > 1)
    (tmp_path / "settings.toml").write_text(settings)
    with real_agent(tmp_path, bandits) as server:
        described = Described(server)  # given as a file: of an address, its own path is left out
        (tmp_path / "openapi.json").write_text(json.dumps(described.content))
        done = subprocess.run(
            [str(Path(sys.executable).parent / "st"), "--config-file", "settings.toml", "run",
             "openapi.json", "--url", f"http://{server.address}",
             "--header", f"Authorization: Bearer {TOKEN}",
             "--checks", "all", "--max-examples", "10", "--generation-deterministic",
             "--no-color"],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500,
        )  # fmt: skip
    number = len(operations(described))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout
    assert f"Selected: {number}/{number}" in done.stdout
    assert f"Tested: {number}" in done.stdout
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}" in done.stdout
