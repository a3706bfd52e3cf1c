"""`coopbandits fleet export`: all that was learned, from a running agent and from its journal."""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from coopbandits.cli import app, cluster
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig, read_config
from coopbandits.fleet.process.backup import export_journal, rows_of
from coopbandits.fleet.process.embedded import LocalAgent

from ..api.running import running
from .agents import Agent

BANDITS = {
    "button": {"arms": ["red", "green"], "reward_range": [0.0, 1.0]},
    "banner": {"arms": ["ä", "b", "c"], "sigma": 1.0},
}


def config_of(folder: Path, *bandits: str, **button: Any) -> NodeConfig:
    """The file of an agent without neighbours, with these bandits, the button unless told."""
    agent = Agent(folder)
    agent.tables["bandits"] = {name: BANDITS[name] for name in bandits or ["button"]}
    agent.tables["bandits"]["button"] = BANDITS["button"] | button
    agent.write()
    return read_config(agent.path, now=time.time(), insecure=True)


def export(*words: str) -> None:
    app(["fleet", "export", *words], standalone_mode=False)


def test_a_running_agent_and_its_journal_tell_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(tmp_path / "alpha", *BANDITS)
    source, file = str(tmp_path / "alpha" / "node.toml"), tmp_path / "learned.json"
    with LocalAgent(config) as agent:
        for name, reward in (("button", 1.0), ("button", 0.0), ("banner", -2.5)):
            bandit = agent.bandit(name)
            bandit.observe(bandit.choose().ticket, reward)
        with running(agent._runtime.service) as server:
            export(f"http://{server.address}", str(file))
        told = json.loads(file.read_text())
        export(source, str(file))  # while it runs: a journal can be read at any time
        assert json.loads(file.read_text()) == told
    assert "exported to" in capsys.readouterr().out
    assert [file.name for file in tmp_path.glob("*learned*")] == ["learned.json"]
    assert told["agent"] == "alpha"
    assert sum(arm["pulls"] for arm in told["bandits"]["button"]["arms"]) == 2.0
    later = config_of(tmp_path / "alpha", "button", arms=["red", "blue"])
    with LocalAgent(later):  # takes that
        pass
    kept = {(row["bandit"], row["arm"]): row for row in rows_of(export_journal(later, time.time()))}
    assert {key: row["state"] for key, row in kept.items() if key[0] == "button"} == {
        ("button", "red"): "active",
        ("button", "green"): "removed",
        ("button", "blue"): "active",
    }
    assert sum(row["own_reward"] for key, row in kept.items() if key[0] == "banner") == -2.5


def test_changes_that_were_not_taken_yet_are_not_in_an_export(tmp_path: Path) -> None:
    """What is exported before a purge has the arm that is to be purged."""
    three = {"name": "scarlet", "id": "red"}, {"name": "lime", "id": "green"}, "blue"
    with LocalAgent(config_of(tmp_path / "alpha", *BANDITS, arms=list(three))) as agent:
        bandit = agent.bandit("button")
        bandit.observe(bandit.choose(["scarlet"]).ticket, 1.0)
        without = config_of(tmp_path / "alpha", *BANDITS, arms=list(three[1:]))
        agent.take(without.bandits)
        told = {arm["number"]: arm for arm in agent.export()["bandits"]["button"]["arms"]}
        changes: list[dict[str, Any]] = [
            {"arms": list(three[1:]), "purged": ["red"]},
            {"arms": [{"name": "olive", "id": "green"}, "blue", "pink"]},  # renamed, and added
            {"arms": ["blue", "pink"]},  # without an arm of another id than its name
            {"arms": list(three[1:]), "reward_range": [0.0, 9.0]},
        ]
        for change in changes:
            changed = config_of(tmp_path / "alpha", *BANDITS, **change)
            found = export_journal(changed, time.time())["bandits"]["button"]
            assert found["settings"]["reward_range"] == [0.0, 1.0]
            assert {arm["arm"]: arm["state"] for arm in found["arms"]} == {
                "scarlet": "removed",
                "lime": "active",
                "blue": "active",
            }
            kept = {arm["number"]: arm for arm in found["arms"]}
            keys = ("arm", "state", "pulls", "mean", "own_pulls")
            assert all(kept[at][key] == told[at][key] for at in told for key in keys)


def test_a_bandit_that_was_not_taken_yet_is_not_in_an_export(tmp_path: Path) -> None:
    with LocalAgent(config_of(tmp_path / "alpha", "button")):
        later = config_of(tmp_path / "alpha", *BANDITS)
        assert list(export_journal(later, time.time())["bandits"]) == ["button"]


def test_an_export_goes_through_a_link(tmp_path: Path) -> None:
    with LocalAgent(config_of(tmp_path / "alpha")):
        pass
    source, target = str(tmp_path / "alpha" / "node.toml"), tmp_path / "kept" / "learned.json"
    target.parent.mkdir()
    target.write_text("before")
    link, circle = tmp_path / "link.json", tmp_path / "circle.json"
    link.symlink_to(Path("kept", "learned.json"))
    export(source, str(link))
    assert link.is_symlink()
    assert json.loads(target.read_text())["agent"] == "alpha"
    assert [file.name for file in target.parent.iterdir()] == ["learned.json"]
    circle.symlink_to(circle.name)
    with pytest.raises(InputError, match="Too many levels"):
        export(source, str(circle))


def test_tables_have_a_row_per_arm(tmp_path: Path) -> None:
    config, table = config_of(tmp_path / "alpha"), tmp_path / "learned.csv"
    source = str(tmp_path / "alpha" / "node.toml")
    with LocalAgent(config) as agent:
        agent.observe(agent.choose(["green"]).ticket, 0.25)
        with running(agent._runtime.service) as server:
            export(f"http://{server.address}", str(table))
    with table.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [(row["bandit"], row["arm"], row["pulls"], row["mean"]) for row in rows] == [
        ("button", "red", "0.0", ""),
        ("button", "green", "1.0", "0.25"),
    ]
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    export(source, str(tmp_path / "learned.parquet"))
    found = parquet.read_table(tmp_path / "learned.parquet").to_pylist()
    assert [row["own_pulls"] for row in found] == [0, 1]
    assert found == list(rows_of(export_journal(config, time.time())))


def test_what_cannot_be_exported_is_said_and_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    config_of(tmp_path / "alpha")
    source, file = str(tmp_path / "alpha" / "node.toml"), tmp_path / "learned.json"
    file.write_text("before")
    with pytest.raises(InputError, match=r"journal.*No such file"):
        export(source, str(file))
    with pytest.raises(InputError, match="no agent answered"):
        export("127.0.0.1:1", str(file))
    with LocalAgent(config_of(tmp_path / "alpha")):
        pass
    with pytest.raises(InputError, match=r"'\.xls'.*\.json, \.csv"):
        export(source, str(tmp_path / "learned.xls"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="pyarrow"):
        export(source, str(tmp_path / "learned.parquet"))
    with pytest.raises(InputError, match="cannot write"):
        export(source, str(file / "learned.json"))
    assert file.read_text() == "before"
