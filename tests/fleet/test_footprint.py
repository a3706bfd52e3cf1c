"""A running agent loads only the libraries that it needs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from coopbandits.fleet.client import AsyncClient
from coopbandits.fleet.local import agents
from coopbandits.fleet.local.run import opened
from coopbandits.fleet.local.settings import make_settings

HEAVY = ("scipy", "networkx", "numba", "llvmlite", "xarray", "pandas", "matplotlib", "h5py")

# The command itself, which tells what was loaded when it ends.
TELLING = """
import atexit, sys
atexit.register(lambda: print("loaded:", *sorted({name.split(".")[0] for name in sys.modules})))
from coopbandits.cli import main
sys.argv[1:] = ["agent", *sys.argv[1:]]
main()
"""


def mapped(pid: int) -> str:
    """Return the names of all files that a process has mapped into its memory."""
    return Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize("graph", ["path:1", pytest.param("path:2", marks=pytest.mark.slow)])
@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
def test_a_running_agent_loads_nothing_that_only_simulations_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graph: str
) -> None:
    monkeypatch.setattr(agents, "COMMAND", [sys.executable, "-c", TELLING])

    async def play() -> str:
        async with opened(make_settings(graph, "0.6,0.4", rounds=1), tmp_path) as stage:
            member = stage.members.all[0]
            async with AsyncClient(member.place.api, bandit=agents.BANDIT) as client:
                choice = await client.choose()
                await client.observe(choice.ticket, 1.0)
                await client.arms()
                await client.health()
                await client.state()
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
    assert {"numpy", "coopbandits", "msgspec", "httptools"} <= loaded
    assert loaded & {*HEAVY, "rich"} == set()
