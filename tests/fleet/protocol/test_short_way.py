"""Whole messages take a short way through the protocol: whatever comes, it ends as the long one.

Two fleets are told the same. In one, messages arrive whole; in the other cut in two, so that none
takes the short way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import networkx as nx
import numpy as np
import pytest

from coopbandits.core.draws import words
from coopbandits.fleet.config import BanditConfig
from coopbandits.fleet.protocol.frames import MAX_BODY, Stamp, encode_data
from tests.torture.world import World

from ..bandits import only

pytestmark = pytest.mark.plays

BANDITS = {
    "flood-ts": only("flood-ts"),
    "tree-ts": only("tree-ts"),
    "dec-ts": only("dec-ts", num_agents=3),
    "dducb": only("dducb", num_agents=3, lambda_bound=0.7),
}

STAMPS: tuple[Callable[[Stamp, int], dict[str, int]], ...] = (
    lambda right, _: {"round": right.round},
    lambda right, word: {"round": max(0, right.round - word % 4)},
    lambda right, word: {"round": right.round + word % 4},
    lambda right, _: {"round": 2**63 + right.round},
    lambda right, word: {"epoch": right.epoch + word % 3},
    lambda right, word: {"num_arms": 2 + word % 2},
    lambda right, word: {"incarnation": right.incarnation - word % 2},
    lambda right, word: {"bandit": right.bandit * (word % 2)},
)
"""Late, early, of nowhere near, and of another epoch, number of arms, start or bandit."""


def told(world: World, word: int, last: list[bytes]) -> bytes:
    """Return something that agent 1 could say to agent 0: right, wrong, or what it said before."""
    sender, bandit = world.replica(1), world.bandit
    right = Stamp(2, bandit.cluster.epoch, sender.rounds + 1, sender.incarnation, bandit.number)
    stamp = msgspec.structs.replace(right, **STAMPS[word % len(STAMPS)](right, word >> 8))
    values = sender.agent.outgoing(0)
    values = np.zeros(4) if values is None else values.copy()
    how = (word >> 16) % 8
    if how == 0 and last:
        return last[(word >> 24) % len(last)]
    if how == 1:
        values = np.resize(values, (word >> 24) % 40)
    elif how == 2:
        values[(word >> 24) % values.size] = (np.nan, np.inf, -1.0, 1e300)[(word >> 32) % 4]
    elif how == 3:
        values = np.zeros(MAX_BODY // 8 + (word >> 24) % 2)
    return encode_data(stamp, None if how == 4 else values)


def play(bandit: BanditConfig, seed: int, *, cut: bool) -> list[Any]:
    """Return what agent 0 has counted and believes after every message."""
    world = World(bandit, nx.path_graph(3))
    seen: list[Any] = []
    last: list[bytes] = []
    for step, word in enumerate(words(seed, np.arange(60, dtype=np.uint64)).tolist()):
        world.step()
        if step % 5 == 0:
            world.pull(step % 3, word, 1.0)
        data, node = told(world, word, last), world.node(0)
        last.append(data)
        for part in (data[:1], data[1:]) if cut else (data,):
            world.shells[0].received("n1", part)
        world._break()
        seen.append((dict(node.peers["n1"].frames), dict(node.refusals), world.replica(0).rounds))
        seen.append(world.replica(0).agent.export_state())
    return seen


@pytest.mark.covering(6)
@pytest.mark.parametrize("policy", BANDITS)
@pytest.mark.parametrize("seed", range(6))
def test_the_short_way_ends_as_the_long_one(policy: str, seed: int) -> None:
    whole = play(BANDITS[policy], seed, cut=False)
    assert whole == play(BANDITS[policy], seed, cut=True)
    assert sum(whole[-2][1].values()) > 3, "next to nothing was refused"
