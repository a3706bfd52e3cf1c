"""A client with a default: `choose` returns an option, whatever the agent answers."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.client import UnreachableError, calls
from coopbandits.fleet.client.exchange import REASONS
from coopbandits.fleet.service import (
    DrainingError,
    RateLimitError,
    UnauthorizedError,
    UnavailableError,
    UnknownBanditError,
)

from ..api.certificates import contexts
from ..api.running import running
from ..api.stand_in import StandIn
from .driving import Make, answer, answering

TOLD = b'{"error": "no"}'
REFUSALS: dict[str, tuple[str, bytes]] = {
    "a redirect": ("unreadable", answer("302 Found", b"<html>")),
    "a redirect in JSON": ("rejected", answer("302 Found", b"{}")),
    "400": ("rejected", answer("400 Bad Request", TOLD)),
    "401": ("unauthorized", answer("401 Unauthorized", TOLD)),
    "403": ("unauthorized", answer("403 Forbidden", TOLD)),
    "404": ("unknown_bandit", answer("404 Not Found", TOLD)),
    "413": ("rejected", answer("413 Content Too Large", TOLD)),
    "421": ("rejected", answer("421 Misdirected Request", TOLD)),
    "422": ("rejected", answer("422 Unprocessable Content", TOLD)),
    "429": ("rate_limited", answer("429 Too Many Requests", TOLD)),
    "500": ("failed", answer("500 Internal Server Error", TOLD)),
    "500 without JSON": ("unreadable", answer("500 Internal Server Error", b"oops")),
    "503": ("failed", answer("503 Service Unavailable", TOLD)),
    "draining": (
        "draining",
        answer("503 Service Unavailable", b'{"error": "no", "reason": "draining"}'),
    ),
    "nothing": ("unreadable", answer("200 OK", b"")),
    "another object": ("unreadable", answer("200 OK", b'{"id": "x"}')),
    "a number for a ticket": ("unreadable", answer("200 OK", b'{"ticket": 1, "arm": "blue"}')),
    "no option": ("unreadable", answer("200 OK", b'{"ticket": "x", "arm": null}')),
    "garbage": ("unreadable", b"220 mail.example ESMTP\r\n\r\n"),
    "half an answer": ("unreadable", answer("200 OK", b'{"ticket": "x"}')[:-3]),
    "half a head": ("unreadable", b"HTTP/1.1 200 OK\r\ncontent-"),
    "a connection that is closed": ("unreachable", b""),
}
CLASSES = {
    "unauthorized": UnauthorizedError,
    "unknown_bandit": UnknownBanditError,
    "rate_limited": RateLimitError,
    "draining": DrainingError,
}


def reasons(client: Any) -> dict[str, int]:
    """Return how many defaults a client returned, without reasons that did not occur."""
    assert tuple(client.defaults) == REASONS
    return {reason: count for reason, count in client.defaults.items() if count}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_whatever_is_answered_a_default_stands_in(make: Make, refusal: str) -> None:
    reason, reply = REFUSALS[refusal]
    with (
        answering(lambda _: reply) as address,
        make(address, timeout=10.0, default="blue") as client,
    ):
        choice = client.choose()
        assert (choice.arm, choice.is_default) == ("blue", True)
        assert client.choose(["red", "green"]).arm == "red"
        receipt = client.observe(choice.ticket, 1.0)
        assert receipt.is_default
        assert reasons(client) == {reason: 2}
        with pytest.raises((UnreachableError, InputError, UnavailableError)):
            client.observe("ticket-1", 1.0)
        assert reasons(client) == {reason: 2}, "only choices are counted"
    with answering(lambda _: reply) as address, make(address, timeout=0.3) as client:
        error = CLASSES.get(reason, Exception)
        with pytest.raises(error):
            client.choose()
        assert not reasons(client)


def test_an_answer_without_end_is_a_default(make: Make) -> None:
    endless = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (1 << 23)
    with (
        answering(lambda _: endless) as address,
        make(address, timeout=2.0, default="blue") as client,
    ):
        assert client.choose().is_default
        assert reasons(client) == {"unreadable": 1}


def test_an_agent_that_hangs_is_a_timeout(make: Make) -> None:
    with (
        answering(lambda _: None) as address,
        make(address, timeout=0.1, default="blue") as client,
    ):
        for _ in range(5):  # after three of them, at once
            assert client.choose().is_default
        assert reasons(client) == {"timeout": 5}


def test_an_agent_that_does_not_listen_is_unreachable(make: Make) -> None:
    with make("127.0.0.1:1", timeout=1.0, connections=16, default="blue") as client:
        assert [each.arm for each in client.together("choose", 16)] == ["blue"] * 16
        assert reasons(client) == {"unreachable": 16}


def test_what_an_agent_rejects_is_a_default(make: Make) -> None:
    with running(StandIn(pause=30)) as server, make(server.address, default="blue") as client:
        assert client.choose(["purple", "green"]).arm == "purple"  # an option it does not know
        assert client.choose(None, {"hour": 1}).arm == "blue"
        assert client.choose(["green"]).ticket == "ticket-1"
        assert client.choose().is_default
        assert client.bandit("nowhere", default="red").choose().arm == "red"
        assert reasons(client) == {"rejected": 2, "rate_limited": 1}
    with (
        running(StandIn(), token="secret") as server,
        make(server.address, "other", default="blue") as client,
    ):
        assert client.choose().is_default
        assert reasons(client) == {"unauthorized": 1}


@pytest.mark.parametrize("expired", ["server", "client"])
def test_a_certificate_that_expired_is_a_default(tmp_path: Path, make: Make, expired: str) -> None:
    folders = [tmp_path / "valid", tmp_path / "expired"]
    for folder in folders:
        folder.mkdir()
    valid, ended = contexts(folders[0]), contexts(folders[1], -timedelta(minutes=1))
    wanting, holding = (ended[0], valid[1]) if expired == "server" else (valid[0], ended[1])
    for context in (wanting, holding):
        for folder in folders:
            context.load_verify_locations(folder / "both.pem")
    with (
        running(StandIn(), tls=wanting) as server,
        make(server.address, timeout=0.5, tls=holding, default="blue") as client,
    ):
        assert client.choose().is_default
        assert reasons(client) == {"tls": 1}


def test_a_server_without_tls_is_a_default(tmp_path: Path, make: Make) -> None:
    _, holding = contexts(tmp_path)
    with (
        running(StandIn()) as server,
        make(server.address, timeout=0.3, tls=holding, default="blue") as client,
    ):
        assert client.choose().is_default
        assert reasons(client) == {"tls": 1}


def test_what_the_client_rejects_is_raised(make: Make) -> None:
    with make("127.0.0.1:1", timeout=0.1, default="blue") as client:
        for allowed, context in [("blue", None), ([], None), ([7], None), (None, {"hour": None})]:
            with pytest.raises(InputError):
                client.choose(allowed, context)
        assert not reasons(client)


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_host_that_has_no_address_is_rejected_at_once(make: Make, host: str) -> None:
    with pytest.raises(InputError, match="cannot read the address"):
        make(f"{host}:80", default="blue")


def test_clients_of_one_bandit_count_together(make: Make) -> None:
    """A program may make one for every request."""
    with make("127.0.0.1:1", timeout=0.05, default="blue") as client:
        for _ in range(3):
            client.bandit("button", default="red").choose()
        client.bandit("banner", default="a").choose()
        assert reasons(client.bandit("button")) == {"unreachable": 3}
        assert reasons(client.bandit("banner")) == {"unreachable": 1}
        assert not reasons(client)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return level and words of what a client logged about defaults, and forget it."""
    found = [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.name == "coopbandits.fleet.client"
    ]
    caplog.clear()
    return found


def test_a_sentence_of_a_stranger_is_one_line_of_the_log(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    reply = answer("500 No", b'{"error": "a\\nb %s"}' % (b"x" * 100_000))
    with answering(lambda _: reply) as address, make(address, default="blue") as client:
        assert client.choose().is_default
    ((_, warning),) = logged(caplog)
    assert "a b xxx" in warning
    assert len(warning) < 700


def test_the_first_of_each_reason_is_logged_and_that_the_agent_chooses_again(
    make: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    now = [0.0]
    agent = StandIn(pause=30, clock=lambda: now[0])
    with running(agent) as server, make(server.address, default="blue") as client:
        for _ in range(2):  # in turns, they are logged once a minute
            for _ in range(4):
                client.choose()
            now[0] += 31.0
        client.choose()
        now[0] += 31.0
        (level, warning), end = logged(caplog)
        assert level == "WARNING"
        for words in ("reason rate_limited", server.address, "faster than every 30 s"):
            assert words in warning
        assert end == ("INFO", f"the agent chooses again: address {server.address}")
        assert reasons(client) == {"rate_limited": 6}

        client.choose(["purple"])
        ((_, other),) = logged(caplog)
        assert "reason rejected" in other
        client.choose()
        assert logged(caplog) == [end]

        monkeypatch.setattr(calls, "LOG_SECONDS", 0.0)  # a minute later
        client.choose()
        assert logged(caplog) == [(level, warning)]
        client.bandit("nowhere", default="blue").choose()
        ((_, named),) = logged(caplog)
        assert "reason unknown_bandit" in named
        assert f"{server.address}/bandits/nowhere" in named
