"""What an application and an operator see and change of the cluster's document."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import networkx as nx
import pytest

from coopbandits.fleet.config import DocumentConfig, write_config
from coopbandits.fleet.document.content import MAX_CONTENT
from coopbandits.fleet.document.seal import Signed, to_json
from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.service import RateLimitError, UnavailableError
from coopbandits.fleet.service.agent import ServedAgent
from tests.torture.world import World

from ..api.running import ask, running
from ..document.made import pass_seconds, public, signed, text, world

TOKEN = "secret"


def service_of(fleet: World, agent: int = 0) -> ServedAgent:
    return fleet.service(agent, lambda: 7)


def test_who_has_which_version_is_told() -> None:
    fleet = world(nx.path_graph(3))
    service = service_of(fleet, 1)
    assert service.cluster() == {
        "id": "n1", "cluster": "shop", "version": 0, "digest": "", "alarm": "",
        "operators": [text(1)], "neighbors": {"n0": None, "n2": None}, "bandits": {},
        "retired": {}, "content": None, "signed": None,
    }  # fmt: skip
    pass_seconds(fleet, 1)
    fleet.cut_link(1, 2)
    found = service.adopt(to_json(signed(4)))
    pass_seconds(fleet, 1)
    told = service.cluster()
    assert told["version"] == found["version"] == 4
    assert told["neighbors"] == {"n0": 4, "n2": None}
    assert told["content"].startswith("[cluster]\n")
    assert msgspec.convert(told["signed"], Signed) == signed(4), "it can be handed on"
    health = service.health()["document"]
    assert health == {"version": 4, "digest": told["digest"], "alarm": ""}
    (version,) = (m for m in service.metrics() if m.name == "document_version")
    assert version.samples == [({}, 4)]


def test_two_contents_of_one_version_are_seen_in_health_and_metrics() -> None:
    service = service_of(world(nx.empty_graph(1)))
    service.adopt(to_json(signed(4)))
    with pytest.raises(ValueError, match=r"version 4\b"):
        service.adopt(to_json(signed(4, revoked=["a"])))
    assert "two documents" in service.health()["document"]["alarm"]
    (alarm,) = (m for m in service.metrics() if m.name == "document_alarm")
    assert alarm.samples == [({}, 1.0)]


def test_the_pace_of_applications_follows_the_document() -> None:
    fleet = world(nx.empty_graph(1), max_pulls_per_second=1000.0)
    service = service_of(fleet)
    service.adopt(to_json(signed(1, settings={"max_pulls_per_second": 0.1})))
    for _ in range(3):  # a burst of 30 seconds
        service.bandit("only").choose()
    with pytest.raises(RateLimitError, match=r"0\.1 a second"):
        service.bandit("only").choose()
    again = service_of(fleet)
    assert again.bandit("only").choosing.rate == 0.1, "after a restart, too"
    again.adopt(to_json(signed(2)))
    fleet.now += 1.0
    again.bandit("only").choose()


def test_what_cannot_be_stored_is_not_taken() -> None:
    service = service_of(world(nx.empty_graph(1)))
    service.node.bandits.journal.trouble = "no room"
    with pytest.raises(UnavailableError, match="no room"):
        service.adopt(to_json(signed(1)))
    service.failure = "the agent failed"
    with pytest.raises(UnavailableError, match="agent failed"):
        service.adopt(to_json(signed(1)))


def test_a_document_comes_in_over_http() -> None:
    with running(service_of(world(nx.empty_graph(1))), token=TOKEN) as server:
        key = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        large = signed(1, revoked=[f"n{10**55 + number}" for number in range(1700)])
        body = to_json(large)
        assert len(body) > 2**17
        assert ask(server, "POST", "/cluster/document", body).status == 401
        assert ask(server, "GET", "/cluster", headers={}).status == 401
        assert ask(server, "POST", "/choose", body, key).status == 413
        taken = ask(server, "POST", "/cluster/document", body, key)
        assert (taken.status, taken.json()["version"]) == (200, 1)
        assert ask(server, "POST", "/cluster/document", body, key).status == 200, "once more"
        for wrong, status in (
            (to_json(signed(2, 9)), 422),
            (b'{"seal": 3}', 422),
            (b"{", 400),
            (b" " * (2 * MAX_CONTENT + 1), 413),
        ):
            assert ask(server, "POST", "/cluster/document", wrong, key).status == status
        told = ask(server, "GET", "/cluster", headers=key).json()
        assert (told["version"], told["alarm"]) == (1, "")


def test_a_program_hands_a_document_to_its_own_agent(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    tables = {
        "cluster": {
            "name": "shop", "epoch": datetime(2026, 1, 31, tzinfo=UTC),
        },
        "node": {"id": "shop-1", "listen": "127.0.0.1:0", "journal": "journal"},
        "document": {"operators": [text(1)]},
        "bandits": {"button": {"arms": ["a", "b"], "reward_range": [0.0, 1.0]}},
    }  # fmt: skip
    path.write_text(write_config(tables))
    with LocalAgent(path, insecure=True) as agent:
        assert agent.config.document == DocumentConfig((public(1),))
        assert agent.adopt(to_json(signed(3)))["version"] == 3
    with LocalAgent(path, insecure=True) as agent:
        assert agent.cluster()["version"] == 3
    bare = dataclasses.replace(agent.config, document=DocumentConfig())
    with LocalAgent(bare) as agent:
        assert agent.cluster()["version"] == 3, "what was taken stays in force"
        with pytest.raises(ValueError, match="trusted"):
            agent.adopt(to_json(signed(4)))


@pytest.mark.parametrize(("declared", "rates"), [(1.0, (100.0,)), (100.0, (None, 0.5))])
def test_pulls_at_a_rate_that_was_believed_are_not_held_against_an_agent(
    declared: float, rates: tuple[float | None, ...]
) -> None:
    """After a restart, where a document has raised the rate, or lowered it since."""
    fleet = world(nx.empty_graph(1), max_pulls_per_second=declared)
    service = service_of(fleet)
    for version, rate in enumerate(rates, 1):
        settings = {} if rate is None else {"max_pulls_per_second": rate}
        service.adopt(to_json(signed(version, settings=settings)))
        for _ in range(1200 if rate != 0.5 else 0):  # more than the lower rate allows by now
            fleet.now += 0.01
            service.bandit("only").choose()
    fleet.crash(0)
    fleet.restart(0)
    fleet.now += 2.0
    service_of(fleet).bandit("only").choose()
