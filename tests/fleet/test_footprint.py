"""What a running agent takes: only the libraries that it needs, and no more memory over time."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from coopbandits.fleet.client import AsyncClient
from coopbandits.fleet.local import members
from coopbandits.fleet.local.ending import Ending
from coopbandits.fleet.local.settings import make_settings
from coopbandits.fleet.local.stage import opened

HEAVY = ("scipy", "networkx", "numba", "llvmlite", "xarray", "pandas", "matplotlib", "h5py")

# The command itself, which tells what was loaded when it ends.
TELLING = """
import atexit, sys
atexit.register(lambda: print("loaded:", *sorted({name.split(".")[0] for name in sys.modules})))
from coopbandits.cli import main
sys.argv[1:] = ["agent", *sys.argv[1:]]
main()
"""

WARM_SECONDS = 150.0
"""Until all is there that an agent keeps: at 100 pulls a second, the last 10 000 rewards."""

SOAK_SECONDS = max(1.5 * WARM_SECONDS, float(os.environ.get("COOPBANDITS_SOAK_SECONDS", "600")))
"""For how long agents are under load, warming up included."""


def mapped(pid: int) -> str:
    """Return the names of all files that a process has mapped into its memory."""
    return Path(f"/proc/{pid}/maps").read_text()


def resident(pid: int) -> float:
    """Return the memory of a process in megabytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_a_running_agent_loads_nothing_that_only_simulations_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "COMMAND", [sys.executable, "-c", TELLING])

    async def play() -> str:
        async with opened(make_settings("path:2", "0.6,0.4", rounds=1), tmp_path) as stage:
            member = stage.members.all[0]
            async with AsyncClient(member.place.api) as client:
                choice = await client.choose()
                await client.observe(choice.ticket, 1.0)
                await client.arms()
                await client.health()
            return mapped(member.pid)

    maps = asyncio.run(play())
    assert "numpy" in maps  # so others would be seen
    assert [name for name in HEAVY if f"/{name}/" in maps] == []
    (told,) = [
        line
        for line in (tmp_path / "a00" / "log.txt").read_text().splitlines()
        if line.startswith("loaded:")
    ]
    loaded = set(told.split()[1:])
    assert {"numpy", "coopbandits", "msgspec", "uvicorn"} <= loaded
    assert loaded & {*HEAVY, "rich"} == set()


@pytest.mark.slow
def test_memory_stays_level_under_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three agents at 200 rounds and 100 pulls a second each."""
    settings = make_settings(
        "cycle:3", "0.6,0.4x16", rounds_per_second=200.0, pulls_per_second=100.0
    )

    async def play() -> list[list[float]]:
        found: list[list[float]] = []
        async with opened(settings, tmp_path) as stage:
            tasks = [asyncio.create_task(player.play(Ending())) for player in stage.players]
            await asyncio.sleep(WARM_SECONDS)
            step = (SOAK_SECONDS - WARM_SECONDS) / 18
            for _ in range(19):
                found.append([resident(member.pid) for member in stage.members.all])
                with capsys.disabled():
                    print(f"{stage.seconds:6.0f} s  " + "  ".join(f"{mb:.1f}" for mb in found[-1]))
                await asyncio.sleep(step)
            pulls = [int(player.pulls.sum()) for player in stage.players]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert min(pulls) > 10 * SOAK_SECONDS  # they did have work
        return found

    found = asyncio.run(play())
    for first, last in zip(found[0], found[-1], strict=True):
        assert last < 1.03 * first
        assert last < 80.0
