"""The shorthand for graphs: ``cycle:100``, ``grid:10x10``, ``regular:3,50,seed=7``, or a file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from inspect import Parameter, isclass, signature
from pathlib import Path
from typing import Any

from scipy import sparse
from scipy.sparse import csgraph

from coopbandits.core.errors import InputError
from coopbandits.core.registry import Registry
from coopbandits.core.spelling import make, parse_value
from coopbandits.network import generators
from coopbandits.network.adjacency import Labels, edge_weights, read_adjacency
from coopbandits.network.files import SUFFIXES, read_graph_file
from coopbandits.network.from_igraph import as_networkx


@dataclass(frozen=True)
class _Family:
    """One family of graphs: how it is written, and what builds it."""

    form: str
    example: str
    build: Callable[..., Any]
    types: tuple[type[int] | type[float], ...]
    separator: str = ","
    random: bool = False


FAMILIES = {
    "cycle": _Family("cycle:N", "cycle:100", generators.cycle, (int,)),
    "path": _Family("path:N", "path:10", generators.path, (int,)),
    "grid": _Family("grid:ROWSxCOLUMNS", "grid:10x10", generators.grid, (int, int), "x"),
    "complete": _Family("complete:N", "complete:8", generators.complete, (int,)),
    "star": _Family("star:N", "star:20", generators.star, (int,)),
    "barbell": _Family("barbell:CLIQUE,BRIDGE", "barbell:10,5", generators.barbell, (int, int)),
    "regular": _Family(
        "regular:DEGREE,N[,seed=S]",
        "regular:3,50,seed=7",
        generators.regular,
        (int, int),
        random=True,
    ),
    "erdos-renyi": _Family(
        "erdos-renyi:N,PROBABILITY[,seed=S]",
        "erdos-renyi:100,0.1",
        generators.erdos_renyi,
        (int, float),
        random=True,
    ),
    "small-world": _Family(
        "small-world:N,DEGREE,PROBABILITY[,seed=S]",
        "small-world:100,4,0.1",
        generators.small_world,
        (int, int, float),
        random=True,
    ),
}

GRAPHS: Registry[Any] = Registry(
    "graph",
    "coopbandits.graphs",
    FAMILIES,
    lambda thing: callable(thing) and not isclass(thing),
    "a function of numbers that returns a graph of networkx or igraph, an adjacency or edges",
)

register_graph = GRAPHS.register


def parse_graph(text: str) -> Any:
    """Return the graph that a shorthand or a file name stands for, as `Network` takes it.

    Parameters
    ----------
    text : str
        ``cycle:N``, ``path:N``, ``grid:ROWSxCOLUMNS``, ``complete:N``, ``star:N`` (N agents in
        all), ``barbell:CLIQUE,BRIDGE``, ``regular:DEGREE,N``, ``erdos-renyi:N,PROBABILITY``,
        ``small-world:N,DEGREE,PROBABILITY``, the last three with an optional ``,seed=S`` (0 by
        default); or the path of an edge list or GraphML file. Several, separated by bars as in
        ``cycle:9|grid:3x3``, stand for the union of their edges. A user-defined function is
        written ``my_module:make_graph:10,0.5,seed=1``: it is called with the numbers, and with the
        seed if it has such a parameter, and returns whatever `Network` takes.

    Returns
    -------
    scipy.sparse.csr_array or networkx.Graph
        An adjacency, or a graph with labels where a file has them; or what the function returned.
    """
    if not text.strip():
        raise InputError("graph is empty; write one such as cycle:100, or a file's path")
    if "|" in text:
        return union([_unweighted(part) for part in text.split("|")], text)
    name, _, arguments = text.strip().partition(":")
    if name in FAMILIES:
        return _build(name, arguments, text)
    path = Path(text)
    if path.suffix.lower() in SUFFIXES or "/" in text or _exists(path):
        return read_graph_file(path)
    return _call(*GRAPHS.find(text), text)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # longer than names of files can be
        return False


def union(graphs: Sequence[tuple[sparse.csr_array, Labels]], text: str) -> Any:
    """Return the graph of all edges of some graphs of the same agents."""
    labels = graphs[0][1]
    for _, others in graphs:
        if others != labels:
            raise InputError(
                f"graphs of {text!r} have different agents ({len(labels)} and {len(others)}); "
                "a union is made of graphs of the same agents"
            )
    adjacency: Any = sum(adjacency for adjacency, _ in graphs)
    adjacency.data[:] = 1.0
    if labels == tuple(range(len(labels))):
        return adjacency
    import networkx as nx  # imported late: it takes a noticeable time

    graph = nx.from_scipy_sparse_array(adjacency)
    return nx.relabel_nodes(graph, dict(enumerate(labels)))


def _unweighted(text: str) -> tuple[sparse.csr_array, Labels]:
    graph = parse_graph(text)
    adjacency, labels = read_adjacency(graph)
    if edge_weights(graph, adjacency, labels) is not None:
        raise InputError(
            f"graph {text!r} has edge weights, and a union of graphs has none; remove them"
        )
    return adjacency, labels


def _build(name: str, arguments: str, text: str) -> Any:
    family = FAMILIES[name]
    try:
        values, seed = _numbers(arguments, family)
    except ValueError:
        raise InputError(
            f"graph {text!r} is malformed; write {family.form}, for instance {family.example}"
        ) from None
    if not family.random:
        return family.build(*values)
    graph = family.build(*values, seed)
    _require_connected(graph, text, seed)
    return graph


def _call(function: Callable[..., Any], arguments: str, text: str) -> Any:
    """Return what a user-defined function makes of the arguments."""
    parts = [part.strip() for part in arguments.split(",") if arguments.strip()]
    named = signature(function).parameters
    seed = {"seed": 0} if "seed" in named else {}
    if parts and parts[-1].startswith("seed=") and seed:
        seed["seed"] = parse_value(parts.pop().removeprefix("seed="))
    values = [parse_value(part) for part in parts]
    try:
        signature(function).bind(*values, **seed)
        numbers = all(type(value) in (int, float) for value in (*values, *seed.values()))
    except TypeError:
        numbers = False
    if not numbers:
        name = GRAPHS.name_of(function)
        raise InputError(f"graph {text!r} is malformed; write {_form(name, named.values())}")
    return as_networkx(make(f"graph {text!r}", function, *values, **seed))


def _form(name: str, parameters: Collection[Parameter]) -> str:
    """Return how a function's arguments are written, such as ``make:SIZE[,CHANCE][,seed=S]``."""
    given = [p for p in parameters if p.name != "seed"]
    shown = [
        f",{p.name.upper()}" if p.default is p.empty else f"[,{p.name.upper()}]" for p in given
    ]
    seed = ["[,seed=S]"] if len(given) < len(parameters) else []
    return f"{name}:" + "".join([*shown, *seed]).removeprefix(",")


def _numbers(arguments: str, family: _Family) -> tuple[list[int | float], int]:
    """Return the arguments and the seed; raise ValueError if they do not fit the form."""
    parts = [part.strip() for part in arguments.split(family.separator)]
    seed = 0
    if family.random and parts[-1].startswith("seed="):
        seed = int(parts.pop().removeprefix("seed="))
    if len(parts) != len(family.types) or seed < 0:
        raise ValueError
    return [kind(part) for kind, part in zip(family.types, parts, strict=True)], seed


def _require_connected(graph: sparse.csr_array, text: str, seed: int) -> None:
    count, _ = csgraph.connected_components(graph, directed=False)
    if count > 1:
        raise InputError(
            f"graph {text!r} came out disconnected, in {count} components; take another seed, for "
            f"instance seed={seed + 1}, or a larger degree or probability"
        )
