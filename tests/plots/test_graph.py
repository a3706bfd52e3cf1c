"""A network as a figure."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

from coopbandits.core.errors import InputError
from coopbandits.network import Network

KARATE = Network(nx.karate_club_graph())


def drawn(figure: Figure) -> tuple[list[PathCollection], LineCollection]:
    """Return the nodes and the edges of a figure."""
    parts = figure.axes[0].collections
    (edges,) = [each for each in parts if isinstance(each, LineCollection)]
    return [each for each in parts if isinstance(each, PathCollection)], edges


def test_agents_and_edges_are_where_they_should_be() -> None:
    network = Network.from_spec("cycle:6")
    figure = network.plot()
    (nodes,), edges = drawn(figure)
    assert (np.asarray(nodes.get_offsets()) == network.positions).all()
    assert len(edges.get_segments()) == 6
    for segment, (i, j) in zip(edges.get_segments(), network.edges, strict=True):
        assert np.asarray(segment).tolist() == network.positions[[i, j]].tolist()
    assert [text.get_text() for text in figure.axes[0].texts] == list("012345")


def test_edges_are_as_wide_as_their_weights() -> None:
    network = Network(nx.Graph([("a", "b", {"weight": 1.0}), ("b", "c", {"weight": 3.0})]))
    _, edges = drawn(network.plot())
    weights = [network.matrix[i, j] for i, j in network.edges]
    assert np.argsort(np.asarray(edges.get_linewidth())).tolist() == np.argsort(weights).tolist()
    assert len(set(np.asarray(edges.get_linewidth()).tolist())) == 2
    _, alike = drawn(Network.from_spec("cycle:5").plot())
    assert set(np.asarray(alike.get_linewidth()).tolist()) == {1.0}


def test_numbers_are_colours_with_a_scale() -> None:
    network = Network.from_spec("star:4")
    figure = network.plot([3.0, 1.0, 2.0, 0.0], title="four")
    (nodes,), _ = drawn(figure)
    assert np.asarray(nodes.get_array()).tolist() == [3.0, 1.0, 2.0, 0.0]
    assert len(figure.axes) == 2
    assert figure.axes[0].get_title() == "four"


def test_texts_are_colours_and_shapes_with_a_legend() -> None:
    figure = KARATE.plot("club")
    kinds, _ = drawn(figure)
    assert [kind.get_label() for kind in kinds] == ["Mr. Hi", "Officer"]
    counts = [KARATE.attributes["club"].count(kind) for kind in ("Mr. Hi", "Officer")]
    assert [len(np.asarray(kind.get_offsets())) for kind in kinds] == counts
    shapes = [np.asarray(kind.get_paths()[0].vertices) for kind in kinds]
    assert shapes[0].shape != shapes[1].shape


def test_names_of_many_are_shown_on_request_only() -> None:
    network = Network.from_spec("cycle:41")
    for labels, expected in ((None, 0), (True, 41), (False, 0)):
        figure = network.plot(labels=labels)
        assert len(figure.axes[0].texts) == expected


def test_it_is_drawn_onto_given_axes_and_into_files(tmp_path: Path) -> None:
    axes = Figure().subplots()
    assert Network.from_spec("path:3").plot(ax=axes) is axes
    assert axes.collections
    for name in ("a.svg", "a.png"):
        Network.from_spec("path:3").plot(path=tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\(3,\).* 34 agents"):
        KARATE.plot([1, 2, 3])
    with pytest.raises(InputError, match=r"'color'.*club"):
        KARATE.plot("color")
    with pytest.raises(InputError, match="'doc'"):
        KARATE.plot(path=tmp_path / "a.doc")
    assert list(tmp_path.iterdir()) == []
