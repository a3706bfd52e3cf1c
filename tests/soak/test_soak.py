"""Three agents at 200 rounds and 100 pulls a second each take no more and more of anything.

``make soak SECONDS=3600`` prints a line a minute, and a verdict by the second half of the run.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from coopbandits.fleet.client import AsyncClient
from coopbandits.fleet.local.agents import BANDIT, Member, Members, Place, prepared, write_configs
from coopbandits.fleet.local.applications import Ending
from coopbandits.fleet.local.settings import Settings, make_settings

from .flat import Sample, find_growth

SECONDS = float(os.environ.get("COOPBANDITS_SOAK_SECONDS", "600"))
PACE = 100.0
MOST_MB = 80.0
EVERY = 2.0
"""Seconds between measurements."""


class Load:
    """An application that pulls at an even pace."""

    def __init__(self, place: Place, pace: float) -> None:
        self.place, self.period, self.pulls = place, 1.0 / pace, 0

    async def play(self, ending: Ending) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        async with AsyncClient(self.place.api, bandit=BANDIT) as client:
            while not await ending.within(due - loop.time()):
                choice = await client.choose()
                await client.observe(choice.ticket, float(choice.arm == "arm-0"))
                self.pulls += 1
                due = max(due + self.period, loop.time() - 1.0)


def measure(member: Member, seconds: float) -> Sample:
    """Return what an agent's process takes now, as the system says."""
    process = Path("/proc", str(member.pid))
    status = dict(
        line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line
    )
    memory = int(status["VmRSS"].split()[0]) / 1024
    descriptors = len(list((process / "fd").iterdir()))
    journal = sum(each.stat().st_size for each in (member.place.folder / "journal").iterdir())
    return Sample(seconds, memory, descriptors, journal)


async def soak(settings: Settings, places: list[Place]) -> tuple[list[list[Sample]], list[Load]]:
    began = time.monotonic()
    async with Members(places) as members:
        loads = [Load(place, settings.pulls_per_second) for place in places]
        samples: list[list[Sample]] = [[] for _ in places]
        ending = Ending()
        async with asyncio.TaskGroup() as group:
            for load in loads:
                group.create_task(load.play(ending))
            told = 0.0
            while (passed := time.monotonic() - began) < settings.seconds:
                for series, member in zip(samples, members.all, strict=True):
                    member.require_alive()
                    series.append(measure(member, passed))
                if passed >= told:
                    tell(samples, loads)
                    told += 60.0
                await asyncio.sleep(EVERY)
            ending.set()
        tell(samples, loads)
        answers = await members.ask("arms")
        counted = [sum(arm.own_pulls for arm in answers[place.id]) for place in places]
        assert counted == [load.pulls for load in loads]
        return samples, loads


def tell(samples: list[list[Sample]], loads: list[Load]) -> None:
    last = [series[-1] for series in samples]
    pulls = sum(load.pulls for load in loads)
    print(
        f"{last[0].seconds:6.0f} s {pulls:9d} pulls; memory "
        f"{'  '.join(f'{one.memory_mb:.1f}' for one in last)} MB; descriptors "
        f"{' '.join(str(one.descriptors) for one in last)}; journal "
        f"{'  '.join(f'{one.journal / 1024:.0f}' for one in last)} kB",
        flush=True,
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_agents_under_load_stay_as_they_are() -> None:
    settings = make_settings(
        "cycle:3", "0.6,0.4x16", rounds_per_second=200.0, pulls_per_second=PACE, seconds=SECONDS
    )
    with (
        tempfile.TemporaryDirectory(prefix="cb-") as folder,
        prepared(Path(folder) / "fleet", settings) as places,
    ):
        write_configs(places, settings, {})
        samples, loads = asyncio.run(soak(settings, places))
    slowest = min(load.pulls for load in loads) / SECONDS
    print(f"\n{slowest:.0f} pulls a second at the slowest of {len(loads)} agents")
    assert {place.id: find_growth(each) for place, each in zip(places, samples, strict=True)} == {
        place.id: [] for place in places
    }
    assert all(one.memory_mb < MOST_MB for each in samples for one in each)
    assert slowest > 0.5 * PACE  # they did have work
    print("flat: memory, descriptors and journals")
