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


def running(fleet: Many, agent: int) -> set[str]:
    return {state.name for state in fleet.of(agent).bandits() if not state.retired}


def test_requests_to_all_bandits_continue_through_a_first_document() -> None:
    """It adds one bandit, and the two in the files of the nodes are asked in every round."""
    fleet = fleet_of(3)
    fleet.crash(2)
    asked = {"button", "banner"}
    fleet.shells[0].adopt(signed(1, bandits={"page": BANNER}))
    for step in range(60):
        if step == 20:
            fleet.restart(2)
        for agent in range(3):
            if fleet.nodes[agent] is not None:
                for name in asked:
                    fleet.play(agent, name, 0.5)
        fleet.steps(1)
    fleet.steps(40)
    assert versions(fleet) == [1] * 3
    for agent in range(3):
        assert running(fleet, agent) == asked | {"page"}
        assert fleet.play(agent, "page", 1.0) in MENU
        assert not [note for note in fleet.node(agent).events.notes if note.kind == "retired"]
    fleet.steps(40)
    assert fleet.learned(2) == pytest.approx(dict(fleet.counts))


def test_what_an_earlier_document_declared_continues_also_after_a_restart() -> None:
    fleet = fleet_of(3)
    fleet.crash(2)
    fleet.shells[0].adopt(signed(1, bandits={"button": WIDE, "page": BANNER}))
    fleet.steps(40)
    fleet.shells[1].adopt(signed(2, settings={"rounds_per_second": 5.0}))
    fleet.steps(40)
    for _ in range(2):
        for agent in range(2):
            assert running(fleet, agent) == {"button", "banner", "page"}
            assert arms(fleet, agent) == WIDE["arms"]
            fleet.crash(agent)
            fleet.restart(agent)
    fleet.restart(2)
    fleet.steps(60)
    assert versions(fleet) == [2] * 3
    assert running(fleet, 2) == {"button", "banner"}, "it never saw version 1"
    assert arms(fleet, 2) == BUTTON["arms"]
    assert fleet.of(0).cluster()["bandits"] == {"button": 1, "page": 1}
    assert fleet.of(2).cluster()["bandits"] == {}


def test_only_what_a_document_lists_as_retired_stops(caplog: pytest.LogCaptureFixture) -> None:
    fleet = fleet_of(2)
    fleet.shells[0].adopt(signed(1, bandits={"page": BANNER, "other": BUTTON}))
    fleet.steps(40)
    late = fleet.of(1).bandit("page").choose()
    fleet.shells[1].settle()
    caplog.set_level("INFO")
    fleet.shells[0].adopt(signed(2, retired=["page", "banner", "unknown"]))
    fleet.steps(40)
    sentences = [f"cluster document version 2 retired bandit {name}" for name in ("banner", "page")]
    for agent in range(2):  # the second one heard of it from its neighbour
        assert running(fleet, agent) == {"button", "other"}
        with pytest.raises(InputError, match="retired"):
            fleet.of(agent).bandit("banner").choose()
        notes = [note.text for note in fleet.node(agent).events.notes if note.kind == "retired"]
        assert sorted(notes) == sentences
        told = fleet.of(agent).cluster()
        assert told["retired"] == {"page": 2, "banner": 2, "unknown": 2}
        assert told["bandits"] == {"other": 1}
    for name in ("banner", "page"):
        line = f"cluster document retired a bandit bandit={name} version=2"
        assert caplog.messages.count(line) == 2
    fleet.reward(1, "page", late.ticket, 1.0)
    fleet.shells[0].adopt(signed(3))
    fleet.steps(40)
    assert running(fleet, 1) == {"button", "other"}, "a later document does not mention them"
    fleet.crash(1)
    fleet.restart(1)
    assert running(fleet, 1) == {"button", "other"}
    fleet.shells[0].adopt(signed(4, bandits={"page": BANNER}, retired=["banner"]))
    fleet.steps(60)
    assert running(fleet, 1) == {"button", "other", "page"}
    assert fleet.of(1).cluster()["retired"] == {"banner": 2, "unknown": 2}
    assert fleet.learned(1) == pytest.approx(dict(fleet.counts)), "what was learned is kept"


def test_a_document_is_checked_together_with_the_bandits_that_it_does_not_mention() -> None:
    fleet = fleet_of(1, declared=both(number=7))
    with pytest.raises(InputError) as refused:
        fleet.shells[0].adopt(signed(1, bandits={"page": BANNER | {"number": 7}}))
    assert str(refused.value).startswith("bandits button and page have the same number 7;")
    fleet.shells[0].adopt(signed(1, bandits={"page": BANNER | {"half_life": "60s"}}))
    with pytest.raises(InputError, match=r"\[bandits\.page\] half_life is 1 min"):
        fleet.shells[0].adopt(signed(2, settings={"rounds_per_second": 0.1}))
    assert versions(fleet) == [1]
    slow = signed(2, settings={"rounds_per_second": 0.1}, retired=["page"])
    fleet.shells[0].adopt(slow)
    assert running(fleet, 0) == {"button", "banner"}


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
