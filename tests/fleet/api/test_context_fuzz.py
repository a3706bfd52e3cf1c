"""Whatever is sent as a context: a choice if it fits, else one sentence, and nothing changed."""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import parse_address
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.storage.disk import MemoryDisk

from ..contexts import agent_alone
from .running import running

LONG = "x" * 10_000

repeatable = settings(max_examples=40, deadline=None, derandomize=True, database=None)

numbers = (
    st.floats(allow_nan=True, allow_infinity=True)
    | st.integers(-(10**400), 10**400)
    | st.sampled_from([0, 24, 24.0000001, -0.0, -5e-324, 1e308, math.nan, math.inf, -math.inf])
)
texts = st.text(max_size=30) | st.sampled_from(["PT", "ES", "pt", "", "\ud800", "\x00", LONG])
leaves = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(["hour", "country", "Hour", " hour", "", LONG]) | st.text(max_size=10)
near = st.fixed_dictionaries(
    {}, optional={"hour": numbers | values, "country": texts | values}
) | st.dictionaries(names, values, max_size=4)
contexts = near | values


class Agent(NamedTuple):
    """An agent with one connection to it."""

    service: ServedAgent
    disk: MemoryDisk
    link: http.client.HTTPConnection

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        headers = {"content-type": "application/json"} if body is not None else {}
        self.link.request(method, path, body, headers)
        answer = self.link.getresponse()
        return answer.status, json.loads(answer.read())

    def state(self) -> Any:
        replica = self.service.bandit("only").replica
        return bytes(self.disk.data), replica.agent.export_state(), replica.tickets.export_state()


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    disk = MemoryDisk()
    service = agent_alone(disk)
    with running(service) as server:
        place = parse_address(server.address)
        with closing(http.client.HTTPConnection(place.host, place.port, timeout=5)) as link:
            yield Agent(service, disk, link)


@pytest.fixture(scope="module")
def plain() -> ServedAgent:
    return agent_alone(MemoryDisk(), None, "flood-ts")


def fits(context: Any) -> bool:
    """What the cluster declares, said in another way."""
    return (
        isinstance(context, dict)
        and set(context) == {"hour", "country"}
        and context["country"] in ("PT", "ES")
        and type(context["hour"]) in (int, float)
        and 0 <= context["hour"] <= 24
    )


def is_sentence(error: str) -> bool:
    return 10 < len(error) < 500 and "\n" not in error and error.isprintable()


@repeatable
@given(context=contexts)
@example(context={"hour": 13, "country": LONG})
@example(context={LONG: 1, "hour": 13, "country": "PT"})
@example(context={"hour": 13, "country": "PT", "more": {"a": {"b": 1}}})
@example(context={"hour": True, "country": "PT"})
@example(context={"hour": math.nan, "country": "PT"})
@example(context={"hour": 24, "country": "ES"})
def test_a_choice_takes_what_fits_and_nothing_else(agent: Agent, context: Any) -> None:
    before = agent.state()
    status, answer = agent.ask("POST", "/choose", json.dumps({"context": context}).encode())
    if fits(context):
        assert status == 200
        status, _ = agent.ask(
            "POST", "/observe", json.dumps({"ticket": answer["ticket"], "reward": 1.0}).encode()
        )
        assert status == 200
    else:
        assert status in (400, 413, 422), answer
        assert is_sentence(answer["error"]), answer
        assert agent.state() == before


@repeatable
@given(context=contexts)
@example(context={"hour": 24, "country": "ES"})
@example(context={"hour": 13, "country": LONG})
def test_an_estimate_takes_what_fits_and_nothing_else(agent: Agent, context: Any) -> None:
    before = agent.state()
    query = urlencode({"context": json.dumps(context)})
    if len(query) > 6000:  # longer than the header of a request may be
        return
    status, answer = agent.ask("GET", f"/arms?{query}")
    if fits(context):
        assert status == 200
        assert [arm["arm"] for arm in answer["arms"]] == ["a", "b"]
    else:
        assert status == 422, answer
        assert is_sentence(answer["error"]), answer
    assert agent.state() == before


@repeatable
@given(body=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
@example(body=b'{"context": {"hour": 1e999, "country": "PT"}}')
@example(body=b'{"context": {"hour": NaN, "country": "PT"}}')
@example(body=b'{"context": {"hour": 13, "hour": 99, "country": "PT"}}')
@example(body=b'{"context": {"hour": 13, "country": "\\ud800"}}')
@example(body=b'{"context": {"hour": 13, "country": "\xff"}}')
@example(body=b'{"context": ' + b'{"hour": ' * 5000)
@example(body=b'{"context": {"hour": ' + b"[" * 900 + b"]" * 900 + b', "country": "PT"}}')
@example(body=b'{"context": {"hour": ' + b"9" * 5000 + b', "country": "PT"}}')
def test_bytes_that_are_no_context_change_nothing(agent: Agent, body: bytes) -> None:
    before = agent.state()
    status, answer = agent.ask("POST", "/choose", body)
    assert status in (400, 413, 415, 422), answer
    assert is_sentence(answer["error"]), answer
    assert agent.state() == before


@repeatable
@given(context=contexts)
def test_where_none_is_declared_none_is_taken(plain: ServedAgent, context: Any) -> None:
    before = plain.bandit("only").replica.agent.export_state()
    if context is None:
        return
    with pytest.raises(InputError) as refused:
        plain.bandit("only").choose(context=context)
    assert is_sentence(str(refused.value))
    assert plain.bandit("only").replica.agent.export_state() == before
