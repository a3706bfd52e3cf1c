"""Links in a fixed order, and chance that depends on its place alone."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from coopbandits.network import Network
from coopbandits.network.faults import directed_links
from coopbandits.network.faults.links import Spells, chosen, draws, place_keys


@pytest.mark.parametrize("spec", ["star:6", "grid:3x4", "regular:3,20,seed=1", "path:1"])
def test_links_are_the_entries_of_the_adjacency(spec: str) -> None:
    network = Network.from_spec(spec)
    links = directed_links(network)
    entries = network.adjacency.tocoo()
    assert links.receivers.tolist() == entries.row.tolist()
    assert links.senders.tolist() == entries.col.tolist()
    ends = list(zip(links.receivers.tolist(), links.senders.tolist(), strict=True))
    assert ends == sorted(ends)
    for number, (receiver, sender) in enumerate(ends):
        assert links.pair[number] == min(number, ends.index((sender, receiver)))


def test_links_follow_the_graph_and_not_the_weights() -> None:
    """A caller's matrix may give an edge no weight; there is a link all the same."""
    matrix = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    network = Network(nx.complete_graph(3), weights=matrix)
    assert directed_links(network).senders.size == 6


def test_draws_depend_on_their_place_alone() -> None:
    keys = place_keys(5, 9)
    whole = draws(keys, np.arange(40))
    assert np.array_equal(whole[7:], draws(keys, np.arange(7, 40)))
    assert np.array_equal(whole[:, 2:4], draws(keys[2:4], np.arange(40)))
    assert not np.array_equal(whole, draws(place_keys(6, 9), np.arange(40)))


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.3, 3), (0.26, 3), (0.24, 2), (1.0, 10)])
def test_shares_are_rounded_to_whole_places(share: float, count: int) -> None:
    masks = [chosen(place_keys(key, 10), share) for key in range(40)]
    assert {int(mask.sum()) for mask in masks} == {count}
    if 0 < count < 10:
        assert np.logical_or.reduce(masks).all()  # anybody may be chosen


def test_spells_have_the_mean_lengths_asked_for() -> None:
    """Ends of spells are independent tosses: 5 standard errors of their share."""
    keys = place_keys(3, 400)
    down = Spells(keys, 20.0, 5.0)(np.arange(1000))
    for state, mean in ((False, 20.0), (True, 5.0)):
        before = down[:-1] == state
        ends = (down[1:] != state)[before]
        error = np.sqrt((1 / mean) * (1 - 1 / mean) / ends.size)
        assert abs(ends.mean() - 1 / mean) < 5 * error
    first = 5.0 / 25.0
    assert abs(down[0].mean() - first) < 5 * np.sqrt(first * (1 - first) / 400)
