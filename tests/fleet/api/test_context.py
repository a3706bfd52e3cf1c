"""Contexts over HTTP: what is taken, what is refused, and what is described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.storage.disk import MemoryDisk

from ..contexts import agent_alone
from .running import ask, running
from .stand_in import StandIn

REQUEST = {"hour": 13, "country": "PT"}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with running(agent_alone(MemoryDisk())) as server:
        yield server


def test_a_choice_takes_a_context_and_its_reward_the_ticket_alone(server: ApiServer) -> None:
    for _ in range(20):
        choice = ask(server, "POST", "/choose", {"context": REQUEST, "allowed": ["b"]}).json()
        assert choice["arm"] == "b"
        sent = {"ticket": choice["ticket"], "reward": 1.0}
        assert ask(server, "POST", "/observe", sent).json()["duplicate"] is False
        assert ask(server, "POST", "/observe", sent).json()["duplicate"] is True
    a, b = ask(server, "GET", "/arms?context=" + quote('{"hour": 13, "country": "PT"}')).json()[
        "arms"
    ]
    assert (a["mean"], a["pulls"]) == (None, 0.0)
    assert (b["pulls"], b["own_pulls"], b["own_reward"]) == (20.0, 20, 20.0)
    assert b["mean"] > 0.9
    spain = ask(server, "GET", "/arms?context=" + quote('{"hour": 0, "country": "ES"}')).json()
    assert spain["arms"][1]["mean"] < b["mean"]
    low, high = spain["arms"][1]["confidence"]
    assert high - low > b["confidence"][1] - b["confidence"][0]
    plain = ask(server, "GET", "/arms").json()["arms"][1]
    assert (plain["mean"], plain["pulls"]) == (1.0, 20.0)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (None, "country: one of"),
        ({"context": None}, "there is no context"),
        ({"context": {"hour": 13}}, "'country'"),
        ({"context": {"hour": True, "country": "PT"}}, "'hour' is True"),
        ({"context": {"hour": [1], "country": "PT"}}, "'hour' is [1]"),
        ({"context": [13, "PT"]}, "[13, 'PT']"),
        ({"contxt": REQUEST}, "'contxt'"),
        ({"context": REQUEST, "allowed": "a"}, "'a'"),
    ],
)
def test_a_wrong_body_gets_a_sentence(server: ApiServer, body: Any, sentence: str) -> None:
    answer = ask(server, "POST", "/choose", body)
    assert answer.status == 422
    assert sentence in answer.json()["error"]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("context={", "'{'"),
        ("context=13", "13"),
        ("context={}", "context has no 'country'"),
        ("context=" + "[" * 4000, "it must be JSON such as"),
        ("&".join(["a=1"] * 11), "10 fields"),
    ],
)
def test_a_wrong_query_gets_a_sentence(server: ApiServer, query: str, sentence: str) -> None:
    answer = ask(server, "GET", f"/arms?{query}")
    assert answer.status == 422
    assert sentence in answer.json()["error"]


def test_an_agent_without_features_takes_no_context() -> None:
    with running(StandIn()) as server:
        for method, path, body in (
            ("POST", "/choose", {"context": REQUEST}),
            ("GET", "/arms?context=%7B%7D", None),
        ):
            answer = ask(server, method, path, body)
            assert answer.status == 422
            assert "no features" in answer.json()["error"]
        described = ask(server, "GET", "/openapi.json").json()
    choose = described["components"]["schemas"]["ChooseRequest"]
    assert set(choose["properties"]) == {"allowed", "unit"}
    assert "parameters" not in described["paths"]["/arms"]["get"]


def test_contexts_are_described(server: ApiServer) -> None:
    described = ask(server, "GET", "/openapi.json").json()
    schemas = described["components"]["schemas"]
    assert schemas["ChooseRequest"]["required"] == ["context"]
    reference = {"$ref": "#/components/schemas/Context"}
    assert schemas["ChooseRequest"]["properties"]["context"] == reference
    assert schemas["Context"] == {
        "type": "object",
        "properties": {
            "country": {"type": "string", "enum": ["PT", "ES"]},
            "hour": {"type": "number", "minimum": 0.0, "maximum": 24.0},
        },
        "required": ["country", "hour"],
        "additionalProperties": False,
    }
    (asked,) = described["paths"]["/arms"]["get"]["parameters"]
    assert asked["content"]["application/json"]["schema"] == reference
