"""Eight real agents, each with a network namespace and a disk of its own, and all that goes wrong.

Every reward that an agent acknowledged to its application must be counted exactly once at the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.fleet.local.agents import Members, Place, names, write_configs
from coopbandits.fleet.local.applications import (
    Ending,
    Player,
    Reward,
    Tape,
    Verdict,
    add_up,
    judge,
)
from coopbandits.fleet.local.faults import Dice
from coopbandits.fleet.local.settings import Settings, make_settings

from . import clocks
from .actions import CLOCK, JOURNAL, REVOKED, Chaos, available
from .hosts import Host, hosts, obstacle, tiny_disk
from .relays import Relays

SECONDS = float(os.environ.get("COOPBANDITS_CHAOS_SECONDS", "600"))
SETTLED = 60.0
"""All accounts must agree this long after the last trouble."""

REST = 1.0
DISK = "16m"

pytestmark = pytest.mark.chaos


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cb-") as made:  # short: sockets have short paths
        yield Path(made)


def places_in(folder: Path, settings: Settings, machines: list[Host]) -> list[Place]:
    ids = names(settings.network.num_agents)
    certificates = folder / "certificates"
    init_authority(certificates)
    issue(certificates, ids)
    return [
        Place(
            node, folder / node, Address(host.address, 7400), f"unix:{folder / node / 'api.sock'}",
            (*host.wrap, *clocks.wrap(folder / node / CLOCK)),
        )
        for host, node in zip(machines, ids, strict=True)
    ]  # fmt: skip


class Played(NamedTuple):
    """What was done, and what came of it."""

    chaos: Chaos
    players: list[Player]
    rewards: list[Reward]
    verdict: Verdict


async def disturb(chaos: Chaos, ending: Ending) -> None:
    """Do one thing after the other, in a new order each time all were done."""
    left: list[str] = []
    while not await ending.within(REST):
        left = left or sorted(chaos.actions)
        what = left.pop(chaos.dice.word() % len(left))
        await chaos.actions[what](chaos)
        chaos.counts[what] = chaos.counts.get(what, 0) + 1


def write_own_configs(places: list[Place], settings: Settings, relays: Relays) -> None:
    """Write configurations with a journal on the agent's own disk, and a list of the revoked."""
    by_id = dict(zip((place.id for place in places), relays.all, strict=True))
    pairs = [(one.id, other.id) for one in places for other in places]
    write_configs(places, settings, {pair: by_id[pair[1]].address for pair in pairs})
    for place in places:
        text = place.config.read_text()
        named = f'journal = "{JOURNAL}"\nrevoked = "../{REVOKED}"'
        assert 'journal = "journal"' in text
        place.config.write_text(text.replace('journal = "journal"', named))


def logged(players: list[Player]) -> list[Reward]:
    """Return what applications have logged as acknowledged, and refuse a ticket that came twice."""
    lines = [line for each in players for line in each.log.read_text().splitlines()]
    found = [Reward(**json.loads(line)) for line in lines]
    often = [name for name, times in Counter(each.ticket for each in found).items() if times > 1]
    assert not often, f"tickets that were given twice: {often[:5]}"
    return found


async def settle(settings: Settings, members: Members, rewards: list[Reward]) -> Verdict:
    """Return the verdict once it holds, or after `SETTLED` seconds."""
    acknowledged = add_up(rewards, 3)
    deadline = time.monotonic() + SETTLED
    while True:
        arms, health = await members.ask("arms"), await members.ask("health")
        best = (settings.problem.gaps == 0.0).tolist()
        verdict = judge(settings.policy, best, acknowledged, arms, health)
        if verdict.holds or time.monotonic() > deadline:
            return verdict
        await asyncio.sleep(0.5)


async def play(
    settings: Settings, places: list[Place], machines: list[Host], folder: Path
) -> Played:
    async with Relays(machines, places) as relays:
        write_own_configs(places, settings, relays)
        async with Members(places) as members:
            chaos = Chaos(members, machines, relays, folder, Dice(settings.seed, 7), available())
            players = [
                Player(
                    place._replace(api=f"unix:{relays.counters[at].path}"),
                    Tape(settings.problem, settings.seed, at), settings.pulls_per_second,
                )
                for at, place in enumerate(places)
            ]  # fmt: skip
            ending = Ending()
            async with asyncio.TaskGroup() as group:
                for player in players:
                    group.create_task(player.play(ending))
                trouble = group.create_task(disturb(chaos, ending))
                await ending.within(settings.seconds)
                ending.set()
                await trouble
            rewards = logged(players)
            return Played(chaos, players, rewards, await settle(settings, members, rewards))


def show(played: Played) -> None:
    """Print what was done how often, and what was counted."""
    chaos, players, rewards, verdict = played
    retries = sum(player.retries for player in players)
    repeated = sum(reward.duplicate for reward in rewards)
    print(f"\n{SECONDS:g} s, {len(players)} agents\n\n| what was done | times |\n|---|---:|")
    for what in sorted(chaos.actions):
        print(f"| {what} | {chaos.counts.get(what, 0)} |")
    pulls = float(verdict.own[len(verdict.own) // 2 :].sum())
    print("\n| what was counted | |\n|---|---:|")
    print(f"| rewards acknowledged to applications | {len(rewards)} |")
    print(f"| rewards counted by agents | {pulls:.0f} |")
    print(f"| calls that were made again | {retries} |")
    print(f"| rewards whose first answer was lost | {repeated} |")
    print(f"| largest difference of any agent's totals | {float(verdict.differences.max()):g} |")
    print(f"| agents that prefer the best arm | {verdict.best_found} of {len(players)} |")
    print(verdict.problem or "all accounts agree" if verdict.holds else f"NOT: {verdict.farthest}")


@pytest.mark.parametrize("policy", ["flood-ts"])
def test_nothing_acknowledged_is_lost(policy: str, folder: Path) -> None:
    if reason := obstacle():
        pytest.skip(f"{reason}; run as root on Linux with iproute2")
    settings = make_settings("cycle:8", "0.8,0.5,0.5", policy=policy, seconds=SECONDS)
    with ExitStack() as stack:
        machines = stack.enter_context(hosts(settings.network.num_agents))
        places = places_in(folder, settings, machines)
        (folder / REVOKED).write_text("")
        for place in places:
            stack.enter_context(tiny_disk((place.folder / JOURNAL).parent, DISK))
        played = asyncio.run(play(settings, places, machines, folder))
    show(played)
    assert not played.chaos.complaints
    assert played.verdict.holds, played.verdict.farthest
    assert played.verdict.best_found == len(places)
    lost = any(reward.duplicate for reward in played.rewards)
    assert lost == ("lose answers" in played.chaos.counts)
