"""What agents believe while news spreads: computed by hand, and shown."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core import AnyAggregation
from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.network.spreading import USUAL


def test_plain_mixing_is_powers_of_the_matrix() -> None:
    network = Network.from_spec("path:4")
    found = network.animate(1, aggregations=[cb.RunningConsensus()], rounds=5).values[0]
    news, matrix = np.array([0.0, 4.0, 0.0, 0.0]), network.matrix.toarray()
    expected = [np.linalg.matrix_power(matrix, power) @ news for power in range(6)]
    assert found == pytest.approx(np.array(expected), abs=1e-12)


def test_accelerated_mixing_is_a_chebyshev_polynomial() -> None:
    """q_r(P) = T_r(P/λ)/T_r(1/λ), by eigenvectors and cosines instead of a recursion."""
    network = Network.from_spec("cycle:9")
    rounds = network.mixing_rounds()
    found = network.animate(aggregations=["staged-mixing"], rounds=rounds).values[0]
    values, vectors = np.linalg.eigh(network.matrix.toarray())
    bound = network.lambda2

    def chebyshev(degree: int, at: float) -> float:
        return float(np.polynomial.chebyshev.chebval(at, [0.0] * degree + [1.0]))

    for step in (1, 2, 3, rounds):
        scale = [chebyshev(step, value / bound) / chebyshev(step, 1 / bound) for value in values]
        expected = 9.0 * (vectors * scale) @ vectors[0]
        assert found[step] == pytest.approx(expected, abs=1e-9)
    assert found[0].tolist() == [9.0] + [0.0] * 8
    assert abs(found[-1] - 1.0).max() < 1 / 22


@pytest.mark.parametrize("spec", ["cycle:9", "grid:3x4", "regular:3,10,seed=2"])
def test_a_flood_reaches_balls(spec: str) -> None:
    network = Network.from_spec(spec)
    found = network.animate(2, aggregations=["flooded-totals"], rounds=network.diameter).values[0]
    graph = nx.from_scipy_sparse_array(network.adjacency)
    away = nx.single_source_shortest_path_length(graph, 2)
    for after, believed in enumerate(found):
        assert believed.tolist() == [float(away[agent] <= after) for agent in range(len(away))]


def test_a_tree_reaches_all_along_its_branches() -> None:
    """On a graph that is a tree it has no choice: news travels one hop a round."""
    network = Network.from_spec("path:6")
    found = network.animate(5, aggregations=["tree-sums"], rounds=5).values[0]
    assert found.tolist() == [
        [float(5 - agent <= after) for agent in range(6)] for after in range(6)
    ]


def test_on_a_ring_a_tree_takes_the_long_way_to_some() -> None:
    shown = Network.from_spec("cycle:12").animate(
        rounds=11, aggregations=["tree-sums", "flooded-totals"]
    )
    assert ((shown.values == 0.0) | (shown.values == 1.0)).all()
    tree, flood = (int(np.flatnonzero(row == 1.0)[0]) for row in shown.informed)
    assert flood == 6
    assert 6 < tree <= 11


def test_what_is_compared_unless_told() -> None:
    network = Network.from_spec("cycle:8")
    shown = network.animate()
    assert shown.names == tuple(USUAL) == ("plain mixing", "accelerated mixing", "tree", "flood")
    assert shown.values.shape == (4, network.mixing_rounds() + 1, 8)
    assert shown.informed[1:, -1].tolist() == [1.0] * 3


@pytest.mark.parametrize("spec", cb.AGGREGATIONS, ids=lambda each: each.name)
def test_every_aggregation_can_be_watched(spec: type[AnyAggregation]) -> None:
    shown = Network.from_spec("path:3").animate(aggregations=[spec.name], rounds=3)
    assert np.isfinite(shown.values).all()
    assert shown.names == (spec.name,)


def test_a_single_aggregation_needs_no_list() -> None:
    assert Network.from_spec("path:3").animate(aggregations="tree-sums").names == ("tree-sums",)


def test_one_agent_alone_knows_it_all() -> None:
    assert (Network.from_spec("complete:1").animate(rounds=2).values == 1.0).all()


def refusal(**arguments: object) -> str:
    network = Network.from_spec("cycle:5")
    with pytest.raises(InputError) as caught:
        network.animate(**arguments)  # type: ignore[arg-type]  # bad ones
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    assert "agent 5" in refusal(source=5)
    assert "rounds" in refusal(rounds=0)
    assert "gif, html" in refusal(path=tmp_path / "news.mp4")
    assert "gif, html" in refusal(path=tmp_path / "news")
    assert "central-totals" in refusal(aggregations=["central-totals"])
    assert "unknown aggregation 'tree'" in refusal(aggregations=["tree"])
    assert "cb.TreeSums()" in refusal(aggregations=[3])
    assert "no aggregation" in refusal(aggregations=[])
    assert "1,000,000" in refusal(rounds=100_000)
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_plays_it_in_a_frame() -> None:
    shown = Network.from_spec("cycle:5").animate(rounds=2)
    assert shown._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')
