"""`coopbandits agent` and `coopbandits certs` as they are typed."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from coopbandits.fleet.config import NodeConfig, read_config, write_config
from coopbandits.fleet.config.explain import explain

from .calls import Call, refused

TABLES: dict[str, Any] = {
    "cluster": {
        "name": "shop",
        "epoch": datetime(2026, 1, 31, tzinfo=UTC),
        "arms": ["red", "blue"],
        "reward_range": [0.0, 1.0],
    },
    "node": {"id": "shop-1", "listen": "127.0.0.1:7401", "journal": "memory"},
    "neighbors": [{"id": "shop-2", "address": "127.0.0.1:7402"}],
}


def write(path: Path, **more: dict[str, Any]) -> str:
    """Write the configuration of a node without TLS; return its path."""
    tables = {name: dict(table) | more.get(name, {}) if isinstance(table, dict) else table
              for name, table in TABLES.items()}  # fmt: skip
    path.write_text(write_config(tables))
    return str(path)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[NodeConfig]:
    """Collect the configurations that agents are started with, which end with status 3."""
    found: list[NodeConfig] = []
    process = ModuleType("coopbandits.fleet.process")

    def run_agent(config: NodeConfig) -> int:
        found.append(config)
        return 3

    process.run_agent = run_agent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "coopbandits.fleet.process", process)
    return found


def test_agent(call: Call, tmp_path: Path, started: list[NodeConfig]) -> None:
    path = write(tmp_path / "node.toml")
    assert call("agent", path, "--insecure").status == 3
    assert started == [read_config(path, now=datetime.now(UTC).timestamp(), insecure=True)]


def test_agent_refused(call: Call, tmp_path: Path, started: list[NodeConfig]) -> None:
    path = write(tmp_path / "node.toml")
    assert f"{path}: there is no [tls], so anybody could" in refused(call("agent", path))
    sentence = "an agent has one configuration file, but 2 were given"
    assert sentence in refused(call("agent", path, path, "--insecure"))
    assert started == []


def test_several_problems_are_several_lines(call: Call, tmp_path: Path) -> None:
    path = write(tmp_path / "node.toml", cluster={"name": ""}, node={"id": "A"})
    outcome = call("agent", path)
    assert (outcome.status, outcome.out) == (2, "")
    assert [line.partition(";")[0] for line in outcome.err.splitlines()] == [
        f"error: {path}: [cluster] name is ''",
        f"error: {path}: [node] id is 'A'",
    ]


def test_agent_check(call: Call, tmp_path: Path, started: list[NodeConfig]) -> None:
    path = write(tmp_path / "node.toml")
    outcome = call("agent", path, "--check", "--insecure")
    assert (outcome.status, outcome.err) == (0, "")
    now = datetime.now(UTC).timestamp()
    assert outcome.out == explain(read_config(path, now=now, insecure=True), now) + "\n"
    refusal = call("agent", path, "--check")
    assert (refusal.status, refusal.out) == (1, "")
    assert refusal.err.startswith(f"error: {path}: there is no [tls]")
    assert started == []


def test_agent_check_of_several(call: Call, tmp_path: Path) -> None:
    one, two = tmp_path / "1.toml", tmp_path / "2.toml"
    write(one)
    text = one.read_text().replace("shop-2", "shop-x").replace("7402", "x")
    text = text.replace("shop-1", "shop-2").replace("7401", "7402")
    two.write_text(text.replace("shop-x", "shop-1").replace(":x", ":7401"))
    check = ("agent", "--check", "--insecure", str(one), str(two))
    outcome = call(*check)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("nodes shop-1, shop-2 of cluster shop\n")

    two.write_text(two.read_text().replace("7402", "7403").replace('"red", ', '"red", "green", '))
    outcome = call(*check)
    assert outcome.status == 1
    assert outcome.out.startswith("nodes shop-1, shop-2 of cluster shop\n")
    arms, port = outcome.err.splitlines()
    assert f"error: {two}: [cluster] arms is ['red', 'green', 'blue'], but {one} has" in arms
    assert f"error: {one}: neighbour shop-2 is at 127.0.0.1:7402, but {two} listens on" in port
