"""What signatures cost: the table in docs/fleet/protocol.md."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import pytest

from coopbandits.fleet.identity.certs import init_authority, issue
from tests.torture.world import World

from ..bandits import only

ROUNDS, ARMS = 60, 16
BANDIT = only(arms=tuple(f"arm {k}" for k in range(ARMS)), sigma=1.0)


class Cost(NamedTuple):
    """Of one agent in one round, on a ring in which everybody pulls once in every round."""

    sent: float
    microseconds: float


def measure(agents: int, certificates: Path | None, policy: str = "flood-ts") -> Cost:
    """Return the cost with certificates, or with signatures that cost nothing."""
    bandit = replace(BANDIT, policy=policy)
    world = World(bandit, nx.cycle_graph(agents), certificates=certificates)
    for _ in range(agents + 40):  # a tree is steady after 20 rounds, and then counts nobody
        world.step()
    sent, post = 0, world.post

    def counted(sender: int, receiver: int, data: bytes) -> bool:
        nonlocal sent
        sent += len(data)
        return post(sender, receiver, data)

    world.post = counted  # type: ignore[method-assign]  # counts first
    began = time.process_time()
    for word in range(ROUNDS):
        for agent in world.graph:
            world.pull(agent, word * 31 + agent, 0.5)
        world.step()
    passed = time.process_time() - began
    per = agents * ROUNDS
    return Cost(sent / per, passed / per * 1e6)


@pytest.mark.slow
def test_the_cost_of_signatures(tmp_path: Path) -> None:
    init_authority(tmp_path)
    issue(tmp_path, [f"n{agent}" for agent in range(100)])
    print(f"\n20 rounds a second, {ARMS} arms, a ring; per agent and round, to both neighbours")
    print("| agents | bytes | bytes, ledger | µs | µs but for signatures | µs, ledger |")
    print("|---:|---:|---:|---:|---:|---:|")
    for agents in (8, 40, 100):
        flood, free = measure(agents, tmp_path), measure(agents, None)
        ledger = measure(agents, None, "ledger-ts")
        print(
            f"| {agents} | {flood.sent:.0f} | {ledger.sent:.0f} | {flood.microseconds:.0f} | "
            f"{free.microseconds:.0f} | {ledger.microseconds:.0f} |"
        )
        # Everybody checks at most 4 versions of everybody else in a second, at about 0.2 ms each.
        assert flood.microseconds < free.microseconds + 1000.0 * agents * 4 / 20
        assert ledger.sent < 2 * (8 * (6 * ARMS + 46) + 100)  # however many agents there are
