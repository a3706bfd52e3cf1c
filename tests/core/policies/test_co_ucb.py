"""CO-UCB (Yang et al. 2022) is FloodUCB where every agent may play some arms only."""

from __future__ import annotations

import math

import networkx as nx
import pytest

from coopbandits.core import FloodUCB

from ..fleet import GRAPHS, exchange, gossip_matrix, make_agents, rewards_tape

ALPHA = 2.0
SUBSETS = [[0, 1, 2], [2, 3], [1, 3], [0, 3]]


@pytest.mark.covering(2)
@pytest.mark.parametrize("graph", ["cycle-5", "complete-6", "star-6", "path-4"])
def test_they_play_the_same_arms(graph: str) -> None:
    """The index is μ̂ + √(α ln(1/δ)/(2n)) with δ = 1/s, s the pulls known: B σ² = α/2."""
    agents = make_agents(FloodUCB(constant=ALPHA / 2), gossip_matrix(GRAPHS[graph]), 4)
    tape = rewards_tape(len(agents), 80, 4)
    far = dict(nx.all_pairs_shortest_path_length(GRAPHS[graph]))
    pulls: list[list[int]] = []
    for t in range(80):
        row = []
        for i, agent in enumerate(agents):
            allowed = SUBSETS[i % len(SUBSETS)]
            known = [
                (pulls[r][j], float(tape[j, r, pulls[r][j]]))
                for j in range(len(agents))
                for r in range(max(0, t - max(0, far[i][j] - 1)))
            ]
            level = ALPHA * math.log(max(2, len(known))) / 2
            index = {}
            for k in allowed:
                seen = [reward for arm, reward in known if arm == k]
                n = len(seen)
                index[k] = sum(seen) / n + math.sqrt(level / n) if n else math.inf
            arm = agent.choose(0, allowed)
            assert arm in allowed
            assert index[arm] >= max(index.values()) - 1e-9
            row.append(arm)
        for i, arm in enumerate(row):
            agents[i].observe(arm, float(tape[i, t, arm]))
        pulls.append(row)
        exchange(agents)
