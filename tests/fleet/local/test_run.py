"""Whole runs of a local fleet: outcome, progress and summary."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from coopbandits import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.client import AsyncClient
from coopbandits.fleet.local import agents
from coopbandits.fleet.local.agents import BANDIT, FleetError, Members, Place, names
from coopbandits.fleet.local.applications import Ending, Player, Reward, Tape, Verdict
from coopbandits.fleet.local.faults import Cuts
from coopbandits.fleet.local.run import (
    LINE_SECONDS,
    LocalFleet,
    Screen,
    opened,
    perform,
    play,
    settle,
    summary_data,
    summary_text,
)
from coopbandits.fleet.local.settings import Settings, make_settings

from .processes import agents_in


def logged(folder: Path, num_arms: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return what the clients' logs say, reward sums and pulls; no ticket may occur twice."""
    total, tickets = np.zeros(2 * num_arms), []
    for log in folder.glob("*/client.jsonl"):
        for line in map(json.loads, log.read_text().splitlines()):
            total[line["arm"]] += line["reward"]
            total[num_arms + line["arm"]] += 1
            tickets.append(line["ticket"])
    assert len(set(tickets)) == len(tickets)
    return total


def require_counted_once(found: Verdict, folder: Path) -> None:
    """Compare every account with the clients' logs on disk."""
    expected = logged(folder, found.acknowledged.size // 2)
    assert expected.sum() > 0
    assert found.accounts
    for whose, account in found.accounts.items():
        assert account == pytest.approx(expected, rel=1e-9, abs=1e-9), whose
    assert found.holds


async def kill_some(stage: LocalFleet, ending: Ending, most: int) -> None:
    """Kill agents in turn while all applications go on, and start them again."""
    try:
        for member in stage.members.all[:most]:
            await asyncio.sleep(0.2)
            await member.kill()
            await stage.members.restart(member)
    finally:
        ending.set()


async def through_kills(settings: Settings, folder: Path, most: int = 8) -> Verdict:
    ending = Ending()
    async with opened(settings, folder) as stage:
        async with asyncio.TaskGroup() as group:
            group.create_task(kill_some(stage, ending, most))
            await perform(stage, ending)
        found = await settle(stage)
    assert [member.kills for member in stage.members.all] == [
        int(number < most) for number in range(len(stage.players))
    ]
    assert all(player.pulls.sum() > 0 for player in stage.players)
    return found


@pytest.mark.slow
def test_eight_agents_learn_the_best_arm(tmp_path: Path) -> None:
    settings = make_settings("cycle:8", "0.9,0.4,0.3", seconds=4.0)
    told: list[str] = []

    @asynccontextmanager
    async def beside(addresses: list[str]) -> AsyncIterator[None]:
        async with AsyncClient(addresses[7]) as client:
            told.append((await client.state())["id"])
            yield
            told.append((await client.state())["prefers"])

    outcome = play(settings, tmp_path / "fleet", beside=beside)
    assert told == ["a07", "arm-0"]
    assert outcome.holds, outcome.text
    assert not outcome.interrupted
    assert "best arm found by  8 of 8 agents" in outcome.text
    found = json.loads((tmp_path / "fleet" / "summary.json").read_text())
    assert found["best_found"] == found["answering"] == 8
    assert found["settings"]["seed"] == 0
    expected = logged(tmp_path / "fleet", 3)
    assert found["acknowledged"] == pytest.approx(expected.tolist())
    for who in found["agents"]:
        assert found["held"][who] == pytest.approx(expected.tolist(), rel=1e-9)
    # All agents explore together: alone, each would play the two bad arms many times.
    assert expected[3] / expected[3:].sum() > 0.8
    assert agents_in(tmp_path) == []


@pytest.mark.parametrize(
    ("graph", "policy", "most"),
    [
        ("path:2", "flood-ts", 1),
        pytest.param("path:3", "flood-ts", 3, marks=pytest.mark.slow),
        pytest.param("path:3", "tree-ts", 3, marks=pytest.mark.slow),
    ],
)
def test_kills_lose_nothing(tmp_path: Path, graph: str, policy: str, most: int) -> None:
    settings = make_settings(graph, "0.6,0.5", policy=policy, seconds=120.0)
    require_counted_once(asyncio.run(through_kills(settings, tmp_path, most)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["flood-ts", "tree-ucb", "flood-ucb", "ledger-ts", "gossip-ts"])
def test_kills_of_eight_lose_nothing(tmp_path: Path, policy: str) -> None:
    settings = make_settings("grid:2x4", "0.6,0.5x3", policy=policy, seconds=240.0)
    require_counted_once(asyncio.run(through_kills(settings, tmp_path)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["dducb", "dec-ts", "coop-ucb2:gamma=1.01"])
def test_kills_lose_nothing_of_a_synchronous_policy(tmp_path: Path, policy: str) -> None:
    settings = make_settings("cycle:4", "1,0.5", sigma=1.0, policy=policy, seconds=120.0)
    require_counted_once(asyncio.run(through_kills(settings, tmp_path)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "dec-ts"])
def test_pauses_and_partitions_lose_nothing(tmp_path: Path, policy: str) -> None:
    settings = make_settings(
        "cycle:6", "0.6,0.5", policy=policy, seconds=30.0, pause=3.0, partition=7.0, kill_every=4.0
    )
    outcome = play(settings, tmp_path / "fleet")
    assert outcome.holds, outcome.text
    found = json.loads((tmp_path / "fleet" / "summary.json").read_text())
    assert found["partitions"] == 2
    assert sum(agent["pauses"] for agent in found["agents"].values()) >= 2
    assert sum(agent["kills"] for agent in found["agents"].values()) >= 2
    assert found["acknowledged"] == pytest.approx(logged(tmp_path / "fleet", 2).tolist())


@pytest.mark.slow
def test_twelve_agents_with_a_ledger_count_every_reward_once(tmp_path: Path) -> None:
    """Through kills, pauses and partitions; everybody also tells where pulls are."""
    settings = make_settings(
        "regular:3,12,seed=1", "0.6,0.5", policy="ledger-ts", seconds=45.0, pulls_per_second=5.0,
        pause=4.0, partition=8.0, kill_every=5.0,
    )  # fmt: skip
    moving: list[dict[str, float]] = []

    @asynccontextmanager
    async def beside(addresses: list[str]) -> AsyncIterator[None]:
        yield
        for address in addresses:
            async with AsyncClient(address) as client:
                moving.append((await client.health())["bandits"][BANDIT]["moving"])

    outcome = play(settings, tmp_path / "fleet", beside=beside)
    assert outcome.holds, outcome.text
    found = json.loads((tmp_path / "fleet" / "summary.json").read_text())
    expected = logged(tmp_path / "fleet", 2)
    assert found["acknowledged"] == pytest.approx(expected.tolist())
    assert found["partitions"] >= 2
    assert sum(agent["pauses"] for agent in found["agents"].values()) >= 2
    assert sum(agent["kills"] for agent in found["agents"].values()) >= 3
    assert len(moving) == 12
    assert all(0 < each["collected"] <= expected[2:].sum() for each in moving)


# The command


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "coopbandits", "fleet", *arguments]


@pytest.mark.slow
def test_command_with_kills(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        command("--graph", "path:3", "--seconds", "3s", "--kill-every", "500ms", "--out", str(out)),
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"conservation +holds: [1-9]", done.stdout)
    assert re.search(r"trouble +kills [1-9]", done.stdout)
    assert {path.name for path in out.iterdir()} == {
        *("a00", "a01", "a02", "certificates", "summary.json")
    }
    assert agents_in(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("signals", [1, 2])
def test_command_is_interrupted(tmp_path: Path, signals: int) -> None:
    """One signal brings the summary so far; a second one ends everything at once."""
    out = tmp_path / "out"
    arguments = command("--graph", "path:3", "--seconds", "600", "--pause", "1s", "--out", str(out))
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        deadline = time.monotonic() + 90.0
        while not list(out.glob("*/client.jsonl")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        if signals == 2:
            for pid in agents_in(out):
                if pid != running.pid:
                    os.kill(pid, signal.SIGSTOP)  # so that the first signal waits for long
        for _ in range(signals):
            running.send_signal(signal.SIGINT)
            time.sleep(0.2)
        text, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert ("conservation" in text) == (signals == 1)
    assert ("interrupted: all agents were stopped" in errors) == (signals == 2)
    assert agents_in(tmp_path) == []


# What goes wrong


def test_an_agent_that_does_not_start_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = [sys.executable, "-S", "-c", "print('no room'); raise SystemExit(3)"]
    monkeypatch.setattr(agents, "COMMAND", program)
    settings = make_settings("path:2", "0.6,0.5", seconds=1.0)
    sentence = r"a0[01] .* 3\b.*no room"
    with pytest.raises(FleetError, match=sentence):
        play(settings, tmp_path / "fleet")
    assert agents_in(tmp_path) == []


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(InputError, match="not empty"):
        play(make_settings("path:2", "0.6,0.5"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.slow
def test_an_agent_that_ends_by_itself_ends_the_play(tmp_path: Path) -> None:
    async def lose_one(settings: Settings) -> None:
        async with opened(settings, tmp_path) as stage:
            os.kill(stage.members.all[1].pid, signal.SIGTERM)
            async with asyncio.timeout(90):
                while True:
                    stage.members.all[1].require_alive()
                    await asyncio.sleep(0.05)

    with pytest.raises(FleetError, match=r"a01 .* 0\b"):
        asyncio.run(lose_one(make_settings("path:2", "0.6,0.5")))
    assert agents_in(tmp_path) == []


@pytest.fixture
def stage(tmp_path: Path) -> LocalFleet:
    """Return a stage on which nothing runs, as if two of three agents had been played."""
    settings = make_settings("path:3", "0.6,0.5", kill_every=1.0, pause=1.0, partition=1.0)
    places = [Place(name, tmp_path, Address("127.0.0.1", 0), "unix:none") for name in names(3)]
    players = [Player(place, Tape(settings.problem, 0, 0), 1.0) for place in places]
    for player, arm in [(0, 0), (0, 0), (0, 1), (1, 1)]:
        players[player].record(Reward("1", arm, 0.5, arm == 1))
    members = Members(places)
    members.all[0].state, members.all[1].state = "up", "paused"
    members.all[1].pauses, members.all[0].kills = 1, 12
    members.all[0].readiness = [0.5, 0.75, 1.25]
    health = {"round": 1234, "links": {"a01": "up", "a02": "down: gone"}, "open_tickets": 7}
    return LocalFleet(settings, members, players, Cuts([]), {"a00": health})


def shown(stage: LocalFleet, *, terminal: bool) -> str:
    """Return what a screen writes when it is looked at once."""
    console = Console(width=80, height=24, force_terminal=terminal, file=io.StringIO())
    with Screen(console, stage) as screen:
        screen.show()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_table_on_a_terminal(stage: LocalFleet) -> None:
    stage.began -= 3.0
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown(stage, terminal=True))
    lines = [line for line in re.split(r"[\r\n]+", text) if line]
    line = "regret 0.2 · best arm 50% · kills 12 · pauses 1 · partitions 0 · 17 s left"
    assert lines[0] == line
    rows = [line.split() for line in lines[1:5]]
    assert rows[0] == [
        "agent",
        "state",
        "round",
        "links",
        "pulls",
        "best",
        "arm",
        "open",
        "tickets",
    ]
    assert rows[1] == ["a00", "up", "1,234", "1/2", "3", "67%", "7"]
    assert rows[2] == ["a01", "paused", "–", "–", "1", "0%", "–"]
    assert rows[3] == ["a02", "dead", "–", "–", "0", "0%", "–"]


def test_lines_without_a_terminal(stage: LocalFleet) -> None:
    assert shown(stage, terminal=False) == ""
    stage.began -= LINE_SECONDS
    (line,) = shown(stage, terminal=False).splitlines()
    assert "1 of 3 up · round 1,234 · pulls 4 · regret 0.2 · best arm 50% · kills 12" in line
    stage.began -= 60.0
    (line,) = shown(stage, terminal=False).splitlines()
    assert line.endswith("waiting until all agents know all")


def test_summary(stage: LocalFleet) -> None:
    account = np.array([1.0, 1.0, 2.0, 2.0])
    verdict = Verdict(account, account, {"a00": account}, account, "", 2, 3)
    text = summary_text(stage, verdict, 20.0)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.startswith("path:3, flood-ts, 20.0 s, seed 0\n")
    for line in (
        "holds: 4 rewards acknowledged, each counted exactly once",
        "best arm found by  2 of 3 agents",
        "regret             0.2; 50% of 4 pulls were best",
        "trouble            kills 12, pauses 1, partitions 0",
        "answers lost       2",
        "longest restart    1.25 s until ready",
    ):
        assert line in text
    plain = summary_data(stage, verdict, 20.0)
    assert json.loads(json.dumps(plain)) == plain
    assert plain["agents"]["a00"]["kills"] == 12
