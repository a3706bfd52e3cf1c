"""Balls: the agents within `hop_limit` hops of each agent, by distance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.sim.cpu.leaves import kernel

MOST_BYTES = 2_000_000_000
"""Most bytes for balls and for the latest pulls of their members."""

MEMBER_BYTES = 4
LEVEL_BYTES = 20
"""Bytes per agent and level: where it begins, and an arm and a reward in one run's ring."""


class Balls(NamedTuple):
    """All balls: those at distance d + 1 of agent i are members[starts[i, d] : starts[i, d + 1]].

    The agent itself is the first member of its level 0: its own pulls become known as early as its
    neighbours'.
    """

    starts: NDArray[np.int64]
    members: NDArray[np.int32]


def find_balls(network: Network, hop_limit: int) -> Balls:
    """Return the balls of all agents, or refuse those that are too large."""
    graph, size = network.adjacency, network.num_agents
    hops = min(hop_limit, size)
    most = MOST_BYTES // MEMBER_BYTES
    nothing = Balls(np.zeros((0, 0), dtype=np.int64), np.zeros(0, dtype=np.int32))
    searched, total, depth = search(graph.indptr, graph.indices, hops, most, *nothing)
    needed = size * (total / searched * MEMBER_BYTES + (depth + 1) * LEVEL_BYTES)
    if needed > MOST_BYTES:
        raise InputError(
            f"hop limit {hop_limit} in a network of {size} agents would take about "
            f"{needed / 1e9:.3g} GB to simulate, more than {MOST_BYTES / 1e9:.3g} GB; give a "
            "smaller hop limit or a smaller network"
        )
    starts = np.zeros((size, depth + 1), dtype=np.int64)
    balls = Balls(starts, np.zeros(total, dtype=np.int32))
    search(graph.indptr, graph.indices, hops, most, *balls)
    return balls


@kernel
def search(
    indptr: Any, indices: Any, hops: int, most: int, starts: Any, members: Any
) -> tuple[int, int, int]:
    """Search breadth first from every agent; write the balls unless `starts` is empty.

    Returns how many agents were searched from (the search stops at more than `most` members), the
    number of members found, and the largest number of levels.
    """
    size = indptr.size - 1
    mark, queue = np.empty(size, np.int64), np.empty(size, np.int32)
    total, depth = 0, 1
    for agent in range(size):
        mark[agent] = -1
    for agent in range(size):
        mark[agent], queue[0] = agent, agent
        done, end, level = 0, 1, 0
        while level < hops:
            found = end
            for at in range(done, end):
                for link in range(indptr[queue[at]], indptr[queue[at] + 1]):
                    other = indices[link]
                    if mark[other] != agent:
                        mark[other], queue[found] = agent, other
                        found += 1
            if found == end and level > 0:
                break
            done, end, level = end, found, level + 1
            if starts.size > 0:
                starts[agent, level] = total + end
        if starts.size > 0:
            starts[agent, 0] = total
            for above in range(level, starts.shape[1]):
                starts[agent, above] = total + end
            for at in range(end):
                members[total + at] = queue[at]
        total, depth = total + end, max(depth, level)
        if total > most:
            return agent + 1, total, depth
    return size, total, depth
