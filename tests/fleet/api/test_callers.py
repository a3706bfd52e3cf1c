"""Web pages and rebound names get no answer; the agent's own names and clients do."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from coopbandits.fleet.address import Address, parse_address
from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.api.site import Callers
from coopbandits.fleet.client import Client
from coopbandits.fleet.config import ApiLimits

from .running import Response, ask, running
from .stand_in import StandIn

JSON = {"content-type": "application/json"}
PAGE = "https://shop.example.net"


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with running(StandIn()) as server:
        yield server


def raw(server: ApiServer, request: bytes) -> int:
    """Return the status of the answer to a request that no library would send."""
    with socket.create_connection(parse_address(server.address), timeout=5) as caller:
        caller.sendall(request)
        answer = http.client.HTTPResponse(caller)
        answer.begin()
        return answer.status


def called(server: ApiServer, host: str, method: str = "GET", path: str = "/arms") -> Response:
    return ask(server, method, path, headers=JSON | {"host": host})


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:8400", "127.9.9.9", "localhost", "LocalHost:80", "localhost.",
     "agent.localhost", "[::1]", "[::1]:8400", "[0:0:0:0:0:0:0:1]:1", "localhost:"],
)  # fmt: skip
def test_an_agent_answers_to_the_names_of_its_machine(server: ApiServer, host: str) -> None:
    assert called(server, host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8400", "localhost.evil.example", "evil-localhost", "10.0.0.1",
     "127.0.0.1.evil.example", "[fd00::1]", "127.1", "2130706433", "0.0.0.0", "", "::1", "[::1",  # noqa: S104  refused
     "localhost:x", "localhost@evil", "local host", "localhost,evil", "l\xf6calhost",
     "localhost/x", "user@localhost", "[::1%lo]"],
)  # fmt: skip
def test_a_rebound_name_gets_no_answer(server: ApiServer, host: str) -> None:
    for method, path in (("GET", "/arms"), ("POST", "/choose")):
        made = server.api.service.made  # type: ignore[attr-defined]  # of the tests' service
        answer = called(server, host, method, path)
        assert answer.status == 421
        assert "hosts in [api_limits]" in answer.json()["error"]
        assert server.api.service.made == made  # type: ignore[attr-defined]  # as above


def test_the_host_in_the_target_overrules_the_header(server: ApiServer) -> None:
    line = b"GET %s HTTP/1.1\r\nhost: %s\r\n\r\n"
    assert raw(server, line % (b"http://localhost:1/arms", b"evil.example")) == 200
    assert raw(server, line % (b"http://[::1]:1/arms", b"evil.example")) == 200
    assert raw(server, line % (b"http://evil.example/arms", b"localhost")) == 421
    assert raw(server, line % (b"//evil.example/arms", b"localhost")) == 404
    assert raw(server, line % (b"*", b"localhost")) == 404
    connect = b"CONNECT evil.example:80 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    assert raw(server, connect) in {400, 404, 421}


def test_one_host_is_named(server: ApiServer) -> None:
    assert raw(server, b"GET /arms HTTP/1.1\r\n\r\n") == 400
    both = b"GET /arms HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n"
    assert raw(server, both) == 400
    assert raw(server, b"GET /ready HTTP/1.0\r\n\r\n") == 200  # as some probes ask
    assert raw(server, b"GET /ready HTTP/1.0\r\nhost: evil.example\r\n\r\n") == 421
    late = (
        b"POST /choose HTTP/1.1\r\nhost: evil.example\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\n\r\n0\r\nhost: localhost\r\n\r\n"
    )
    assert raw(server, late) == 421


def test_more_names_can_be_told() -> None:
    limits = ApiLimits(hosts=("shop-1.example.net", "10.0.0.7", "fd00::7"))
    with running(StandIn(), limits=limits) as server:
        for host in ("shop-1.example.net:8400", "SHOP-1.EXAMPLE.NET.", "10.0.0.7", "[fd00:0::7]"):
            assert called(server, host).status == 200
        assert called(server, "shop-2.example.net").status == 421


def test_an_agent_on_all_addresses_answers_to_addresses_but_not_to_names() -> None:
    with running(StandIn(), "0.0.0.0:0", token="x" * 16) as server:
        proof = {"authorization": "Bearer " + "x" * 16}
        for host, status in (("10.0.0.1:1", 200), ("[fd00::1]", 200), ("shop-1", 421)):
            assert ask(server, "GET", "/arms", headers=proof | {"host": host}).status == status


def test_the_name_in_the_configuration_counts() -> None:
    callers = Callers(Address("shop-1.internal", 8400))
    assert callers.refuse([(b"host", b"shop-1.internal:8400")], "1.1") is None
    assert callers.refuse([(b"host", b"shop-2.internal:8400")], "1.1") is not None


def test_a_unix_socket_has_no_name(tmp_path: Path) -> None:
    with running(StandIn(), f"unix:{tmp_path / 'api.sock'}") as server:
        assert called(server, "anything").status == 200
        page = {"host": "anything", "origin": PAGE}
        assert ask(server, "GET", "/arms", headers=page).status == 403


def test_many_names_are_not_remembered() -> None:
    callers = Callers()
    for port in range(1000):
        assert callers.refuse([(b"host", b"localhost:%d" % port)], "1.1") is None
    assert len(callers.known) <= 100


def test_pages_served_here_may_ask_here(server: ApiServer) -> None:
    """A browser names the page when it loads its modules, though both have one address."""
    own = f"http://{server.address}"
    assert ask(server, "GET", "/arms", headers={"origin": own}).status == 200
    for other in (f"{own}0", f"{own}.evil.example", own.replace("http", "ftp"), f"{own}/"):
        assert ask(server, "GET", "/arms", headers={"origin": other}).status == 403, other
    named = {"host": "localhost:1", "origin": own}  # another name of this machine, another page
    assert ask(server, "GET", "/arms", headers=named).status == 403


@pytest.mark.parametrize("origin", [PAGE, "null", "http://127.0.0.1:8400", "http://localhost", ""])
@pytest.mark.parametrize(("method", "path"), [("GET", "/arms"), ("POST", "/choose")])
def test_web_pages_may_not_ask(server: ApiServer, origin: str, method: str, path: str) -> None:
    answer = ask(server, method, path, headers=JSON | {"origin": origin})
    assert answer.status == 403
    assert "origins in [api_limits]" in answer.json()["error"]
    assert "access-control-allow-origin" not in answer.headers


def test_a_preflight_of_a_page_that_may_not_ask_is_refused(server: ApiServer) -> None:
    asked = {"origin": PAGE, "access-control-request-method": "POST"}
    answer = ask(server, "OPTIONS", "/choose", headers=asked)
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert ask(server, "OPTIONS", "/choose").status == 405


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
     "text/plain; application/json", "application/jsonp", "application/json-patch+json", ""],
)  # fmt: skip
@pytest.mark.parametrize("body", [None, b"{}"])
def test_what_a_page_may_send_unasked_is_not_taken(
    server: ApiServer, kind: str, body: bytes | None
) -> None:
    assert ask(server, "POST", "/choose", body, {"content-type": kind}).status == 415
    assert ask(server, "POST", "/choose", body, {}).status == 415


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_is_taken_with_and_without_a_body(server: ApiServer, kind: str) -> None:
    for body in (None, b"{}"):
        assert ask(server, "POST", "/choose", body, {"content-type": kind}).status == 200


def test_a_page_that_is_listed_may_ask_and_read() -> None:
    with running(StandIn(), token="x" * 16, limits=ApiLimits(origins=(PAGE,))) as server:
        asked = {"origin": PAGE, "access-control-request-method": "POST"}
        before = ask(server, "OPTIONS", "/choose", headers=asked)
        assert (before.status, before.body) == (204, b"")
        assert before.headers["access-control-allow-origin"] == PAGE
        assert "content-type" in before.headers["access-control-allow-headers"]
        proof = JSON | {"origin": PAGE, "authorization": "Bearer " + "x" * 16}
        answer = ask(server, "POST", "/choose", headers=proof)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, PAGE)
        assert ask(server, "POST", "/choose", headers=JSON | {"origin": PAGE}).status == 401
        other = ask(server, "POST", "/choose", headers=proof | {"origin": PAGE + ".evil.example"})
        assert (other.status, "access-control-allow-origin" in other.headers) == (403, False)


def test_own_clients_are_answered(server: ApiServer) -> None:
    with Client(server.address) as client:
        assert client.choose().ticket
        assert client.choose(["red"]).arm == "red"


def test_a_page_gets_no_web_socket(server: ApiServer) -> None:
    head = (
        b"GET %s HTTP/1.1\r\nhost: 127.0.0.1\r\n%sconnection: Upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert raw(server, head % (b"/arms", b"origin: https://evil.example\r\n")) == 403
    assert raw(server, head % (b"/choose", b"")) == 405
    assert raw(server, head % (b"/arms", b"")) == 200  # answered as HTTP, and no socket made


def test_what_a_page_loads_without_asking_changes_nothing_and_is_not_for_it_to_read() -> None:
    """Images and scripts come without an origin; what decides is that nothing is granted."""
    with running(service := StandIn(), limits=ApiLimits(origins=(PAGE,))) as server:
        image = {"sec-fetch-mode": "no-cors", "sec-fetch-site": "cross-site", "referer": PAGE}
        for path in server.api.endpoints:
            answer = ask(server, "GET", path, headers=image)
            acts = ("/choose", "/observe", "/drain", "/cluster/document")
            expected = {"/ui/events": 403, **dict.fromkeys(acts, 405)}.get(path, 200)
            assert answer.status == expected
            assert not [name for name in answer.headers if name.startswith("access-control")]
        assert (service.made, service.settled) == (0, {})
