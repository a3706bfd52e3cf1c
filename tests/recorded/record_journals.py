"""Keep journals of a small fleet, for `tests/fleet/test_recorded_journals.py`; run by hand.

::

    python tests/recorded/record_journals.py 0.1

makes `journal-0.1`, a folder per policy and agent. Journals of an older version can only be made by
that version. Three agents on a path gossip over TCP and are handed rewards; those at the ends are
stopped and started again in between, so that their journals hold a snapshot and records behind it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coopbandits.fleet.config import write_config
from coopbandits.fleet.config.bandits import PLAIN
from coopbandits.fleet.process.main import make_runtime
from coopbandits.fleet.process.runtime import Runtime

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

TOLD = {"num_agents": 3, "lambda_bound": 0.8}
FOUND = {"num_agents": "estimate", "lambda_bound": "estimate"}
FLEETS: dict[str, dict[str, Any]] = {
    "flood-ts": {},
    "flood-ts-sigma": {"policy": "flood-ts:sigma=estimate"},
    "tree-ts": {},
    "tree-ts-sigma": {"policy": "tree-ts:sigma=estimate"},
    "tree-ucb": {},
    "gossip-ts": {},
    "gossip-ts-sigma": {"policy": "gossip-ts:sigma=estimate"},
    "dducb": TOLD,
    "dducb-estimate": {"policy": "dducb", **FOUND},
    "coop-ucb2": {"policy": "coop-ucb2:gamma=1.01", "num_agents": 3},
    "dec-ts": {"num_agents": 3},
}
AGENTS = ("left", "middle", "right")
RESTARTED = (0, 2)
PULLS = 12
"""Rewards that every agent is handed before the restart, and after it."""
PAUSE = 0.1
"""Seconds between two of them, in which about two rounds end."""


def write_configs(folder: Path, cluster: dict[str, Any]) -> list[Path]:
    """Write the configurations of all agents into folders of their own."""
    with ExitStack() as held:
        holders = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in AGENTS]
        places = [f"127.0.0.1:{holder.getsockname()[1]}" for holder in holders]
    for agent, name in enumerate(AGENTS):
        others = [other for other in (agent - 1, agent + 1) if 0 <= other < len(AGENTS)]
        tables = {
            "cluster": cluster,
            "node": {"id": name, "listen": places[agent], "journal": "journal"},
            "neighbors": [{"id": AGENTS[other], "address": places[other]} for other in others],
        }
        (folder / name).mkdir(parents=True)
        (folder / name / "node.toml").write_text(write_config(tables), encoding="utf-8")
    return [folder / name for name in AGENTS]


async def start(folder: Path) -> Runtime:
    """Start an agent."""
    from fleet.recorded import config_in

    runtime = make_runtime(config_in(folder))
    await runtime.start()
    return runtime


async def pull(fleet: Sequence[Runtime], first: int) -> None:
    """Hand rewards to all agents, the same sums in whatever order they are added up."""
    for number in range(first, first + PULLS):
        for agent, runtime in enumerate(fleet):
            choice = runtime.service.choose()
            arm = [known.arm for known in runtime.service.arms()].index(choice.arm)
            reward = (5 * number + 3 * agent) % 16 / 4 + 2 * arm
            runtime.service.observe(choice.ticket, reward)
        await asyncio.sleep(PAUSE)


async def play(folders: Sequence[Path]) -> list[tuple[bytes, dict[str, Any]]]:
    """Play a fleet; return every agent's journal with its contents at that moment."""
    from fleet.recorded import contents

    fleet = [await start(folder) for folder in folders]
    await pull(fleet, 0)
    for agent in RESTARTED:
        await fleet[agent].stop()
        fleet[agent] = await start(folders[agent])
    await pull(fleet, PULLS)
    kept = []
    for runtime, folder in zip(fleet, folders, strict=True):
        runtime.service.choose()  # stays open, and takes a round along that was not on disk yet
        kept.append(
            ((folder / "journal" / "journal").read_bytes(), contents(runtime.service.bandit(PLAIN)))
        )
    for runtime in fleet:
        await runtime.stop()
    return kept


def keep(journal: bytes, expected: dict[str, Any], source: Path, target: Path) -> None:
    """Write what is kept of one agent, once this version reads it as it was."""
    from fleet.recorded import contents, next_arms, opened

    (target / "journal").mkdir(parents=True)
    shutil.copy(source / "node.toml", target)
    with TemporaryDirectory() as copy:
        again = Path(copy) / "agent"
        (target / "journal" / "journal").write_bytes(journal)
        shutil.copytree(target, again)
        with opened(again) as service:
            if contents(service) != expected:
                sys.exit(f"{target} is not read as it was: {contents(service)} for {expected}")
            expected = {**expected, "next_arms": next_arms(service)}
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


def main(version: str) -> None:
    """Play all fleets, one after another, into a folder that is not there yet."""
    if (HERE / f"journal-{version}").exists():
        sys.exit(f"journal-{version} is recorded already; give another version")
    for name, settings in FLEETS.items():
        cluster = {
            "name": "recorded",
            "epoch": datetime(2026, 1, 31, tzinfo=UTC),
            "arms": ["red", "green", "blue"],
            "policy": name,
            "reward_range": [0.0, 10.0],
            **settings,
        }
        with TemporaryDirectory() as place:
            folders = write_configs(Path(place), cluster)
            played = asyncio.run(play(folders))
            for folder, (journal, expected) in zip(folders, played, strict=True):
                keep(journal, expected, folder, HERE / f"journal-{version}" / name / folder.name)
                print(f"{name} {folder.name}: {len(journal)} bytes, {expected}")


if __name__ == "__main__":
    main(*sys.argv[1:])
