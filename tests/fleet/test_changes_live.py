"""A fleet of real processes that is changed in every way at once, under load and kills."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coopbandits.cli import app
from coopbandits.fleet.config import write_config
from coopbandits.fleet.document.seal import sign_file
from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.fleet.identity.operators import key_text, make_key
from coopbandits.fleet.local.faults import Dice

from .applications import Application, totals
from .process.agents import PATIENCE, Agent
from .transport.nodes import places

NAMES = [f"shop-{number}" for number in range(1, 10)]
LATE, DRAINED, REVOKED = NAMES[8], NAMES[6], NAMES[7]

BUTTON: dict[str, Any] = {"arms": ["red", "green"], "reward_range": [0.0, 1.0]}
BANNER: dict[str, Any] = {"arms": ["a", "b", "c"], "sigma": 0.5, "policy": "flood-ucb"}
SEARCH: dict[str, Any] = {
    "arms": ["old", "new"],
    "reward_range": [0.0, 1.0],
    "features": {"hour": [0, 24]},
}
BEGINNING = {"button": BUTTON, "banner": BANNER, "search": SEARCH}
ADDED = BEGINNING | {"button": BUTTON | {"arms": ["red", "green", "blue"]}}
REMOVED = ADDED | {"banner": BANNER | {"arms": ["a", "c"]}}
CONTEXTS: dict[str, Callable[[int], Any] | None] = {
    "button": None,
    "banner": None,
    "search": lambda word: {"hour": word % 25},
}

EVERY, TURNS = 4.0, 11
"""Seconds from one pair of kills to the next, and how many pairs there are."""

Totals = dict[tuple[str, str], tuple[int, float]]


class Fleet:
    """Agents that know where the first one listens and nothing else, and their applications.

    Parameters
    ----------
    folder : Path
        Holds all files.
    listen : dict of str to str
        Where every agent listens.
    bandits : dict of str to table
        What their files declare.
    """

    def __init__(
        self, folder: Path, listen: dict[str, str], bandits: dict[str, Any] = BEGINNING
    ) -> None:
        self.names, first = list(listen), next(iter(listen))
        self.contexts = {name: CONTEXTS[name] for name in bandits}
        self.folder, self.begun = folder, time.monotonic()
        self.key, self.dice = folder / "operator.key", Dice(1, 1)
        operator = key_text(make_key(self.key))
        init_authority(folder)
        issue(folder, self.names)
        self.agents: dict[str, Agent] = {}
        for name in self.names:
            agent = Agent(folder / name, name, listen[name], folder)
            agent.tables |= {
                "cluster": {
                    "name": "shop",
                    "epoch": datetime(2026, 1, 31, tzinfo=UTC),
                    "rounds_per_second": 5.0,
                },
                "bandits": bandits,
                "document": {"operators": [operator]},
            }
            agent.write(neighbors="auto", degree=3, seeds=[listen[first]])
            self.agents[name] = agent
        self.applications: dict[str, Application] = {}
        self.running: list[str] = []
        self.kills, self.version = 0, 0
        self.story: list[tuple[float, str]] = []

    def note(self, what: str) -> None:
        self.story.append((time.monotonic() - self.begun, what))

    def start(self, *names: str) -> None:
        """Start agents, those that were killed among them."""
        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(lambda name: self.agents[name].start(), names))
        for name in names:
            if name not in self.running:
                self.running.append(name)

    def use(self, *names: str) -> None:
        """Let an application use each of some agents."""
        for name in names:
            address = f"unix:{self.agents[name].folder / 'api'}"
            self.applications[name] = Application(address, self.contexts, self.names.index(name))
            self.applications[name].start()

    def kill_two(self, *wanted: str) -> None:
        """Kill two agents, those wanted first, and start them again."""
        victims = [*wanted]
        while len(victims) < 2:
            victims.append(self.dice.pick([each for each in self.running if each not in victims]))
        for name in victims:
            self.agents[name].kill()
        self.kills += 2
        self.note(f"killed {' and '.join(victims)}")
        self.start(*victims)

    def rule(self, what: str, bandits: dict[str, Any], *revoked: str) -> None:
        """Hand the next document to one agent, which is killed as soon as it has answered."""
        self.version += 1
        path, to = self.folder / "cluster.toml", self.dice.pick(self.running)
        head = {"name": "shop", "version": self.version, "revoked": list(revoked)}
        path.write_text(write_config({"cluster": head, "bandits": bandits}))
        sign_file(path, [self.key])
        app(
            ["cluster", "apply", str(path), "--to", f"unix:{self.agents[to].folder / 'api'}"],
            standalone_mode=False,
        )
        begun = time.monotonic()
        self.note(f"version {self.version} given to {to}: {what}")
        self.kill_two(to)
        self.until(lambda: set(self.versions()) == {self.version}, "not all have it")
        self.note(f"all have version {self.version}, {time.monotonic() - begun:.1f} s after that")

    def versions(self) -> list[int]:
        """Return who has which version, of those who are left."""
        found = []
        for name in self.running:
            with self.agents[name].client() as client:
                found.append(client.cluster()["version"])
        return found

    def learned(self, name: str, kind: str = "") -> Totals:
        """Return pulls and rewards of every pulled arm as an agent knows them, or its own."""
        with self.agents[name].client() as client:
            exported = client.export()["bandits"]
        found = {}
        for bandit, told in exported.items():
            for arm in told["arms"]:
                if kind == "own" and arm["own_pulls"]:
                    found[bandit, arm["arm"]] = arm["own_pulls"], arm["own_reward"]
                elif not kind and arm["pulls"]:
                    found[bandit, arm["arm"]] = arm["pulls"], arm["pulls"] * arm["mean"]
        return found

    def logs(self) -> str:
        return "\n".join(agent.told() for agent in self.agents.values())

    def until(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait until something is so; otherwise show all that is known."""
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                known = {name: self.learned(name) for name in self.running}
                story = [f"{at:5.1f} s  {what}" for at, what in self.story]
                pytest.fail("\n".join([self.logs(), *story, str(known), otherwise]))
            time.sleep(0.1)

    def end(self) -> None:
        """Leave nothing that runs."""
        for application in self.applications.values():
            application.stop()
        for agent in self.agents.values():
            agent.kill()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with places(*NAMES) as at:
        made = Fleet(tmp_path, {name: str(place) for name, place in at.items()})
        try:
            yield made
        finally:
            made.end()


def join(fleet: Fleet) -> None:
    """Start one more agent, which knows an address, and wait until it is up to date."""
    begun = time.monotonic()
    fleet.start(LATE)
    fleet.use(LATE)
    fleet.note(f"{LATE} joined by one address")
    fleet.until(lambda: set(fleet.versions()) == {fleet.version}, "it has no document")
    fleet.note(f"{LATE} has version {fleet.version}, {time.monotonic() - begun:.1f} s after that")


def drain(fleet: Fleet) -> None:
    with fleet.agents[DRAINED].client() as client:
        client.drain(8.0)
    fleet.running.remove(DRAINED)
    fleet.note(f"{DRAINED} drains")


def revoke(fleet: Fleet) -> None:
    fleet.running.remove(REVOKED)
    fleet.rule(f"{REVOKED} is revoked", REMOVED, REVOKED)


def same(found: Totals, expected: Totals) -> bool:
    """Whether pulls are equal, and rewards but for the rounding of means."""
    return found.keys() == expected.keys() and all(
        found[arm][0] == pulls and found[arm][1] == pytest.approx(rewards)
        for arm, (pulls, rewards) in expected.items()
    )


def show(fleet: Fleet, expected: Totals, settled: float) -> None:
    """Print what happened, and what was counted."""
    logs = {name: each.log for name, each in fleet.applications.items()}
    print()
    for at, what in fleet.story:
        print(f"{at:6.1f} s  {what}")
    print(f"\n{'agent':8}{'acknowledged':>13}{'again':>7}")
    for name, log in logs.items():
        print(f"{name:8}{len(log):13}{sum(each.duplicate for each in log):7}")
    print(f"\n{'bandit':8}{'arm':7}{'pulls':>7}{'rewards':>9}   counted alike by")
    for (bandit, arm), (pulls, rewards) in sorted(expected.items()):
        print(f"{bandit:8}{arm:7}{pulls:7}{rewards:9}   {len(fleet.running)} agents")
    print(
        f"\nkills: {fleet.kills}; rewards acknowledged: {sum(map(len, logs.values()))}, of them "
        f"{len(logs[REVOKED])} by {REVOKED}, which is revoked; version of all: {fleet.version}; "
        f"all alike {settled:.1f} s after the load"
    )


@pytest.mark.slow
def test_a_fleet_that_is_changed_and_killed_under_load_counts_every_reward_once(
    fleet: Fleet,
) -> None:
    """Three bandits, eight agents; only those that are killed are ever started again."""
    fleet.start(*NAMES[:8])
    fleet.begun = time.monotonic()
    fleet.use(*NAMES[:8])
    removed_everywhere = 0.0
    for turn in range(TURNS):
        due = time.monotonic() + EVERY
        if turn == 1:
            fleet.rule("an arm is added", ADDED)
        elif turn == 3:
            join(fleet)
        elif turn == 4:
            fleet.rule("an arm is removed", REMOVED)
            removed_everywhere = time.monotonic()
        elif turn == 6:
            drain(fleet)
        elif turn == 8:
            revoke(fleet)
        if turn not in (1, 4, 8):  # documents come with kills of their own
            fleet.kill_two()
        time.sleep(max(0.0, due - time.monotonic()))

    assert fleet.agents[DRAINED].end() == 0
    for application in fleet.applications.values():
        application.stop()
    for name, application in fleet.applications.items():
        application.join()
        assert application.failure is None, (name, application.failure)
        assert not application.owed, f"{name} acknowledged no more"

    ended = time.monotonic()
    others = [each for name, each in fleet.applications.items() if name != REVOKED]
    expected = totals(others)
    fleet.until(
        lambda: all(same(fleet.learned(name), expected) for name in fleet.running),
        f"not all count {expected}",
    )
    show(fleet, expected, time.monotonic() - ended)
    assert set(fleet.versions()) == {fleet.version} == {3}
    assert len(fleet.running) == 7
    assert same(fleet.learned(REVOKED, "own"), totals([fleet.applications[REVOKED]]))
    assert expected["button", "blue"][0] > 0
    assert expected["banner", "b"][0] > 0
    late = [each for one in others for each in one.choices if each.asked > removed_everywhere]
    assert not [each for each in late if (each.bandit, each.arm) == ("banner", "b")]
    assert "Traceback" not in fleet.logs()
