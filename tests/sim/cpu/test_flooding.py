"""Flooded pulls on the compiled engine; that they are those of the agents is in `test_engines`."""

from __future__ import annotations

import networkx as nx
import pytest

from coopbandits import MPUCB, GaussianBandit, InputError, Network, UCBNetwork, simulate
from coopbandits.sim.cpu import flooding
from coopbandits.sim.cpu.flooding import find_balls


def test_runs_whose_rings_do_not_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, network = GaussianBandit([0.5, 1.0, 0.9]), Network.from_spec("grid:7x10")
    policies = [UCBNetwork(), MPUCB(5)]
    expected = simulate(problem, network, policies, 60, runs=5, keep="arms").dataset
    for runs in (1, 2):
        monkeypatch.setattr(flooding, "RING_PULLS", runs * 70 * 6)
        found = simulate(problem, network, policies, 60, runs=5, keep="arms").dataset
        assert found.identical(expected)


GRAPHS = ["cycle:9", "path:6", "star:7", "complete:5", "grid:4x5", "erdos-renyi:40,0.1,seed=3"]


@pytest.mark.parametrize("hop_limit", [1, 2, 3, 1000])
@pytest.mark.parametrize("spec", GRAPHS)
def test_levels_are_distances(spec: str, hop_limit: int) -> None:
    network = Network.from_spec(spec)
    graph = nx.from_scipy_sparse_array(network.adjacency)
    starts, members = find_balls(network, hop_limit)
    depth = min(hop_limit, nx.diameter(graph))
    assert starts.shape == (network.num_agents, depth + 1)
    for i, distances in nx.all_pairs_shortest_path_length(graph):
        for level in range(depth):
            found = members[starts[i, level] : starts[i, level + 1]].tolist()
            expected = [j for j, d in distances.items() if max(1, d) == level + 1]
            assert sorted(found) == sorted(expected)
    assert starts[-1, -1] == members.size


def test_one_agent_is_a_ball() -> None:
    starts, members = find_balls(Network(nx.empty_graph(1)), 5)
    assert starts.tolist() == [[0, 1]]
    assert members.tolist() == [0]


def test_the_memory_that_would_be_needed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Balls of 7 on a cycle of 1000, two numbers per level: 4 · 7 + 20 · 4 bytes an agent."""
    network = Network.from_spec("cycle:1000")
    monkeypatch.setattr(flooding, "MOST_BYTES", 108_000)
    find_balls(network, 3)
    monkeypatch.setattr(flooding, "MOST_BYTES", 107_999)
    with pytest.raises(InputError, match=r"hop limit 3\b.* 1000 agents.* 0\.000108 GB"):
        find_balls(network, 3)


def test_large_balls_are_refused_before_they_are_all_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred thousand members in each of as many balls: nobody waits for those."""
    monkeypatch.setattr(flooding, "MOST_BYTES", 20_000_000)
    network = Network.from_spec("star:100000")
    find_balls(network, 1)
    with pytest.raises(InputError, match=r"40 GB.* 0\.02 GB"):
        find_balls(network, 2)
