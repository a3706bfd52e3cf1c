"""Real agents whose best option depends on the request, and switches; some are killed.

They forget, so that what was best for as long as it is now the worst is learned anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.config import read_config
from coopbandits.fleet.local.agents import Members, Place, names, reserved, write_tables
from coopbandits.fleet.local.applications import Reward, add_up, estimate_account, own_account
from coopbandits.fleet.process.assemble import open_kept
from coopbandits.fleet.service import Choice, UnavailableError
from coopbandits.fleet.storage.disk import FileDisk
from coopbandits.network import Network

ARMS = ("blue", "green")
COUNTRIES = ("PT", "ES")


@dataclass(frozen=True)
class Story:
    """How many agents there are, how they forget, how long each half takes, and who is killed."""

    agents: int
    half_life: float
    halves: tuple[float, float]
    killed: tuple[Sequence[int], Sequence[int]]
    pause: float = 0.05

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        epoch = datetime.now(UTC).replace(microsecond=0)
        bandit = {
            "arms": list(ARMS),
            "policy": "flooded-totals*lin-ts:disjoint=true",
            "reward_range": [0.0, 1.0],
            "sigma": 0.4,
            "half_life": f"{self.half_life:g}s",
            "features": {"country": list(COUNTRIES), "load": [0, 10]},
        }
        return {"cluster": {"name": "story", "epoch": epoch}, "bandits": {"story": bandit}}


def paid(context: dict[str, Any], arm: str, switched: bool) -> float:
    """Blue is best in Portugal and green in Spain; after the switch the other way round."""
    home = (context["country"] == "PT") == (arm == "blue")
    return (0.8 if home != switched else 0.1) + 0.01 * float(context["load"])


class Application:
    """One agent's: it repeats what is not answered, and remembers what was acknowledged."""

    def __init__(self, api: str, number: int) -> None:
        self.client, self.number = AsyncClient(api, timeout=1.0, bandit="story"), number
        self.rewards: list[Reward] = []
        self.times: list[float] = []
        self.played: list[bool] = []  # whether the best one was

    async def serve(self, story: Story, switched: bool) -> None:
        end = time.monotonic() + story.halves[switched]
        while time.monotonic() < end:
            at = len(self.played) + self.number
            context: dict[str, Any] = {"country": COUNTRIES[at % 2], "load": at * 7 % 11}
            choice: Choice = await self._insist(lambda told=context: self.client.choose(None, told))
            reward = paid(context, choice.arm, switched)
            receipt = await self._insist(
                lambda ticket=choice.ticket, value=reward: self.client.observe(ticket, value)
            )
            arm = ARMS.index(choice.arm)
            self.rewards.append(Reward(choice.ticket, arm, receipt.reward, receipt.duplicate))
            self.times.append(time.monotonic())
            self.played.append(reward > 0.5)
            await asyncio.sleep(story.pause)

    async def _insist(self, call: Any) -> Any:
        for _ in range(600):
            try:
                return await call()
            except (UnreachableError, UnavailableError):
                await asyncio.sleep(0.05)
        raise AssertionError("an agent stayed away")


async def half(members: Members, apps: list[Application], story: Story, switched: bool) -> None:
    """Let applications ask while agents are killed in turn."""
    killed = story.killed[switched]
    async with asyncio.TaskGroup() as group:
        for app in apps:
            group.create_task(app.serve(story, switched))
        for at in killed:
            await asyncio.sleep(story.halves[switched] / (len(killed) + 2))
            await members.all[at].kill()
            await members.restart(members.all[at])


async def play(places: list[Place], story: Story) -> list[Application]:
    async with Members(places) as members:
        apps = [Application(place.api, number) for number, place in enumerate(places)]
        for switched in (False, True):
            await half(members, apps, story, switched)
            await known_to_all(apps, story)
            await believe(apps, switched)
        late = [won for app in apps for won in app.played[-10:]]
        assert np.mean(late) > 0.8
        assert sum(member.kills for member in members.all) == sum(map(len, story.killed))
        # Four times a second an agent signs what it tells, and news has a hop or more to go.
        await asyncio.sleep(0.5 * story.agents)
        for app in apps:
            await app.client.close()
    return apps


async def known_to_all(apps: list[Application], story: Story) -> None:
    """Wait until every agent counts every reward by its age, and its own ones exactly."""
    total, scale = add_up((each for app in apps for each in app.rewards), len(ARMS))
    for _ in range(100):
        answers = [await app.client.arms() for app in apps]
        own = np.sum([own_account(arms) for arms in answers], axis=0)
        assert (abs(own - total) <= 1e-9 * scale).all()
        found, want = np.array(list(map(estimate_account, answers))), by_age(apps, story)
        if np.allclose(found, found[0], rtol=0.02) and np.allclose(found, want, rtol=0.05):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{found.tolist()} instead of {want.tolist()}")


def by_age(apps: list[Application], story: Story) -> Any:
    """Return sums and pulls of all arms as they count now, by the applications' clocks."""
    total, now = np.zeros(2 * len(ARMS)), time.monotonic()
    for app in apps:
        for reward, then in zip(app.rewards, app.times, strict=True):
            weight = 0.5 ** ((now - then) / story.half_life)
            total[[reward.arm, len(ARMS) + reward.arm]] += weight * reward.reward, weight
    return total


async def believe(apps: list[Application], switched: bool) -> None:
    for app in apps:
        for country in COUNTRIES:
            context: dict[str, Any] = {"country": country, "load": 5}
            arms = await app.client.arms(context)
            best = max(arms, key=lambda arm: arm.mean or 0.0).arm
            assert best == max(ARMS, key=lambda arm: paid(context, arm, switched))


def held(place: Place) -> float:
    """Return of how many pulls an agent has ever heard, its own included, by its journal."""
    config = read_config(place.config, now=time.time())
    disk = FileDisk(config.journal)
    try:
        (replica,) = open_kept(config, disk, time.time, lambda: 1).replicas.values()
        agent: Any = replica.agent
        return float(sum(agent.machine.held().values()))
    finally:
        disk.close()


def tell(story: Story, folder: Path) -> None:
    network = Network.from_spec(f"cycle:{story.agents}", weights="metropolis")
    with reserved(folder, names(story.agents)) as places:
        write_tables(places, network, story.tables, {})
        apps = asyncio.run(play(places, story))
        acknowledged = sum(len(app.rewards) for app in apps)
        assert len({reward.ticket for app in apps for reward in app.rewards}) == acknowledged
        assert [held(place) for place in places] == [acknowledged] * story.agents
        print(f"{acknowledged} rewards, each counted once by all {story.agents} agents")


@pytest.mark.slow
@pytest.mark.plays
def test_three_agents_learn_what_is_best_for_whom_and_that_it_switched(tmp_path: Path) -> None:
    tell(Story(3, half_life=5.0, halves=(3.0, 6.0), killed=([1], [2])), tmp_path / "fleet")


@pytest.mark.slow
def test_eight_agents_forget_what_was_true_for_as_long(tmp_path: Path) -> None:
    story = Story(8, half_life=8.0, halves=(25.0, 25.0), killed=([1, 5, 3], [2, 6, 0]))
    tell(story, tmp_path / "fleet")
