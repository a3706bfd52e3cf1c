"""Agents of adjacent versions talk to each other: today's with one that was recorded, and for real.

`tests/recorded/fleet-2` holds what agents that speak version 2 of the protocol said, and their
journals. Today's agents must understand all of it, say nothing that those would refuse, and go on
with their journals.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopbandits.core.contract import Vector
from coopbandits.fleet.client import Client
from coopbandits.fleet.protocol.frames import VERSIONS
from coopbandits.testing.torture.bandits import OPTIONS

from . import version2
from .conversing import FLEETS, OTHER, PULL_STEPS, RECORDED, Record, Seat, Speaking, converse
from .process.agents import Agent, pulls, wait
from .transport.nodes import places

FOLDER = Path(__file__).parents[1] / "recorded" / "fleet-2"
ROOT = Path(__file__).parents[2]
EXACT = ("flood-ts", "flood-ts-half-life", "tree-ts", "ledger-ts", "bandits", "auto")
"""Fleets whose agents know the sums of all."""


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def pulls_of(*own: list[list[float]]) -> Vector:
    """Return the pulls of all agents together, by option."""
    total: Vector = np.sum([each[0] for each in own], axis=0)
    return total


@pytest.mark.parametrize("name", FLEETS)
def test_what_an_older_agent_says_is_understood(name: str) -> None:
    told, fleet = recorded(name), FLEETS[name]
    today = Seat(fleet, OTHER)
    older = Record(told)
    converse(older, today, restart=not fleet.auto)
    node = today.process.node
    assert not today.wire.dropped
    assert not node.refusals
    assert node.peers[RECORDED].met
    assert node.peers[RECORDED].frames["skipped"] == 0
    if name in EXACT:
        known = today.process.known()[len(OPTIONS) :]
        both = pulls_of(told["own"][0], today.own())
        assert known == pytest.approx(both, rel=1e-3 if "half-life" in name else 1e-9)
    for data in older.heard:  # and what is said to it, it can read
        version2.read(data)
    kinds = {frame.kind for data in older.heard for frame in version2.read(data)}
    assert {version2.HELLO, version2.DATA} <= kinds


@pytest.mark.parametrize("name", FLEETS)
def test_upgraded_agents_go_on_with_their_journals(name: str) -> None:
    told, fleet = recorded(name), FLEETS[name]
    first = Speaking(fleet, RECORDED, told["journals"][0])
    second = Seat(fleet, OTHER, told["journals"][1])
    assert [first.own(), second.own()] == told["own"]
    if not fleet.auto:  # there, others are known by links, and there is none yet
        assert first.process.known() == pytest.approx(np.array(told["known"]), rel=1e-9)
    converse(first, second, restart=False)
    assert not first.process.node.refusals
    assert not second.process.node.refusals
    before, now = pulls_of(*told["own"]), pulls_of(first.own(), second.own())
    assert now.sum() == before.sum() + 2 * len(PULL_STEPS)
    if name in EXACT:
        known = second.process.known()[len(OPTIONS) :]
        assert known == pytest.approx(now, rel=1e-2 if "half-life" in name else 1e-9)


def test_versions_overlap_with_the_one_before() -> None:
    assert VERSIONS[0] <= max(2, VERSIONS[1] - 1), "adjacent versions, from 2 on, talk"


def test_the_reader_of_version_2_refuses_what_such_an_agent_refuses() -> None:
    first = bytes.fromhex(recorded("tree-ts")["said"][0][0])
    assert version2.read(first)[0].kind == version2.HELLO
    for at, value in ((0, 0), (2, 3), (3, 99)):
        with pytest.raises(ValueError, match=r"no frame|unknown kind"):
            version2.read(first[:at] + bytes([value]) + first[at + 1 :])
    with pytest.raises(ValueError, match="no frame"):
        version2.read(first[:-1])


# For real


@contextlib.contextmanager
def older_tree(folder: Path) -> Iterator[Path]:
    """Yield the source of the version that was recorded, or of `COOPBANDITS_OLDER`."""
    ref = os.environ.get("COOPBANDITS_OLDER") or (FOLDER / "commit").read_text().strip()
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", ref, "src"], capture_output=True
    )
    if done.returncode:
        pytest.skip(f"git has no {ref} here; name another with COOPBANDITS_OLDER=REF")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        tar.extractall(folder, filter="data")
    yield folder / "src"


def knows(client: Client, total: float) -> bool:
    return pulls(client) == total


@pytest.mark.slow
def test_a_fleet_is_upgraded_one_agent_after_the_other(tmp_path: Path) -> None:
    names = ("one", "two", "three")
    with older_tree(tmp_path / "older") as older, places(*names) as at:
        where = subprocess.run(
            [sys.executable, "-c", "import coopbandits; print(coopbandits.__file__)"],
            env=os.environ | {"PYTHONPATH": str(older)}, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert where.startswith(str(older)), "the older source is what runs"
        agents = [
            Agent(
                tmp_path / name, name, str(at[name]),
                neighbors={other: at[other] for other in names if other != name},
            )
            for name in names
        ]  # fmt: skip
        total = 0
        try:
            for agent in agents:
                agent.start(PYTHONPATH=str(older))
            for upgraded in range(len(agents) + 1):
                for agent in agents:
                    with agent.client() as client:
                        client.observe(client.choose().ticket, 1.0)
                        total += 1
                for agent in agents:
                    with agent.client() as client:
                        wait(partial(knows, client, total), agent.told())
                print(f"{upgraded} of {len(agents)} agents upgraded: all know {total} pulls")
                if upgraded < len(agents):
                    agents[upgraded].send(15)
                    assert agents[upgraded].end() == 0
                    agents[upgraded].start()
            assert all("refused" not in agent.told() for agent in agents), agents[0].told()
        finally:
            for agent in agents:
                agent.kill()
