"""Eight real agents whose best option depends on the request, and switches; some are killed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.local.audit import add_up, estimate_account, own_account
from coopbandits.fleet.local.layout import names, reserved, write_tables
from coopbandits.fleet.local.members import Members
from coopbandits.fleet.local.players import Reward
from coopbandits.fleet.service import Choice, UnavailableError
from coopbandits.network import Network

ARMS = ("blue", "green")
COUNTRIES = ("PT", "ES")
BEFORE, AFTER = 8, 40
"""Requests of each agent: all that was learned before the switch still counts."""

CLUSTER: dict[str, Any] = {
    "name": "eight",
    "arms": list(ARMS),
    "policy": "flooded-totals*lin-ts:disjoint=true",
    "reward_range": [0.0, 1.0],
    "sigma": 0.4,
    "features": {"country": list(COUNTRIES), "load": [0, 10]},
}


def paid(context: dict[str, Any], arm: str, switched: bool) -> float:
    """Blue is best in Portugal and green in Spain; after the switch the other way round."""
    home = (context["country"] == "PT") == (arm == "blue")
    return (0.8 if home != switched else 0.1) + 0.01 * context["load"]


class Application:
    """One agent's: it repeats what is not answered, and remembers what was acknowledged."""

    def __init__(self, api: str, number: int) -> None:
        self.client, self.number = AsyncClient(api, timeout=1.0), number
        self.rewards: list[Reward] = []
        self.played: list[bool] = []  # whether the best one was

    async def serve(self, requests: int, switched: bool) -> None:
        for each in range(requests):
            at = each + self.number
            context: dict[str, Any] = {"country": COUNTRIES[at % 2], "load": at * 7 % 11}
            choice: Choice = await self._insist(lambda told=context: self.client.choose(None, told))
            reward = paid(context, choice.arm, switched)
            receipt = await self._insist(
                lambda ticket=choice.ticket, value=reward: self.client.observe(ticket, value)
            )
            arm = ARMS.index(choice.arm)
            self.rewards.append(Reward(choice.ticket, arm, receipt.reward, receipt.duplicate))
            self.played.append(reward > 0.5)

    async def _insist(self, call: Any) -> Any:
        for _ in range(600):
            try:
                return await call()
            except (UnreachableError, UnavailableError):
                await asyncio.sleep(0.05)
        raise AssertionError("an agent stayed away")


async def kill_in_turn(members: Members, who: list[int]) -> None:
    for at in who:
        await asyncio.sleep(0.3)
        await members.all[at].kill()
        await members.restart(members.all[at])


async def play(folder: Path) -> None:
    network = Network.from_spec("cycle:8", weights="metropolis")
    cluster = {**CLUSTER, "epoch": datetime.now(UTC).replace(microsecond=0)}
    with reserved(folder, names(8)) as places:
        write_tables(places, network, cluster, {})
        async with Members(places) as members:
            apps = [Application(place.api, number) for number, place in enumerate(places)]
            await phase(members, apps, BEFORE, switched=False, killed=[1, 5])
            await known_to_all(apps)
            await believe(apps, switched=False)
            await phase(members, apps, AFTER, switched=True, killed=[2, 6])
            await known_to_all(apps)
            await believe(apps, switched=True)
            late = [won for app in apps for won in app.played[-10:]]
            assert np.mean(late) > 0.8
            assert sum(member.kills for member in members.all) == 4
            for app in apps:
                await app.client.close()


async def phase(
    members: Members, apps: list[Application], requests: int, *, switched: bool, killed: list[int]
) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(kill_in_turn(members, killed))
        for app in apps:
            group.create_task(app.serve(requests, switched))


async def known_to_all(apps: list[Application]) -> None:
    """Every acknowledged reward is counted once, by its own agent and by all others."""
    total, scale = add_up((each for app in apps for each in app.rewards), len(ARMS))
    for _ in range(300):
        answers = [await app.client.arms() for app in apps]
        own = np.sum([own_account(arms) for arms in answers], axis=0)
        accounts = [own, *map(estimate_account, answers)]
        if all((abs(each - total) <= 1e-9 * scale).all() for each in accounts):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{[each.tolist() for each in accounts]} instead of {total.tolist()}")


async def believe(apps: list[Application], *, switched: bool) -> None:
    for app in apps:
        for country in COUNTRIES:
            context: dict[str, Any] = {"country": country, "load": 5}
            arms = await app.client.arms(context)
            best = max(arms, key=lambda arm: arm.mean or 0.0).arm
            assert best == max(ARMS, key=lambda arm: paid(context, arm, switched))


@pytest.mark.plays
def test_eight_agents_learn_what_is_best_for_whom_and_that_it_switched(tmp_path: Path) -> None:
    asyncio.run(play(tmp_path / "fleet"))
