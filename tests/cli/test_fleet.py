"""`coopbandits agent`, `coopbandits certs` and `coopbandits fleet` as they are typed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from coopbandits.cli import load
from coopbandits.fleet.config import NodeConfig, read_config, write_config
from coopbandits.fleet.config.check import explain
from coopbandits.fleet.identity import certs
from coopbandits.fleet.local import run
from coopbandits.fleet.local.agents import FleetError
from coopbandits.fleet.local.run import Outcome
from coopbandits.fleet.local.settings import Settings

from .calls import Call, refused

TABLES: dict[str, Any] = {
    "cluster": {
        "name": "shop",
        "epoch": datetime(2026, 1, 31, tzinfo=UTC),
    },
    "bandits": {"button": {"arms": ["red", "blue"], "reward_range": [0.0, 1.0]}},
    "node": {"id": "shop-1", "listen": "127.0.0.1:7401", "journal": "memory", "api": "unix:api"},
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
    process = ModuleType("coopbandits.fleet.process.main")

    def run_agent(config: NodeConfig, reread: Callable[[], NodeConfig]) -> int:
        assert reread() == config
        found.append(config)
        return 3

    async def check_start(_: NodeConfig) -> None:
        pass

    process.run_agent = run_agent  # type: ignore[attr-defined]  # a module made here
    process.check_start = check_start  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "coopbandits.fleet.process.main", process)
    return found


def test_agent(call: Call, tmp_path: Path, started: list[NodeConfig]) -> None:
    path = write(tmp_path / "node.toml")
    assert call("agent", path, "--insecure").status == 3
    assert started == [read_config(path, now=datetime.now(UTC).timestamp(), insecure=True)]


def test_agent_refused(call: Call, tmp_path: Path, started: list[NodeConfig]) -> None:
    path = write(tmp_path / "node.toml")
    assert f"{path}: there is no [tls]" in refused(call("agent", path))
    sentence = "2 were given"
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
    assert outcome.out.endswith("\nthese nodes fit together\n")

    two.write_text(two.read_text().replace("7402", "7403").replace("[0.0, 1.0]", "[0.0, 2.0]"))
    outcome = call(*check)
    assert outcome.status == 1
    assert outcome.out.startswith("nodes shop-1, shop-2 of cluster shop\n")
    assert "fit together" not in outcome.out
    rewards, port = outcome.err.splitlines()
    assert f"error: {two}: [bandits.button] reward_range is [0.0, 2.0]" in rewards
    assert f"error: {one}: neighbour shop-2 is at 127.0.0.1:7402" in port


@pytest.mark.parametrize(
    ("settings", "refused"),
    [({}, False), ({"policy": "dducb", "num_agents": 2, "lambda_bound": 0.5}, True)],
)
def test_arms_differ_only_where_they_can_change(
    call: Call, tmp_path: Path, settings: dict[str, Any], refused: bool
) -> None:
    for name, arms in (("1", ["red", "blue"]), ("2", ["blue", "red"])):
        bandit = TABLES["bandits"]["button"] | settings | {"arms": arms}
        told = {"node": TABLES["node"] | {"id": f"agent-{name}"}, "bandits": {"button": bandit}}
        (tmp_path / name).write_text(write_config(TABLES | told))
    outcome = call("agent", "--check", "--insecure", str(tmp_path / "1"), str(tmp_path / "2"))
    sentence = "[bandits.button] arms is ['blue', 'red'], but"
    assert (sentence in outcome.err) == refused


def test_certs(call: Call, tmp_path: Path) -> None:
    folder, out = tmp_path / "authority", tmp_path / "out"
    outcome = call("certs", "init", str(folder))
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == f"written: {folder}/ca.pem\nwritten: {folder}/ca-key.pem\n"
    assert "exists" in refused(call("certs", "init", str(folder)))
    assert call("certs", "init", str(folder), "--force", "--days", "400").status == 0

    assert call("certs", "issue", str(folder), "shop-1", "shop-2", "--out", str(out)).status == 0
    names = ["ca.pem", "shop-1-key.pem", "shop-1.pem", "shop-2-key.pem", "shop-2.pem"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert "'Shop'" in refused(call("certs", "issue", str(folder), "Shop"))

    files = {"ca": "ca.pem", "certificate": "shop-1.pem", "key": "shop-1-key.pem"}
    path = out / "node.toml"
    node = TABLES["node"] | {"listen": "127.0.0.1:0"}
    path.write_text(write_config(TABLES | {"tls": files, "node": node}))
    outcome = call("agent", "--check", str(path))
    assert (outcome.status, outcome.err) == (0, "")
    assert "mutual TLS" in outcome.out


def test_certs_renew(call: Call, tmp_path: Path) -> None:
    call("certs", "init", str(tmp_path))
    call("certs", "issue", str(tmp_path), "shop-1", "--days", "40")
    call("certs", "issue", str(tmp_path), "shop-2", "--days", "20")
    renew = ("certs", "renew", str(tmp_path))
    assert call(*renew, "--within-days", "10").out == "nothing had to be written\n"
    assert call(*renew).out == f"written: {tmp_path}/shop-2.pem\n"
    assert call(*renew).out == "nothing had to be written\n"
    everything = call(*renew, "--all", "--days", "50").out
    assert everything == f"written: {tmp_path}/shop-1.pem\nwritten: {tmp_path}/shop-2.pem\n"


def test_certs_renew_fails_where_it_skipped_a_file(call: Call, tmp_path: Path) -> None:
    call("certs", "init", str(tmp_path))
    call("certs", "issue", str(tmp_path), "shop-1", "--days", "20")
    (tmp_path / "shop-0.pem").write_text("cut off")
    sentence = refused(call("certs", "renew", str(tmp_path)))
    assert "shop-0.pem" in sentence
    (tmp_path / "shop-0.pem").unlink()
    assert call("certs", "renew", str(tmp_path)).out == "nothing had to be written\n"


def test_options_have_the_defaults_of_what_they_set() -> None:
    defaults = {
        (name, parameter.name): parameter.default
        for name, command in load("certs").commands.items()
        for parameter in command.params
    }
    assert defaults["init", "days"] == certs.AUTHORITY_DAYS
    assert defaults["issue", "days"] == defaults["renew", "days"] == certs.NODE_DAYS
    assert defaults["renew", "within_days"] == certs.RENEW_WITHIN_DAYS


def test_without_the_extra(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "coopbandits.fleet.identity.certs")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    sentence = refused(call("certs", "init", str(tmp_path)))
    assert sentence.startswith("error: cryptography is not installed; ")
    assert sentence.endswith("pip install 'coopbandits[fleet]'")


# Local fleets


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Settings, Path | None]]:
    """Collect what would be played; how it ends follows from the seed."""
    found: list[tuple[Settings, Path | None]] = []

    def play(
        settings: Settings, out: Path | None, console: Console, beside: run.Beside | None
    ) -> Outcome:
        found.append((settings, out))
        beside_of.append(beside)
        if settings.seed == 2:
            raise FleetError("agent a00 ended")
        if settings.seed == 3:
            raise KeyboardInterrupt
        holds = settings.seed != 1
        return Outcome("the table", "what it says", holds, interrupted=settings.seed == 4)

    monkeypatch.setattr(run, "play", play)
    return found


beside_of: list[run.Beside | None] = []


@pytest.mark.usefixtures("played")
def test_a_fleet_with_a_page_beside_it(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("fleet", "--graph", "cycle:4").status == 0
    assert beside_of.pop() is None
    assert call("fleet", "--graph", "cycle:4", "--dashboard").status == 0
    beside = beside_of.pop()
    assert beside is not None

    async def show() -> None:
        async with beside(["127.0.0.1:1"]):
            pass

    capsys.readouterr()
    asyncio.run(show())
    assert "the page is at http://127.0.0.1:" in capsys.readouterr().out


def test_fleet(call: Call, played: list[tuple[Settings, Path | None]], tmp_path: Path) -> None:
    outcome = call("fleet", "--graph", "cycle:4", "--out", str(tmp_path), "--kill-every", "500ms",
                   "--pause", "2", "--partition", "3s", "--rounds", "100", "--uvloop")  # fmt: skip
    assert outcome == (0, "the table\n", "")
    ((settings, out),) = played
    assert out == tmp_path
    assert settings.network.description == "cycle:4"
    assert (settings.seconds, settings.kill_every, settings.pause) == (5.0, 0.5, 2.0)
    assert (settings.partition, settings.uvloop, settings.seed) == (3.0, True, 0)
    assert call("fleet", "--graph", "path:2", "--seconds", "1.5").status == 0
    assert played[1][0].seconds == 1.5
    assert played[1][1] is None


@pytest.mark.parametrize(
    ("seed", "status", "out", "err"),
    [
        ("1", 1, "the table\n", "conservation: what it says\n"),
        ("2", 1, "", "agent a00 ended\n"),
        ("3", 130, "", "interrupted: all agents were stopped\n"),
        ("4", 130, "the table\n", ""),
    ],
)
@pytest.mark.usefixtures("played")
def test_fleet_that_fails(call: Call, seed: str, status: int, out: str, err: str) -> None:
    assert call("fleet", "--graph", "path:2", "--seed", seed) == (status, out, err)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--kill-every", "often"), "got 'often'"),
        (("--graph", "cycle:100"), "at most 64"),
        (("--policy", "central-ts"), "cannot run in a fleet"),
        (("--means", "3,2"), "means 3,2 must be probabilities, in [0, 1]"),
    ],
)
def test_fleet_refused(
    call: Call,
    played: list[tuple[Settings, Path | None]],
    options: tuple[str, ...],
    sentence: str,
) -> None:
    assert sentence in refused(call("fleet", "--graph", "cycle:4", *options))
    assert played == []
