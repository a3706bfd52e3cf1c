from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.network import Network, generators, parse_graph


def edges_of(graph: Any) -> set[tuple[int, int]]:
    """Edges as sorted pairs of agent numbers."""
    adjacency = Network(graph).adjacency.tocoo()
    return {(int(i), int(j)) for i, j in zip(adjacency.row, adjacency.col, strict=True) if i < j}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("cycle:5", nx.cycle_graph(5)),
        ("cycle:3", nx.cycle_graph(3)),
        ("cycle:2", nx.path_graph(2)),
        ("cycle:1", nx.empty_graph(1)),
        ("path:4", nx.path_graph(4)),
        ("path:1", nx.empty_graph(1)),
        ("complete:6", nx.complete_graph(6)),
        ("complete:1", nx.empty_graph(1)),
        ("star:20", nx.star_graph(19)),
        ("star:1", nx.empty_graph(1)),
        ("barbell:4,2", nx.barbell_graph(4, 2)),
        ("grid:3x4", nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4))),
        ("grid:1x1", nx.empty_graph(1)),
        (" cycle:5 ", nx.cycle_graph(5)),
        ("erdos-renyi:5,1", nx.complete_graph(5)),
        ("small-world:12,4,0", nx.watts_strogatz_graph(12, 4, 0)),
        ("regular:4,5", nx.complete_graph(5)),
        ("regular:0,1", nx.empty_graph(1)),
        ("regular:1,2", nx.path_graph(2)),
    ],
)
def test_named_graphs(spec: str, expected: Any) -> None:
    assert edges_of(parse_graph(spec)) == edges_of(expected)
    assert Network.from_spec(spec).num_agents == len(expected)


def test_a_bar_stands_for_the_union() -> None:
    union = nx.compose(nx.cycle_graph(9), nx.star_graph(8))
    assert edges_of(parse_graph("cycle:9|star:9")) == edges_of(union)
    assert Network.from_spec("cycle:9|star:9").description == "cycle:9|star:9"
    assert edges_of(parse_graph("cycle:9|cycle:9")) == edges_of(nx.cycle_graph(9))
    with pytest.raises(InputError, match=r"\(9 and 8\)"):
        parse_graph("cycle:9|star:8")


def test_a_union_of_files_keeps_their_labels(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ann bob\nbob eve\n")
    (tmp_path / "b.txt").write_text("ann eve\neve bob\n")
    network = Network.from_spec(f"{tmp_path}/a.txt|{tmp_path}/b.txt")
    assert network.labels == ("ann", "bob", "eve")
    assert network.num_edges == 3


@pytest.mark.parametrize(
    ("degree", "size"), [(3, 10), (3, 50), (4, 9), (7, 16), (9, 16), (12, 14), (60, 125), (8, 5000)]
)
def test_regular_graphs_are_regular_and_simple(degree: int, size: int) -> None:
    for seed in range(3):
        network = Network.from_spec(f"regular:{degree},{size},seed={seed}")
        assert set(network.degrees.tolist()) == {degree}
        assert network.num_agents == size


@pytest.mark.parametrize(
    "spec", ["regular:3,50", "erdos-renyi:60,0.2", "small-world:60,4,0.3", "regular:30,50"]
)
def test_random_graphs_depend_on_the_seed_alone(spec: str) -> None:
    assert edges_of(parse_graph(spec)) == edges_of(parse_graph(f"{spec},seed=0"))
    assert edges_of(parse_graph(spec)) != edges_of(parse_graph(f"{spec},seed=3"))


def test_erdos_renyi_has_about_the_expected_edges() -> None:
    count = Network.from_spec("erdos-renyi:300,0.1").num_edges
    expected, deviation = 300 * 299 / 2 * 0.1, (300 * 299 / 2 * 0.09) ** 0.5
    assert abs(count - expected) < 5 * deviation


def test_regular_graphs_hold_every_edge_equally_often() -> None:
    counts = np.zeros((6, 6))
    for seed in range(400):
        try:
            counts += parse_graph(f"regular:3,6,seed={seed}").toarray()
        except InputError:
            continue
    edges = counts[np.triu_indices(6, 1)]
    assert edges.sum() >= 9 * 350
    assert np.abs(edges / edges.mean() - 1).max() < 0.2


def test_large_graphs_are_built_quickly() -> None:
    assert Network.from_spec("regular:4,200000").num_edges == 400_000
    assert Network.from_spec("cycle:100000").num_edges == 100_000


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("cycel:100", "'cycel'.*'cycle'"),
        ("torus", "unknown graph 'torus'"),
        pytest.param("x" * 5000, "'x*'", id="long"),
        pytest.param(f"{'x' * 5000}.txt", "graph file.*too long", id="long file"),
        ("", "cycle:100"),
        ("cycle", "'cycle'.*cycle:N.*cycle:100"),
        ("cycle:", "cycle:N"),
        ("cycle:ten", "cycle:N"),
        ("cycle:3,4", "cycle:N"),
        ("cycle:100,seed=1", "cycle:N"),
        ("grid:10", "grid:ROWSxCOLUMNS.*grid:10x10"),
        ("grid:10,10", "grid:ROWSxCOLUMNS"),
        ("regular:3", r"regular:DEGREE,N\[,seed=S\]"),
        ("regular:3,50,sead=7", r"regular:DEGREE,N\[,seed=S\]"),
        ("regular:3,50,seed=-1", "regular:DEGREE"),
        ("regular:seed=7", "regular:DEGREE"),
        ("erdos-renyi:100,many", "erdos-renyi:N,PROBABILITY"),
        ("small-world:100,4", "small-world:N,DEGREE,PROBABILITY"),
        ("cycle:0", r"cycle\b.* 1 .* 0\b"),
        ("path:-3", r"path\b.* 1 .* -3\b"),
        ("star:0", r"star\b.* 1 .* 0\b"),
        ("complete:0", r"complete\b.* 1 .* 0\b"),
        ("grid:0x4", r"grid\b.* 0x4"),
        ("barbell:1,2", r"barbell\b.* 2 "),
        ("regular:3,5", "degree 3 with 5"),
        ("regular:5,5", r"degree\b.* 5\b"),
        ("erdos-renyi:10,1.5", r"probability\b.* 10,1\.5"),
        ("erdos-renyi:10,nan", r"probability\b.* 10,nan"),
        ("small-world:10,3,0.1", "even degree"),
        ("small-world:10,2,2", "rewiring probability"),
        ("erdos-renyi:100,0.001", "disconnected.* [0-9]+ components.*seed=1"),
        ("regular:2,300,seed=4", "disconnected.*seed=5"),
        ("complete:100000", "4999950000.* 20000000"),
    ],
)
def test_bad_shorthand_is_refused_in_a_sentence(spec: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_graph(spec)


def test_a_small_world_that_never_connects_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any, **options: Any) -> None:
        raise nx.NetworkXError

    monkeypatch.setattr(nx, "connected_watts_strogatz_graph", never)
    with pytest.raises(InputError, match=r"60,2,1.*seed 4"):
        parse_graph("small-world:60,2,1,seed=4")


def test_regular_graphs_come_from_networkx_where_pairing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generators, "_bad_pairs", lambda first, second, size: np.array([0]))
    assert set(Network.from_spec("regular:3,20").degrees.tolist()) == {3}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("g.txt", "# a comment\n10 2\n\n2 3 0.5\n"),
        ("g.edges", "10\t2\n2\t3\n"),
        ("g.edgelist", "10 2 {'weight': 3}\n2 3 {}\n"),
        ("g.csv", "source,target,weight\n10,2,1\n2, 3,1\n"),
        ("G.CSV", "\ufeff10,2\n2,3\n"),
    ],
)
def test_edge_list_files(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    network = Network.from_spec(str(tmp_path / name))
    assert network.labels == (2, 3, 10)
    assert network.neighbors(0) == (1, 2)
    assert network.description == str(tmp_path / name)


def test_labels_stay_text_unless_all_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("10 b\nb 9\n")
    assert Network.from_spec(str(tmp_path / "g.txt")).labels == ("10", "9", "b")


def test_labels_that_are_one_number_are_two_nodes(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("01 1\n1 2\n2 -3\n")
    network = Network.from_spec(str(tmp_path / "g.txt"))
    assert (set(network.labels), network.num_edges) == ({"01", "1", "2", "-3"}, 3)
    (tmp_path / "g.txt").write_text("0 1\n1 -3\n")
    assert Network.from_spec(str(tmp_path / "g.txt")).labels == (-3, 0, 1)


def test_graphml_files(tmp_path: Path) -> None:
    nx.write_graphml(nx.Graph([("x", "y"), ("y", "z")]), tmp_path / "g.graphml")
    network = Network.from_spec(str(tmp_path / "g.graphml"))
    assert network.labels == ("x", "y", "z")
    assert network.num_edges == 2


def test_directed_graphml_is_refused(tmp_path: Path) -> None:
    nx.write_graphml(nx.DiGraph([("x", "y")]), tmp_path / "g.graphml")
    with pytest.raises(InputError, match="directed"):
        Network.from_spec(str(tmp_path / "g.graphml"))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("g.txt", b"", "'0 1'"),
        ("g.txt", b"# nothing\n", "holds no edges"),
        ("g.csv", b"source,target\n", "holds no edges"),
        ("g.txt", b"0 1\n2\n", r"line 2\b.*'0 1'"),
        ("g.csv", b"0,1\n2,\n", r"line 2\b.*'0,1'"),
        ("g.txt", b"0 1 1\n\n1 2 nan\n", r"line 3\b.* nan"),
        ("g.txt", b"\xff\xfe\x00 1", r"g\.txt"),
        ("g.graphml", b"", "is no GraphML"),
        ("g.graphml", b"<html></html>", "is no GraphML"),
        ("g.json", b"{}", r"g\.json"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        parse_graph(str(tmp_path / name))


@pytest.mark.parametrize("make", [lambda path: path / "absent.txt", lambda path: path / "d.txt"])
def test_missing_files_are_a_sentence(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    (tmp_path / "d.txt").mkdir()
    with pytest.raises(InputError, match=re.escape(make(tmp_path).name)):
        parse_graph(str(make(tmp_path)))
