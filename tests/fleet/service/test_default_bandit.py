"""Calls that name no bandit: they are the default bandit's whatever happens, or errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.config import ClusterConfig, DocumentConfig, NodeConfig
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.service import UnknownBanditError

from ..api.running import ask, running
from ..bandits import BANNER, BUTTON, Many, bandit, both
from ..client.driving import Driven, Make, Threaded
from ..document.made import public, signed

SHORT = [
    ("POST", "/choose", {}),
    ("POST", "/observe", {"ticket": "0123456789abcdef-1", "reward": 1.0}),
    ("GET", "/arms", None),
    ("GET", "/recommendation", None),
]
TOKEN = "0123456789abcdef"
ONE = {"button": bandit("button", BUTTON)}


class Fleet:
    """One agent with a default bandit, and its API."""

    def __init__(self, default: str | None, declared: dict[str, BanditConfig]) -> None:
        document = DocumentConfig((public(1),))
        self.world = Many(nx.empty_graph(1), declared=declared, document=document)
        self.service = self.world.of(0)
        self.service.config = replace(self.service.config, default_bandit=default)

    def adopt(self, version: int, *retired: str, **bandits: Any) -> None:
        """Have a document declare some bandits, and retire others."""
        self.world.shells[0].adopt(signed(version, retired=list(retired), bandits=bandits))
        self.world.steps(2)

    @contextmanager
    def serving(self) -> Iterator[ApiServer]:
        with running(self.service) as server:
            yield server


def shown(server: ApiServer, prefix: str) -> list[tuple[int, Any]]:
    """Return status and answer of all calls, tickets aside."""
    found = []
    for method, path, body in SHORT:
        answer = ask(server, method, prefix + path, body)
        told = answer.json()
        found.append((answer.status, {key: told[key] for key in told if key != "ticket"}))
    return found


@pytest.mark.parametrize("declared", [ONE, both()], ids=["one", "two"])
def test_without_a_default_every_call_must_name_its_bandit(
    declared: dict[str, BanditConfig],
) -> None:
    with Fleet(None, declared).serving() as server:
        for method, path, body in SHORT:
            answer = ask(server, method, path, body)
            assert answer.status == 404, path
            sentence = answer.json()["error"]
            assert "/bandits/NAME/choose" in sentence
            assert "default_bandit" in sentence
            assert ", ".join(declared) in sentence
        assert set(ask(server, "GET", "/export").json()["bandits"]) == set(declared)


def test_with_a_default_they_are_that_bandits_whatever_other_bandits_come_and_go() -> None:
    fleet = Fleet("button", ONE)
    with fleet.serving() as server:
        changes: list[tuple[list[str], dict[str, Any]]] = [
            ([], {}),
            ([], {"banner": BANNER, "page": BANNER}),
            (["banner"], {"button": BUTTON}),
            (["page"], {}),
        ]
        for version, (retired, bandits) in enumerate(changes, 1):
            fleet.adopt(version, *retired, **bandits)
            answer = ask(server, "POST", "/choose", {"allowed": ["red"]}).json()
            assert answer["arm"] == "red"
            reward = {"ticket": answer["ticket"], "reward": 1.0}
            assert ask(server, "POST", "/observe", reward).json()["arm"] == "red"
            arms = ask(server, "GET", "/arms")
            assert arms.body == ask(server, "GET", "/bandits/button/arms").body
            assert sum(arm["own_pulls"] for arm in arms.json()["arms"]) == version


def test_a_default_that_is_retired_answers_like_its_named_path() -> None:
    fleet = Fleet("button", both())
    with fleet.serving() as server:
        late = ask(server, "POST", "/choose").json()["ticket"]
        other = ask(server, "POST", "/bandits/banner/choose").json()["ticket"]
        fleet.adopt(1, "button")
        found = shown(server, "")
        assert found == shown(server, "/bandits/button")
        status, answer = found[0]
        assert status >= 400
        assert "button" in answer["error"]
        assert ask(server, "POST", "/observe", {"ticket": late, "reward": 1.0}).status == 200
        strange = ask(server, "POST", "/observe", {"ticket": other, "reward": 1.0})
        assert strange.status == 404
        assert "banner" in strange.json()["error"]


def test_a_default_that_is_not_declared_yet_answers_like_its_named_path() -> None:
    fleet = Fleet("page", ONE)
    with fleet.serving() as server:
        found = shown(server, "")
        assert found == shown(server, "/bandits/page")
        assert {status for status, _ in found} == {404}
        fleet.adopt(1, page=BANNER)
        assert ask(server, "POST", "/choose").json()["arm"] in BANNER["arms"]


def test_the_token_of_the_default_bandit_opens_its_short_paths_and_no_other_does() -> None:
    fleet = Fleet("button", both())
    fleet.service.renew_tokens({"button": TOKEN, "banner": TOKEN[::-1]})
    kind = {"content-type": "application/json"}
    with fleet.serving() as server:
        for method, path, _ in SHORT[:1] + SHORT[2:]:
            for token, status in ((TOKEN, 200), (TOKEN[::-1], 401)):
                proof = kind | {"authorization": f"Bearer {token}"}
                assert ask(server, method, path, headers=proof).status == status
            assert ask(server, method, path, headers=kind).status == 401


@pytest.mark.parametrize("make", [Threaded, Driven], ids=["blocking", "asynchronous"])
def test_clients_without_a_bandit_ask_for_the_default(make: Make) -> None:
    fleet = Fleet("banner", both())
    with fleet.serving() as server, make(server.address) as client:
        choice = client.choose()
        assert choice.arm in BANNER["arms"]
        assert client.observe(choice.ticket, 1.0).arm == choice.arm
        assert [arm.arm for arm in client.arms()] == BANNER["arms"]
        assert client.recommendation().arm == choice.arm
        fleet.service.config = replace(fleet.service.config, default_bandit=None)
        for call in (client.choose, client.arms, client.recommendation):
            with pytest.raises(UnknownBanditError, match=r"/bandits/NAME/choose.*default_bandit"):
                call()
        with make(server.address, bandit="button") as button:
            assert button.choose().arm in BUTTON["arms"]


def test_an_agent_inside_a_program_follows_the_same_rule(tmp_path: Path) -> None:
    cluster = ClusterConfig("shop", int(time.time()) - 1000)
    declared, listen = both(cluster), Address("127.0.0.1", 0)
    banner = {"banner": declared["banner"]}
    one = {"button": declared["button"]}
    without = NodeConfig(cluster, "a", tmp_path / "a", {}, listen=listen, bandits=one)
    with LocalAgent(without) as agent:
        calls = (agent.choose, lambda: agent.observe("x", 1.0), agent.arms, agent.recommendation)
        for call in calls:
            with pytest.raises(UnknownBanditError, match=r"/bandits/NAME/choose.*default_bandit"):
                call()
        assert agent.bandit("button").choose().arm in BUTTON["arms"]
    with LocalAgent(replace(without, default_bandit="button")) as agent:
        late = agent.choose()
        agent.take(declared)
        assert agent.choose().arm in BUTTON["arms"]
        agent.take(banner)
        assert not agent.observe(late.ticket, 1.0).duplicate
        assert [arm.arm for arm in agent.arms()] == [
            arm.arm for arm in agent.bandit("button").arms()
        ]
        errors = []
        for retired in (agent, agent.bandit("button")):
            with pytest.raises(InputError, match="button is retired") as raised:
                retired.choose()
            errors.append(str(raised.value))
        assert errors[0] == errors[1]
