"""Graphs from files: edge lists and GraphML."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.network.adjacency import ordered_labels

SUFFIXES = (".txt", ".edges", ".edgelist", ".csv", ".graphml")

_HEADERS = {("source", "target"), ("from", "to"), ("u", "v"), ("node1", "node2")}

Row = tuple[int, list[str]]


def read_graph_file(path: Path) -> Any:
    """Return the networkx graph in a file.

    ``.txt``, ``.edges`` and ``.edgelist`` hold one edge per line, two labels separated by blanks;
    ``.csv`` separates them by commas and may start with a header such as ``source,target``. A
    number that follows in every line is the weight of the edge, unless a header calls it otherwise;
    whatever else follows is no part of the graph, and nor are empty lines and lines starting with
    ``#``. Labels are whole numbers where all of them are, and written as such: ``01`` is a text.
    ``.graphml`` is GraphML.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"graph file {str(path)!r} has an unknown ending; write an edge list "
            "(.txt, .edges, .edgelist, .csv) or GraphML (.graphml)"
        )
    try:
        if not path.is_file():
            raise InputError(
                f"there is no file {str(path)!r}; give the path of an existing graph file"
            )
        return _read_graphml(path) if path.suffix.lower() == ".graphml" else _read_edges(path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"graph file {str(path)!r} cannot be read ({error}); give a readable text file"
        ) from None


def _read_graphml(path: Path) -> Any:
    import networkx as nx  # imported late: it takes a noticeable time

    try:
        return nx.read_graphml(path)
    # The XML parser raises SyntaxError; the others come from odd but well-formed files.
    except (nx.NetworkXError, SyntaxError, ValueError, KeyError) as error:
        raise InputError(
            f"graph file {str(path)!r} is no GraphML ({error}); write it with "
            "networkx.write_graphml, or give an edge list"
        ) from None


def _read_edges(path: Path) -> Any:
    rows = list(_rows(path))
    pairs = [_labels(row, path) for row in rows]
    if not pairs:
        raise InputError(
            f"graph file {str(path)!r} holds no edges; write one edge per line, such as '0 1'"
        )
    import networkx as nx  # imported late: it takes a noticeable time

    edges = _as_numbers(pairs)
    graph: Any = nx.Graph()
    graph.add_nodes_from(ordered_labels(edges))
    graph.add_edges_from(edges)
    for (first, second), weight in zip(edges, _weights(rows, path), strict=False):
        known = graph.edges[first, second].setdefault("weight", weight)
        if known != weight:
            raise InputError(
                f"graph file {str(path)!r} gives edge {first!r} – {second!r} the weights {known:g} "
                f"and {weight:g}; give it one"
            )
    return graph


def _weights(rows: list[Row], path: Path) -> list[float]:
    """Return the third number of every line, or nothing where a line has none."""
    try:
        weights = [float(cells[2]) for _, cells in rows]
    except (ValueError, IndexError):
        return []
    for (line, _), weight in zip(rows, weights, strict=True):
        if math.isnan(weight):  # equals no weight, not even itself
            raise InputError(
                f"line {line} of graph file {str(path)!r} has the weight {weight}, which is not "
                "finite; give every edge a number from 0 on, or remove all weights"
            )
    return weights


def _rows(path: Path) -> Iterator[Row]:
    """Yield line number and columns of every line with an edge."""
    commas = path.suffix.lower() == ".csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file) if commas else (line.split() for line in file)
        first, width = True, 3
        for number, columns in enumerate(lines, start=1):
            cells = [cell.strip() for cell in columns]
            if not any(cells) or cells[0].startswith("#"):
                continue
            header = commas and first and tuple(cell.lower() for cell in cells[:2]) in _HEADERS
            first = False
            if header:
                width = 3 if cells[2:3] and cells[2].lower() == "weight" else 2
            else:
                yield number, cells[:width]


def _labels(row: Row, path: Path) -> tuple[str, str]:
    number, cells = row
    if len(cells) < 2 or not cells[0] or not cells[1]:
        raise InputError(
            f"line {number} of graph file {str(path)!r} names {sum(map(bool, cells))} node; every "
            "line must name the two ends of an edge, such as "
            + ("'0,1'" if path.suffix.lower() == ".csv" else "'0 1'")
        )
    return cells[0], cells[1]


def _as_numbers(pairs: list[tuple[str, str]]) -> list[tuple[Any, Any]]:
    try:
        numbers = [(int(u), int(v)) for u, v in pairs]
    except ValueError:
        return list(pairs)
    # 01 and 1 are one number, but two nodes.
    return numbers if [(str(u), str(v)) for u, v in numbers] == pairs else list(pairs)
