"""Links go down as told: together, in one direction, between two parts, by a sequence of graphs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from coopbandits.core.errors import InputError
from coopbandits.network import Network, parse_faults, parse_graph
from coopbandits.network.faults import (
    DOWN,
    Churn,
    Faults,
    Graphs,
    Kind,
    OneWay,
    Pairs,
    Partition,
    Redraw,
)
from coopbandits.network.faults import directed_links as links_of

NETWORK = Network.from_spec("grid:5x5")
LINKS = links_of(NETWORK)


def down(*kinds: Kind, rounds: int = 1000, run: int = 0) -> NDArray[np.bool_]:
    fate = Faults(*kinds).schedule(NETWORK, 3, run).read(rounds).fate
    assert set(np.unique(fate).tolist()) <= {DOWN, 0}
    return np.equal(fate, DOWN)


def reverse() -> NDArray[np.int64]:
    ends = list(zip(LINKS.receivers.tolist(), LINKS.senders.tolist(), strict=True))
    return np.array([ends.index((sender, receiver)) for receiver, sender in ends])


def test_churn_takes_both_directions() -> None:
    found = down(Churn(30.0, 10.0))
    assert np.array_equal(found, found[:, reverse()])
    one_way_each = found[:, LINKS.pair == np.arange(LINKS.pair.size)]
    ends = (~one_way_each[1:])[one_way_each[:-1]]  # of outages
    assert abs(ends.mean() - 0.1) < 5 * np.sqrt(0.1 * 0.9 / ends.size)
    independent = one_way_each.size / 40
    assert abs(one_way_each.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / independent)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_one_way_links_work_in_one_direction(share: float) -> None:
    found = down(OneWay(share), rounds=7)
    assert (found == found[0]).all()
    both = found[0] & found[0][reverse()]
    assert not both.any()
    assert found[0].sum() == round(share * NETWORK.num_edges)


def test_either_direction_may_be_the_one_that_works() -> None:
    first = np.array([down(OneWay(1.0), rounds=1, run=run)[0] for run in range(50)])
    share = first.mean(axis=0)
    assert (np.abs(share - 0.5) < 5 * 0.5 / np.sqrt(50)).all()


def components(present: NDArray[np.bool_]) -> NDArray[np.int32]:
    data = present.astype(float)
    shape = NETWORK.adjacency.shape
    graph = sparse.csr_array((data, (LINKS.receivers, LINKS.senders)), shape=shape)
    graph.eliminate_zeros()
    labels: NDArray[np.int32] = csgraph.connected_components(graph)[1]
    return labels


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_a_partition_separates_exactly_and_heals(share: float) -> None:
    found = down(Partition(share, 10, 30), rounds=50)
    assert not found[:9].any()  # rounds 1 to 9
    assert not found[29:].any()  # from round 30 on
    assert (found[9:29] == found[9]).all()
    part = components(~found[9])
    sizes = np.bincount(part)
    first = min(max(1, round(share * 25)), 24)
    assert sizes.max() <= max(first, 25 - first)  # what is cut off may itself fall apart
    assert first in sizes  # but the part around the centre hangs together
    assert np.array_equal(found[9], part[LINKS.senders] != part[LINKS.receivers])


def test_a_partition_may_last_and_differs_from_run_to_run() -> None:
    cuts = [down(Partition(0.5, 3), rounds=9, run=run) for run in range(8)]
    assert all(cut[2:].any(axis=1).all() and not cut[:2].any() for cut in cuts)
    assert len({cut.tobytes() for cut in cuts}) > 1


def test_links_are_redrawn_every_so_many_rounds() -> None:
    found = down(Redraw(50, 0.3), rounds=5000)
    epochs = found.reshape(100, 50, -1)
    assert (epochs == epochs[:, :1]).all()
    assert np.array_equal(found, found[:, reverse()])
    drawn = epochs[:, 0][:, LINKS.pair == np.arange(LINKS.pair.size)]
    assert abs(drawn.mean() - 0.7) < 5 * np.sqrt(0.3 * 0.7 / drawn.size)
    assert (epochs[0, 0] != epochs[1, 0]).any()


@pytest.mark.parametrize("graph", ["complete:6", "cycle:9", "star:7", "grid:4x4", "complete:1"])
def test_pairs_are_maximal_matchings(graph: str) -> None:
    network = Network.from_spec(graph)
    links = links_of(network)
    fate = Faults(Pairs(2)).schedule(network, 0, 0).read(40).fate
    for row, fates in enumerate(fate):
        up = fates != DOWN
        partners = np.bincount(links.senders[up], minlength=network.num_agents)
        assert partners.max(initial=0) <= 1
        assert np.array_equal(np.sort(links.senders[up]), np.sort(links.receivers[up]))
        alone = partners == 0  # no two of them are neighbours
        assert not (alone[links.senders] & alone[links.receivers]).any()
        assert np.array_equal(fates, fate[row // 2 * 2])


def test_on_a_complete_graph_every_pair_is_as_likely() -> None:
    network = Network.from_spec("complete:4")
    up = Faults(Pairs()).schedule(network, 0, 0).read(3000).fate != DOWN
    share = up.mean(axis=0)
    assert (abs(share - 1 / 3) < 5 * np.sqrt(2 / 9 / 3000)).all()


def test_graphs_take_turns_in_their_union() -> None:
    texts = ["cycle:9", "star:9", "grid:3x3"]
    network = Network.from_spec("|".join(texts))
    union = nx.compose_all([nx.from_scipy_sparse_array(parse_graph(text)) for text in texts])
    assert network.num_edges == union.number_of_edges()
    fate = Faults(Graphs(4, "|".join(texts))).schedule(network, 0, 0).read(30).fate
    links = links_of(network)
    for row, fates in enumerate(fate):
        present = np.zeros((9, 9))
        present[links.receivers, links.senders] = fates != DOWN
        assert np.array_equal(present, parse_graph(texts[row // 4 % 3]).toarray())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("churn=0..5", r"churn.* 0\b"),
        ("churn=5", r"'churn=5'.*churn=UP\.\.DOWN"),
        ("one-way=2", r"one-way.* 2\b"),
        ("partition=0.5@0", r"partition.* 0\b"),
        ("partition=0.5@9..9", r"partition.* 9\b.* 10\b"),
        ("redraw=0:0.5", r"redraw.* 0\b"),
        ("redraw=5", "'redraw=5'.*redraw=EVERY:PROBABILITY"),
        ("pairs=0", r"pairs.* 0\b"),
        ("graphs=cycle:9", "graphs=EVERY:GRAPHS"),
        ("graphs=0:cycle:9", r"graphs.* 0\b"),
        ("graphs=5:cycel:9", "'cycel'.*'cycle'"),
    ],
)
def test_bad_settings(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_faults(text)


@pytest.mark.parametrize(
    ("graph", "sentence"),
    [
        ("cycle:9", r"cycle:9\b.*\(9\).*\(25\)"),
        ("cycle:25", r"cycle:25\b.*links"),
    ],
)
def test_graphs_that_do_not_fit_the_network(graph: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_faults(f"graphs=5:grid:5x5|{graph}").schedule(NETWORK, 0, 0)
