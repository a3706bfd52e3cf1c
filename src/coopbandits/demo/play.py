"""The demo: six agents on a ring, one kill, one change of the environment, and the result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from coopbandits.core.errors import InputError
from coopbandits.demo.applications import (
    BANDIT,
    OPTIONS,
    SIGMA,
    AdvisedApplication,
    Application,
    BlindApplication,
    Supply,
    make_supply,
)
from coopbandits.demo.story import RECENT, Mark, Story, mean_reward
from coopbandits.fleet.config import read_config
from coopbandits.fleet.local.agents import Member, Members, names, reserved, write_tables
from coopbandits.fleet.local.applications import Ending, Verdict, add_up, judge
from coopbandits.fleet.local.run import Beside, conservation, first_error, interruptible, running
from coopbandits.network import Network

GRAPH = "cycle:6"
POLICY = "flood-ts"
"""The default where rewards have a range."""
HALF_LIFE = "5s"
"""Half of what was learned is forgotten in this time, so the agents notice a change in seconds."""
ROUNDS_PER_SECOND = 20.0
VICTIM = 2
KILL, DOWN, BACK, CHANGED = 0.2, 0.15, 0.15, 0.5
"""Durations until the kill, without the agent, with it back, and after the files change, as
fractions of the demo. A restart that takes long, on a busy machine, makes the demo longer."""
SHORTEST, LONGEST = 15.0, 600.0
"""Duration in seconds. In less time, agents cannot learn before the files change."""
SETTLE_SECONDS = 60.0
"""How long messages may take at the end to reach all agents."""

Print = Callable[[str], None]


class Outcome(NamedTuple):
    """The result of a demo.

    Attributes
    ----------
    story : Story
        All measurements.
    verdict : Verdict
        Whether every acknowledged reward is counted exactly once.
    interrupted : bool
        Whether it was ended early.
    """

    story: Story
    verdict: Verdict
    interrupted: bool

    @property
    def holds(self) -> bool:
        """Whether all agents answered at the end, and their accounts agree."""
        return self.verdict.holds

    @property
    def sentences(self) -> list[str]:
        """The findings."""
        account = conservation(self.verdict)
        return [*self.story.sentences(), f"Conservation {account}."]


def play(seconds: float, say: Print, beside: Beside | None = None) -> Outcome:
    """Run the demo in a folder that is removed at the end.

    Parameters
    ----------
    seconds : float
        How long applications choose, if the killed agent restarts at once.
    say : callable
        Prints lines about the events.
    beside : callable, optional
        What runs beside the agents, such as a page that shows them.

    Raises
    ------
    FleetError
        An agent could not be started, or exited on its own.
    KeyboardInterrupt
        A second signal came before the first one had ended the demo.
    """
    if not SHORTEST <= seconds <= LONGEST:
        raise InputError(f"the demo must take {SHORTEST:g} to {LONGEST:g} seconds, got {seconds:g}")
    with TemporaryDirectory(prefix="coopbandits-demo-") as folder:
        try:
            return asyncio.run(_play(Path(folder), seconds, say, beside))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


async def _play(folder: Path, seconds: float, say: Print, beside: Beside | None) -> Outcome:
    network, ending = Network.from_spec(GRAPH, weights="metropolis"), Ending()
    say(f"{network.num_agents} agents on a ring choose how to compress files:")
    say(f"  {', '.join(OPTIONS)}")
    say(
        "The reward of a choice is the share of its size that a file lost, less the option's price."
    )
    with interruptible(ending), reserved(folder, names(network.num_agents)) as places:
        supply = await asyncio.to_thread(make_supply)
        cluster = {
            "name": "demo",
            "epoch": datetime.now(UTC).replace(microsecond=0),
            "rounds_per_second": ROUNDS_PER_SECOND,
        }
        bandit = {
            "arms": list(OPTIONS),
            "policy": POLICY,
            "reward_range": [0.0, 1.0],
            "sigma": SIGMA,
            "half_life": HALF_LIFE,
        }
        shared: dict[str, dict[str, Any]] = {"cluster": cluster, "bandits": {BANDIT: bandit}}
        write_tables(places, network, shared, {})
        read_config(places[0].config, now=time.time())  # one error here instead of one per agent
        async with Members(places) as members, running(beside, members):
            return await _Demo(members, supply, seconds, say).play(ending)


class _Demo:
    """A demo whose agents are ready."""

    def __init__(self, members: Members, supply: Supply, seconds: float, say: Print) -> None:
        self.members, self.supply, self.seconds, self.say = members, supply, seconds, say
        places = [member.place for member in members.all]
        self.advised = [AdvisedApplication(place.id, place.api, supply) for place in places]
        self.blind = BlindApplication(supply)
        self.story = Story()
        self.began = time.monotonic()

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    async def play(self, ending: Ending) -> Outcome:
        try:
            async with asyncio.TaskGroup() as group:
                showing = group.create_task(self._show())
                await self._perform(ending)
                showing.cancel()
                verdict = await self._settle()
        except ExceptionGroup as errors:
            raise first_error(errors) from None
        return Outcome(self.story, verdict, ending.interrupted)

    async def _perform(self, ending: Ending) -> None:
        """Run the applications and the events until time is up."""
        applications: list[Application] = [*self.advised, self.blind]
        async with asyncio.TaskGroup() as group:
            for application in applications:
                group.create_task(application.work(ending))
            await self._disturb(self.members.all[VICTIM], ending)
            ending.set()
        self._gather()

    async def _disturb(self, victim: Member, ending: Ending) -> None:
        """Kill an agent, restart it, and change the files, in this order."""
        if await ending.within(KILL * self.seconds):
            return
        await victim.kill()
        name = victim.place.id
        self._mark(f"{name} killed", f"agent {name} is killed (SIGKILL); its application goes on")
        await ending.within(DOWN * self.seconds)
        # Also after an interrupt: applications may have rewards for it.
        await self.members.restart(victim)
        ready = victim.readiness[-1]
        self._mark(f"{name} back", f"agent {name} is back, {ready:.1f} s after its start")
        if await ending.within(BACK * self.seconds):
            return
        self.supply.change()
        self.story.change = self.now
        self._mark("files change", "the files change: no more texts, but backups of four nights")
        await ending.within(CHANGED * self.seconds)

    def _mark(self, short: str, long: str) -> None:
        self.story.marks.append(Mark(self.now, short))
        self.say(f"{self.now:4.0f} s  ** {long}")

    def _gather(self) -> None:
        """Collect the measurements so far."""
        self.story.advised = sorted(deed for each in self.advised for deed in each.deeds)
        self.story.blind = self.blind.deeds
        self.story.end = self.now

    async def _show(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            for member in self.members.all:
                member.require_alive()
            self._gather()
            now, story = self.now, self.story
            recent = [deed for deed in story.advised if deed.moment > now - RECENT]
            chosen = [deed.option for deed in recent]
            shares = [f"{each} {chosen.count(each) / max(1, len(chosen)):4.0%}" for each in OPTIONS]
            self.say(
                f"{now:4.0f} s  {len(self.members.up())} of {len(self.advised)} up  "
                f"{len(story.advised):5,} files  {'  '.join(shares)}"
                + (f"  worth {mean_reward(recent):.2f}" if recent else "")
            )

    async def _settle(self) -> Verdict:
        """Wait until all agents know all acknowledged rewards, or for `SETTLE_SECONDS`."""
        rewards = [each for application in self.advised for each in application.acknowledged]
        acknowledged = add_up(rewards, len(OPTIONS))
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            arms, health = await self.members.ask("arms", BANDIT), await self.members.ask("health")
            best = [True] * len(OPTIONS)
            verdict = judge(POLICY, best, acknowledged, arms, health, forgets=True)
            if verdict.holds or time.monotonic() > deadline:
                return verdict
            await asyncio.sleep(0.1)
