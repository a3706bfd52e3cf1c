"""Users' own graphs and clocks."""

from __future__ import annotations

from typing import Any

import pytest

import coopbandits as cb
from coopbandits.network import parse_graph

from .playing import Mine, play

# Graphs


@pytest.mark.parametrize(
    ("text", "agents", "edges"),
    [
        ("my_module:wheel:6", 6, 10),
        ("my_module:wheel: 6 ,seed=3", 6, 10),
        ("my_module:chain:4", 4, 3),
        ("my_module:chain:4,2", 6, 5),
        ("my_module:chain:6|my_module:wheel:6", 6, 10),
        ("my_module:chain:6|cycle:6", 6, 6),
    ],
)
def test_graphs(mine: Mine, text: str, agents: int, edges: int) -> None:
    network = cb.Network.from_spec(text)
    assert (network.num_agents, network.num_edges, network.description) == (agents, edges, text)


def test_seeds_of_graphs(mine: Mine) -> None:
    def edges(text: str) -> set[Any]:
        return set(parse_graph(f"my_module:drawn:12,0.5{text}").edges)

    assert edges("") == edges(",seed=0") != edges(",seed=1")
    text = "my_module:drawn:12,0.5,seed=1"
    faults = f"graphs=3:{text},loss=0.2"
    result = play(graph=text, faults=faults, engine="reference")
    assert result.meta["settings"]["faults"] == f"loss=0.2,graphs=3:{text}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("my_module:whel:6", "'whel'.*'wheel'"),
        ("my_module:MyPolicy:6", r"my_module:MyPolicy\b.*function"),
        (
            "my_module:wheel",
            r"'my_module:wheel'.*my_module:wheel:SIZE\[,seed=S\]",
        ),
        ("my_module:wheel:six", "my_module:wheel:SIZE"),
        ("my_module:wheel:6,7,8", "my_module:wheel:SIZE"),
        ("my_module:wheel:6,seed=x", "my_module:wheel:SIZE"),
        ("my_module:chain:6,seed=1", r"my_module:chain:SIZE\[,EXTRA\]$"),
        ("my_module:drawn:6", r"my_module:drawn:SIZE,CHANCE\[,seed=S\]"),
        ("my_module:broken:6", "'my_module:broken:6'.*ValueError: no such graph"),
        ("my_module:no_problem", r"graph\b.* 3\b.*networkx"),
        ("no_module:wheel:6", "no_module:wheel"),
    ],
)
def test_graphs_refused(mine: Mine, text: str, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        cb.Network.from_spec(text)


# Clocks


def test_clocks(mine: Mine) -> None:
    clocks = cb.parse_clocks("my_module:MyClocks:ratio=2")
    assert clocks == mine.MyClocks(ratio=2)
    assert clocks and clocks.spelling == "my_module:MyClocks:ratio=2"
    result = play(policy=cb.parse_policy("gossip-ts"), clocks=clocks)
    assert result.meta["settings"]["clocks"] == "my_module:MyClocks:ratio=2"
