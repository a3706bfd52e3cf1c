"""Bandits and arms that come and go by the cluster's document, while agents run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import DocumentConfig
from coopbandits.fleet.storage.disk import DiskError

from ..bandits import BANNER, BUTTON, Many, both
from ..document.made import public, signed, versions

MENU = ["a", "b", "c"]
"""The arms of the banner."""

WIDE = BUTTON | {"arms": ["red", "green", "blue"]}


def fleet_of(agents: int, **more: Any) -> Many:
    fleet = Many(nx.path_graph(agents), document=DocumentConfig((public(1),)), **more)
    for agent in range(agents):
        fleet.of(agent)
    fleet.steps(20)
    return fleet


def arms(fleet: Many, agent: int, name: str = "button") -> list[str]:
    return [arm.arm for arm in fleet.of(agent).bandit(name).arms()]


def test_an_arm_is_added_everywhere_and_nothing_is_forgotten() -> None:
    fleet = fleet_of(3)
    for agent in range(3):
        fleet.play(agent, "button", 1.0)
    fleet.shells[0].adopt(signed(1, bandits={"button": WIDE, "banner": BANNER}))
    fleet.steps(60)
    assert versions(fleet) == [1] * 3
    assert [arms(fleet, agent) for agent in range(3)] == [WIDE["arms"]] * 3
    choice = fleet.of(2).bandit("button").choose(["blue"])
    fleet.reward(2, "button", choice.ticket, 1.0)
    fleet.steps(60)
    for agent in range(3):
        assert fleet.learned(agent) == pytest.approx(dict(fleet.counts))
    fleet.crash(1)
    fleet.restart(1)
    fleet.steps(60)
    assert arms(fleet, 1) == WIDE["arms"], "its own file still says otherwise"
    assert fleet.learned(1) == pytest.approx(dict(fleet.counts))


def test_bandits_come_and_go_and_a_document_without_any_goes_back_to_the_files() -> None:
    fleet = fleet_of(2)
    fleet.shells[0].adopt(signed(1, bandits={"button": BUTTON, "page": BANNER}))
    fleet.steps(40)
    assert fleet.play(1, "page", 0.5) in MENU
    with pytest.raises(InputError):
        fleet.of(1).bandit("banner").choose()
    fleet.shells[1].adopt(signed(2))
    fleet.steps(40)
    assert fleet.play(0, "banner", 0.5) in MENU
    with pytest.raises(InputError):
        fleet.of(0).bandit("page").choose()
    fleet.steps(40)
    assert fleet.learned(0) == pytest.approx(dict(fleet.counts)), "what was learned is kept"


def test_new_sessions_keep_the_pace_of_the_document() -> None:
    fleet = fleet_of(2, declared=both())
    fleet.shells[0].adopt(
        signed(1, settings={"max_pulls_per_second": 5000.0}, bandits={"page": BANNER})
    )
    fleet.steps(40)
    for session in fleet.node(1).sessions.by_number.values():
        assert session.claims.rate == 5000.0
    assert fleet.of(1).bandit("page").choosing.rate == 5000.0


def test_all_problems_of_declarations_are_told_and_nothing_has_changed(tmp_path: Path) -> None:
    fleet = fleet_of(2)
    other = BUTTON | {"policy": "tree-ts"}
    with pytest.raises(InputError) as refused:
        fleet.shells[0].adopt(
            signed(1, bandits={"button": other, "banner": BANNER | {"pinned": "z"}})
        )
    lines = str(refused.value).splitlines()
    assert len(lines) == 2, lines
    assert "'flood-ts'" in str(refused.value)
    assert "pinned" in str(refused.value)
    for table, reason in (
        ({"arms": ["x"]}, "2 to 1000"),
        (BUTTON | {"colour": 1}, "unknown key"),
        (BUTTON | {"token_file": "token"}, "token_file"),
    ):
        with pytest.raises(InputError, match=reason):
            fleet.shells[0].adopt(signed(1, bandits={"button": table}))
    assert versions(fleet) == [0, 0]
    assert arms(fleet, 0) == BUTTON["arms"]


def test_the_token_of_a_bandit_stays_the_one_in_the_agents_own_file(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("0123456789abcdef")
    secret.chmod(0o600)
    declared = both()
    declared["button"] = replace(declared["button"], token_file=secret)
    fleet = fleet_of(1, declared=declared)
    fleet.shells[0].adopt(signed(1, bandits={"button": WIDE, "page": BANNER}))
    assert fleet.of(0).bandit("button").token == secret.read_text()
    assert fleet.of(0).bandit("page").token is None


def test_a_document_that_a_full_disk_kept_from_being_stored_is_stored_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = fleet_of(2)
    fleet.steps(5)
    journal = fleet.replica(0).journal

    def full(data: bytes) -> None:
        raise DiskError("the journal cannot be written: no room")

    with monkeypatch.context() as patch:
        patch.setattr(fleet.disks[0], "append", full)
        patch.setattr(fleet.disks[0], "prepare", full)
        with pytest.raises(DiskError, match="no room"):
            fleet.shells[0].adopt(signed(1, bandits={"button": WIDE, "page": BANNER}))
        fleet.steps(30)
        assert fleet.node(1).settings.documents.version == 0, "nobody is told of it before"
    fleet.steps(60)
    assert not journal.trouble
    for agent in range(2):
        fleet.crash(agent)
        fleet.restart(agent)
        assert arms(fleet, agent) == WIDE["arms"]
        assert fleet.play(agent, "page", 0.5) in MENU


def test_an_arm_is_purged_by_the_document_after_it_was_removed() -> None:
    fleet = fleet_of(3, declared=both(arms=["red", "green", "blue"]))
    for agent in range(3):
        fleet.play(agent, "button", 1.0)
    fleet.steps(20)
    fleet.crash(2)
    purging = {"button": BUTTON | {"arms": ["green", "blue"], "purged": ["red"]}, "banner": BANNER}
    with pytest.raises(InputError, match="'red'"):
        fleet.shells[0].adopt(signed(1, bandits=purging))
    removed = {"button": BUTTON | {"arms": ["green", "blue"]}, "banner": BANNER}
    fleet.shells[0].adopt(signed(1, bandits=removed))
    fleet.steps(20)
    fleet.shells[1].adopt(signed(2, bandits=purging))
    fleet.restart(2)  # and hears of both steps at once
    fleet.steps(60)
    assert versions(fleet) == [2] * 3
    wanted = {(name, arm if arm != "red" else None): n for (name, arm), n in fleet.counts.items()}
    for agent in range(3):
        assert fleet.learned(agent) == pytest.approx(wanted)
        fleet.crash(agent)
        fleet.restart(agent)  # its own file still lists the arm
        assert arms(fleet, agent) == ["green", "blue"]
        assert fleet.learned(agent) == pytest.approx(wanted)
    before = fleet.config(0)
    assert [arm.name for arm in before.bandits["button"].arms] == ["red", "green", "blue"]
