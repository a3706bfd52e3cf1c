"""What cannot be asked is one sentence, before anything is sent."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.client import UnreachableError
from coopbandits.fleet.service import Choice

from ..api.running import running
from ..api.stand_in import StandIn
from .driving import Make, answer, scripted

ALLOWED: list[tuple[Any, str]] = [
    ("blue", "'blue'.*brackets"),
    (7, r"allowed.* 7\b"),
    ([], "empty"),
    (["blue", None], "None"),
    (["blue", "red", "blue"], "'blue'"),
    (["x" * 10_000] * 2, f"'{'x' * 99}…"),
]
REWARDS: list[Any] = [None, "1", b"1", [1.0], float("nan"), float("inf"), 10**400, 1j, object]
TICKETS: list[Any] = [None, 17, b"ticket-1", Choice("ticket-1", "blue")]


@pytest.mark.parametrize(("allowed", "sentence"), ALLOWED)
def test_allowed_is_a_list_of_different_names(make: Make, allowed: Any, sentence: str) -> None:
    agent = StandIn()
    with (
        running(agent) as server,
        make(server.address, default="blue") as client,
        pytest.raises(InputError, match=sentence),
    ):
        client.choose(allowed)
    assert not agent.made


@pytest.mark.parametrize("reward", REWARDS)
def test_a_reward_is_a_finite_number(make: Make, reward: Any) -> None:
    agent = StandIn()
    with running(agent) as server, make(server.address) as client:
        ticket = client.choose().ticket
        with pytest.raises(InputError, match=f"reward.*{re.escape(repr(reward)[:20])}"):
            client.observe(ticket, reward)
        assert not agent.settled
        assert client.observe(ticket, 1).reward == 1.0


@pytest.mark.parametrize("reward", [1, True, np.float32(1), np.int64(1), np.float64(1)])
def test_whatever_is_a_number_is_a_reward(server: ApiServer, make: Make, reward: Any) -> None:
    with make(server.address) as client:
        assert client.observe(client.choose().ticket, reward).reward == 1.0


@pytest.mark.parametrize("ticket", TICKETS)
def test_a_ticket_is_a_string(server: ApiServer, make: Make, ticket: Any) -> None:
    with make(server.address) as client, pytest.raises(InputError, match=re.escape(repr(ticket))):
        client.observe(ticket, 1.0)


@pytest.mark.parametrize("allowed", [{"blue": 1, "red": 2}, ("blue", "red"), {"blue", "red"}])
def test_whatever_lists_names_is_allowed(server: ApiServer, make: Make, allowed: Any) -> None:
    with make(server.address) as client:
        assert client.choose(allowed).arm in {"blue", "red"}


@pytest.mark.parametrize("body", [b"{}", b'{"ticket": "x"}', b"[1]", b"7", b"[" * 100_000, b"\xff"])
def test_an_answer_that_no_agent_gives(make: Make, body: bytes) -> None:
    listening, thread = scripted(answer("200 OK", body))
    host, port = listening.getsockname()
    with listening, make(f"{host}:{port}") as client:
        with pytest.raises(UnreachableError, match="status 200"):
            client.choose()
        thread.join()


def test_fields_of_a_later_version_are_left_out(make: Make) -> None:
    body = b'{"ticket": "x", "arm": "blue", "later": 1}'
    listening, thread = scripted(answer("200 OK", body))
    host, port = listening.getsockname()
    with listening, make(f"{host}:{port}") as client:
        assert client.choose() == ("x", "blue", None)
        thread.join()


def test_retry_after_may_be_a_date(make: Make) -> None:
    """As proxies write it."""
    reply = answer("429 Too Many Requests", b'{"error": "slow down"}')
    date = b"retry-after: Wed, 21 Oct 2026 07:28:00 GMT\r\ncontent-length"
    listening, thread = scripted(reply.replace(b"content-length", date))
    host, port = listening.getsockname()
    with listening, make(f"{host}:{port}") as client:
        with pytest.raises(InputError, match="slow down") as caught:
            client.choose()
        assert getattr(caught.value, "retry_after", None) == 1.0
        thread.join()
