"""Tokens that open a part of the API each: who may call what."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.client import Client
from coopbandits.fleet.service import Choice, UnauthorizedError, UnavailableError

from .running import ask, running
from .stand_in import StandIn

JSON = {"content-type": "application/json"}
ALL = "token-for-everything"
TOKENS = {scope: f"token-to-{scope}" for scope in ("choose", "metrics", "admin")}
SCOPED = {token: frozenset({scope}) for scope, token in TOKENS.items()}

OPENED = {
    "choose": {"/choose", "/observe", "/arms", "/recommendation", "/bandits", "/health"},
    "metrics": {"/metrics", "/health", "/bandits", "/ui/state", "/ui/events"},
    "admin": {
        "/drain", "/export", "/cluster", "/cluster/document", "/bandits", "/health", "/arms",
        "/recommendation", "/ui/state", "/ui/events",
    },
}  # fmt: skip
"""What the page about the API promises."""

EVERYONE = {"/", "/openapi.json"}


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with running(StandIn(), token=ALL, scoped=SCOPED) as server:
        yield server


def status(server: ApiServer, path: str, token: str | None) -> int:
    """Ask with a method that no path has: tokens are looked at before."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return ask(server, "DELETE", path, headers=headers).status


@pytest.mark.parametrize("scope", OPENED)
def test_a_token_opens_the_paths_of_its_scope_alone(server: ApiServer, scope: str) -> None:
    paths = [path for path, endpoint in server.api.endpoints.items() if not endpoint.public]
    assert set().union(*OPENED.values()) <= set(paths)
    for path in paths:
        opened = path in OPENED[scope] | EVERYONE
        assert status(server, path, TOKENS[scope]) == (405 if opened else 403), path
        assert status(server, path, ALL) == 405
        assert status(server, path, None) == 401
        assert status(server, path, "token-that-nobody-has") == 401
    for call in ("choose", "observe", "arms", "recommendation", "export"):
        opened = f"/{call}" in OPENED[scope]
        assert status(server, f"/bandits/any/{call}", TOKENS[scope]) == (405 if opened else 403)


def test_the_sentence_names_the_scope_that_is_missing(server: ApiServer) -> None:
    headers = JSON | {"authorization": f"Bearer {TOKENS['metrics']}"}
    answer = ask(server, "POST", "/drain", headers=headers)
    assert answer.status == 403
    assert answer.json()["error"] == (
        "this token has the scope metrics, and /drain needs a token with the scope admin"
    )
    assert ask(server, "GET", "/metrics", headers=headers).status == 200


def test_clients_raise_the_sentence(server: ApiServer) -> None:
    with Client(server.address, TOKENS["choose"]) as client:
        choice = client.choose()
        assert client.observe(choice.ticket, 1.0).arm == choice.arm
        with pytest.raises(UnauthorizedError, match="needs a token with the scope admin"):
            client.export()
    with Client(server.address, TOKENS["admin"], default="blue") as client:
        assert client.choose().is_default
        assert client.defaults["unauthorized"] == 1


def test_one_token_alone_locks_everything_else() -> None:
    """Metrics for monitoring do not leave choices to everybody."""
    with running(StandIn(), scoped={TOKENS["metrics"]: frozenset({"metrics"})}) as server:
        assert status(server, "/choose", None) == 401
        assert status(server, "/choose", TOKENS["metrics"]) == 403
        assert status(server, "/metrics", TOKENS["metrics"]) == 405
        assert status(server, "/ready", None) == 405


def test_a_token_may_have_two_scopes() -> None:
    both = {"token-of-both": frozenset({"choose", "metrics"})}
    with running(StandIn(), scoped=both) as server:
        assert status(server, "/choose", "token-of-both") == 405
        assert status(server, "/metrics", "token-of-both") == 405
        headers = JSON | {"authorization": "Bearer token-of-both"}
        answer = ask(server, "POST", "/drain", headers=headers)
        assert "has the scope choose and metrics" in answer.json()["error"]


def test_why_it_fails_is_for_tokens_of_the_path() -> None:
    class Full(StandIn):
        def ready(self) -> str | None:
            return "the disk is full"

        def choose(self, allowed: object = None, context: object = None) -> Choice:
            raise UnavailableError("the disk is full")

    with running(Full(), scoped=SCOPED) as server:
        headers = JSON | {"authorization": f"Bearer {TOKENS['choose']}"}
        assert "disk" in ask(server, "POST", "/choose", headers=headers).json()["error"]
        assert "disk" not in ask(server, "GET", "/ready").json()["error"]
