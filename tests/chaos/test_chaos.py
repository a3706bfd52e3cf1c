"""Eight real agents, each with a network namespace and a disk of its own, and all that goes wrong.

Every reward that an agent acknowledged to its application must be counted exactly once at the end.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.fleet.local.audit import Verdict, add_up, judge
from coopbandits.fleet.local.ending import Ending
from coopbandits.fleet.local.layout import Place, names, write_configs
from coopbandits.fleet.local.members import Members
from coopbandits.fleet.local.players import Player, Tape
from coopbandits.fleet.local.settings import Settings, make_settings
from coopbandits.fleet.local.trouble import Dice

from .actions import Chaos, available
from .hosts import Host, hosts, obstacle, tiny_disk

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
            host.wrap,
        )
        for host, node in zip(machines, ids, strict=True)
    ]  # fmt: skip


async def disturb(chaos: Chaos, ending: Ending) -> None:
    """Do one thing after the other, as the dice fall."""
    while not await ending.within(REST):
        what = chaos.dice.pick(sorted(chaos.actions))
        await chaos.actions[what](chaos)
        chaos.counts[what] = chaos.counts.get(what, 0) + 1


async def settle(settings: Settings, members: Members, players: list[Player]) -> Verdict:
    """Return the verdict once it holds, or after `SETTLED` seconds."""
    acknowledged = add_up((each for player in players for each in player.rewards), 3)
    deadline = time.monotonic() + SETTLED
    while True:
        arms, health = await members.ask("arms"), await members.ask("health")
        best = (settings.problem.gaps == 0.0).tolist()
        verdict = judge(settings.policy, best, acknowledged, arms, health)
        if verdict.holds or time.monotonic() > deadline:
            return verdict
        await asyncio.sleep(0.5)


async def play(
    settings: Settings, places: list[Place], machines: list[Host], certificates: Path
) -> tuple[Chaos, list[Player], Verdict]:
    async with Members(places) as members:
        chaos = Chaos(members, machines, certificates, Dice(settings.seed, 7), available())
        players = [
            Player(place, Tape(settings.problem, settings.seed, agent), settings.pulls_per_second)
            for agent, place in enumerate(places)
        ]
        ending = Ending()
        async with asyncio.TaskGroup() as group:
            for player in players:
                group.create_task(player.play(ending))
            trouble = group.create_task(disturb(chaos, ending))
            await ending.within(settings.seconds)
            ending.set()
            await trouble
        return chaos, players, await settle(settings, members, players)


@pytest.mark.parametrize("policy", ["flood-ts"])
def test_nothing_acknowledged_is_lost(policy: str, folder: Path) -> None:
    if reason := obstacle():
        pytest.skip(f"{reason}; run as root on Linux with iproute2")
    settings = make_settings("cycle:8", "0.8,0.5,0.5", policy=policy, seconds=SECONDS)
    with ExitStack() as stack:
        machines = stack.enter_context(hosts(settings.network.num_agents))
        places = places_in(folder, settings, machines)
        for place in places:
            stack.enter_context(tiny_disk(place.folder / "journal", DISK))
        write_configs(places, settings, {})
        chaos, players, verdict = asyncio.run(
            play(settings, places, machines, folder / "certificates")
        )
    rewards = sum(len(player.rewards) for player in players)
    print(f"\n{policy}: {rewards} rewards acknowledged in {SECONDS:g} s")
    for what, times in sorted(chaos.counts.items()):
        print(f"{times:5d} × {what}")
    print(
        f"largest difference {float(verdict.differences.max()):g}; {verdict.problem or 'all agree'}"
    )
    assert not chaos.complaints
    assert verdict.holds, verdict.farthest
    assert verdict.best_found == len(places)
