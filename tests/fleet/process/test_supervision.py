"""Whatever fails in the background, an agent ends loudly or goes on, and is never half alive."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.config import NodeConfig, write_config
from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.process.runtime import Runtime
from coopbandits.fleet.protocol.gossip import Session
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import UnavailableError
from coopbandits.fleet.storage.disk import FileDisk
from coopbandits.fleet.transport import connection, tcp
from coopbandits.fleet.transport.connection import Stream
from coopbandits.fleet.transport.sockets import Listener
from coopbandits.fleet.transport.tcp import TcpTransport
from coopbandits.testing.checks.transport import Witness

from ..bandits import only
from ..transport.nodes import QUICK, agent, credentials, places, until

PATIENCE = 90.0

BROKEN = """
import sys, time
from pathlib import Path
from coopbandits.fleet.api.server import Connections
from coopbandits.fleet.config import read_config
from coopbandits.fleet.process import main, runtime
from coopbandits.fleet.process.runtime import SteadyClock
from coopbandits.fleet.protocol.gossip import Session
from coopbandits.fleet.protocol.node import Node

owner, name = {"Node": Node, "Connections": Connections,
               "SteadyClock": SteadyClock}[sys.argv[2]], sys.argv[3]
usual, calls = getattr(owner, name), []

def broken(*arguments):
    calls.append(1)
    if len(calls) > 3:
        raise RuntimeError("this should not have happened")
    return usual(*arguments)

setattr(owner, name, broken)
runtime.BEAT_SECONDS = 0.05
config = read_config(Path(sys.argv[1]), now=time.time(), insecure=True)
sys.exit(main.run_agent(config))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the configuration of an agent without neighbours."""
    tables: dict[str, Any] = {
        "cluster": {
            "name": "shop",
            "epoch": datetime(2026, 1, 31, tzinfo=UTC),
        },
        "bandits": {"button": {"arms": ["red", "blue"], "reward_range": [0.0, 1.0]}},
        "node": {
            "id": "shop-1",
            "listen": "127.0.0.1:0",
            "journal": "memory",
            "api": f"unix:{tmp_path}/api",
            "default_bandit": "button",
        },
    }
    found = tmp_path / "node.toml"
    found.write_text(write_config(tables))
    return found


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    ("owner", "name"),
    [("Node", "tick"), ("Node", "beat"), ("SteadyClock", "follow_system_clock"),
     ("Connections", "sweep")],
)  # fmt: skip
def test_a_timer_that_fails_ends_the_process(path: Path, owner: str, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BROKEN, str(path), owner, name],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert len(re.findall(r"CRITICAL agent shop-1 failed in .* and stops", done.stderr)) == 1
    assert done.stderr.count("RuntimeError: this should not have happened") == 1
    assert "agent shop-1 stopped after" in done.stderr


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("name", ["tick", "beat"])
def test_an_embedded_agent_that_fails_says_so_and_serves_no_more(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(node: Node) -> None:
        raise RuntimeError("this should not have happened")

    with LocalAgent(path, insecure=True) as embedded:
        ticket = embedded.choose().ticket
        monkeypatch.setattr(Node, name, broken)
        wait(embedded.ready)
        assert "its log says why" in str(embedded.ready())
        with pytest.raises(UnavailableError, match="failed"):
            embedded.choose()
        with pytest.raises(UnavailableError, match="failed"):
            embedded.observe(ticket, 1.0)
        assert embedded.health()["open_tickets"] == 1
    monkeypatch.undo()
    assert caplog.text.count("agent shop-1 failed in") == 1
    with LocalAgent(path, insecure=True) as again:
        assert not again.observe(ticket, 1.0).duplicate


def broken_first(usual: Any, times: int = 2) -> Any:
    calls = []

    def broken(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) <= times:
            raise RuntimeError("this should not have happened")
        return usual(*arguments, **named)

    return broken


@pytest.mark.parametrize(
    ("owner", "name"),
    [(TcpTransport, "_connect"), (tcp, "connect"), (connection, "tune"), (Listener, "take")],
)
def test_a_call_that_fails_is_made_again(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with agent("alpha", None, {"beta": Address("127.0.0.1", 1)}) as (first, witness):
            if owner is Listener:
                first._listener.take = broken_first(first._listener.take)
            else:
                monkeypatch.setattr(owner, name, broken_first(getattr(owner, name)))
            async with agent("beta", None, {"alpha": first.address}) as (_, other):
                await until(lambda: "alpha" in other.up and "beta" in witness.up)

    asyncio.run(scenario())
    assert "this should not have happened" in caplog.text


def test_a_name_that_cannot_be_looked_up_stops_no_other_neighbour() -> None:
    """Encoding it raises no OSError; today's resolver may be another tomorrow."""
    label = "a" * 64

    async def scenario() -> None:
        async with agent("alpha", None, {"gamma": Address("127.0.0.1", 1)}) as (first, _):
            places = {"alpha": first.address, "beta": Address(f"{label}.localhost", 1)}
            here, there = Address("127.0.0.1", 0), {"alpha": first.address}
            proof = credentials(None, "gamma")
            transport = TcpTransport("gamma", here, there, proof, timing=QUICK)
            transport.neighbors = places
            witness = Witness("gamma")
            await transport.start(witness)
            try:
                await until(lambda: "alpha" in witness.up)
                assert all(not task.done() for task in transport._tasks)
            finally:
                await transport.stop()

    asyncio.run(scenario())


@asynccontextmanager
async def pair(tmp_path: Path, policy: str) -> AsyncIterator[list[Runtime]]:
    """Run two agents in this process, neighbours of each other over real sockets."""
    names = ["shop-1", "shop-2"]
    bandit = only(
        policy, epoch=1769860800, rounds_per_second=50.0, signatures_per_second=50.0,
        num_agents=2 if policy == "dec-ts" else None,
    )  # fmt: skip
    with places(*names) as at:
        runtimes = []
        for own, other in (names, reversed(names)):
            config = NodeConfig(
                bandit.cluster, own, tmp_path / own, {other: at[other]}, at[own],
                bandits={bandit.name: bandit},
            )  # fmt: skip
            proof = credentials(None, own)
            transport = TcpTransport(own, config.listen, config.neighbors, proof, timing=QUICK)
            runtimes.append(Runtime(config, FileDisk(config.journal), transport))
        for runtime in runtimes:
            await runtime.start()
        try:
            yield runtimes
        finally:
            for runtime in runtimes:
                await runtime.stop()


def play(*runtimes: Runtime) -> bool:
    """Have agents something to tell: without news, a flood ends no round."""
    for runtime in runtimes:
        runtime.service.bandit("only").observe(runtime.service.bandit("only").choose().ticket, 1.0)
    return True


def session_of(runtime: Runtime) -> Session:
    (session,) = runtime.node.sessions.by_number.values()
    return session


@pytest.mark.parametrize("policy", ["flood-ts", "dec-ts"])
def test_a_bug_in_reading_costs_the_link_and_is_told_once(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with pair(tmp_path, policy) as (first, second):
            await until(lambda: play(second) and min(first.rounds, second.rounds) > 3)
            gossip = session_of(first)
            monkeypatch.setattr(gossip, "heard", broken_first(gossip.heard, 3))
            await until(lambda: play(second) and first.node.refusals["failed"] == 3)
            before, pulled = first.rounds, second.node.bandits.rewards
            choice = first.service.bandit("only").choose()
            first.service.bandit("only").observe(choice.ticket, 1.0)
            await until(
                lambda: sum(arm.pulls for arm in second.service.bandit("only").arms()) == pulled + 1
            )
            await until(
                lambda: (
                    play(second) and first.node.peers["shop-2"].met and first.rounds > before + 3
                )
            )
            assert not first.failed.is_set()
            told = {m.name: m.samples for m in first.service.metrics()}["refused_frames_total"]
            assert ({"reason": "failed"}, 3.0) in told

    asyncio.run(scenario())
    assert caplog.text.count("RuntimeError: this should not have happened") == 1
    assert "Exception in callback" not in caplog.text


def test_a_bug_while_a_round_ends_ends_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with pair(tmp_path, "dec-ts") as (first, second):
            await until(lambda: min(first.rounds, second.rounds) > 3)
            replica = session_of(first).replica
            monkeypatch.setattr(replica, "end_round", broken_first(None, 10**6))
            await until(first.failed.is_set)
            assert first.service.failure
            rounds = first.rounds
            await until(lambda: not second.node.peers["shop-1"].met)
            assert first.rounds == rounds

    asyncio.run(scenario())
    assert caplog.text.count("agent shop-1 failed in a round of gossip and stops") == 1
    assert caplog.text.count("RuntimeError: this should not have happened") == 1


@pytest.mark.parametrize(("policy", "held"), [("flood-ts", True), ("dec-ts", False)])
def test_rounds_by_the_clock_are_woken_by_the_clock_alone(
    policy: str, held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What arrives is read inside ticks; a synchronous round waits for it, and is woken by it."""
    inside, reads = [False], {True: 0, False: 0}
    tick, read = Runtime._on_tick, Stream.read

    def ticking(runtime: Runtime) -> None:
        inside[0] = True
        try:
            tick(runtime)
        finally:
            inside[0] = False

    def counted(stream: Stream) -> bool:
        reads[inside[0]] += 1
        return read(stream)

    monkeypatch.setattr(Runtime, "_on_tick", ticking)
    monkeypatch.setattr(Stream, "read", counted)

    async def scenario() -> None:
        async with pair(tmp_path, policy) as (first, second):
            await until(lambda: first.node.peers["shop-2"].met and second.node.peers["shop-1"].met)
            start = min(first.rounds, second.rounds)
            reads.update({True: 0, False: 0})
            await until(
                lambda: play(first, second) and min(first.rounds, second.rounds) > start + 20
            )

    asyncio.run(scenario())
    assert (reads[True] > 20) == held
    assert (reads[False] > 20) != held  # but for the look once a second


def test_a_neighbour_that_dies_is_noticed_at_a_tick(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with pair(tmp_path, "flood-ts") as (first, second):
            await until(lambda: first.node.peers["shop-2"].met)
            assert first._beat_timer is not None
            first._beat_timer.cancel()  # which would notice it too, up to a second later
            await second.transport.stop()
            await until(lambda: not first.node.peers["shop-2"].met)

    asyncio.run(scenario())
