"""Named families of graphs as sparse adjacencies, built without a Python loop over nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator, default_rng  # noqa: TID251  (a seeded generator makes the graph, never a run)
from numpy.typing import NDArray
from scipy import sparse

from coopbandits.core.errors import InputError
from coopbandits.network.adjacency import adjacency_of

MAX_EDGES = 20_000_000
"""More edges than this are likely a typo, and need more memory than a laptop has."""

Ends = NDArray[np.int64]


def cycle(size: int) -> sparse.csr_array:
    """Return a cycle; two agents share one edge, one agent has none."""
    _require(size >= 1, f"a cycle needs at least 1 agent, but {size} were asked for")
    _require_edges(size)
    if size <= 2:
        return path(size)
    nodes = np.arange(size)
    return adjacency_of(nodes, (nodes + 1) % size, size)


def path(size: int) -> sparse.csr_array:
    """Return a path."""
    _require(size >= 1, f"a path needs at least 1 agent, but {size} were asked for")
    _require_edges(size - 1)
    nodes = np.arange(size - 1)
    return adjacency_of(nodes, nodes + 1, size)


def grid(rows: int, columns: int) -> sparse.csr_array:
    """Return a grid, its nodes numbered row by row."""
    _require(
        rows >= 1 and columns >= 1,
        f"a grid needs at least 1 row and 1 column, but {rows}x{columns} was asked for",
    )
    _require_edges(2 * rows * columns)
    nodes = np.arange(rows * columns).reshape(rows, columns)
    first = np.concatenate([nodes[:, :-1].ravel(), nodes[:-1].ravel()])
    second = np.concatenate([nodes[:, 1:].ravel(), nodes[1:].ravel()])
    return adjacency_of(first, second, nodes.size)


def complete(size: int) -> sparse.csr_array:
    """Return a complete graph."""
    _require(size >= 1, f"a complete graph needs at least 1 agent, but {size} were asked for")
    _require_edges(size * (size - 1) // 2)
    first, second = np.triu_indices(size, 1)
    return adjacency_of(first, second, size)


def star(size: int) -> sparse.csr_array:
    """Return a star of `size` agents in all, with agent 0 at the centre."""
    _require(size >= 1, f"a star needs at least 1 agent, but {size} were asked for")
    _require_edges(size - 1)
    leaves = np.arange(1, size)
    return adjacency_of(np.zeros_like(leaves), leaves, size)


def barbell(clique: int, bridge: int) -> Any:
    """Return two complete graphs of `clique` agents joined by a path of `bridge` more."""
    _require(
        clique >= 2 and bridge >= 0,
        "a barbell needs cliques of at least 2 agents and a path of at least 0 between them, but "
        f"{clique},{bridge} was asked for",
    )
    _require_edges(clique * (clique - 1) + bridge + 1)
    import networkx as nx  # imported late: it takes a noticeable time

    return nx.barbell_graph(clique, bridge)


def regular(degree: int, size: int, seed: int) -> sparse.csr_array:
    """Return a random regular graph: stubs paired at random, bad pairs shuffled again."""
    _require(
        0 <= degree < size and degree * size % 2 == 0,
        "a regular graph needs a degree below the number of agents and an even product of the two, "
        f"but degree {degree} with {size} agents was asked for",
    )
    _require_edges(degree * size // 2)
    if 2 * degree > size - 1:
        # In dense graphs few legal pairs are left, so the complement is drawn instead.
        absent = regular(size - 1 - degree, size, seed)
        return sparse.csr_array(complete(size) - absent)
    pairs = _paired_stubs(degree, size, default_rng(seed))
    if pairs is None:
        import networkx as nx  # imported late: it takes a noticeable time

        return _adjacency(nx.random_regular_graph(degree, size, seed=seed))
    return adjacency_of(pairs[0], pairs[1], size)


def erdos_renyi(size: int, probability: float, seed: int) -> sparse.csr_array:
    """Return a random graph in which every edge is present with the given probability."""
    _require(
        size >= 1 and 0.0 <= probability <= 1.0,
        "an Erdős–Rényi graph needs at least 1 agent and a probability from 0 to 1, but "
        f"{size},{probability:g} was asked for",
    )
    _require_edges(int(size * (size - 1) / 2 * probability))
    if probability == 1.0:
        return complete(size)
    import networkx as nx  # imported late: it takes a noticeable time

    return _adjacency(nx.fast_gnp_random_graph(size, probability, seed=seed))


def small_world(size: int, degree: int, probability: float, seed: int) -> sparse.csr_array:
    """Return a connected Watts–Strogatz graph: a ring of near neighbours, some edges rewired."""
    _require(
        2 <= degree < size and degree % 2 == 0 and 0.0 <= probability <= 1.0,
        "a small world needs an even degree from 2 to below the number of agents and a rewiring "
        f"probability from 0 to 1, but {size},{degree},{probability:g} was asked for",
    )
    _require_edges(size * degree // 2)
    import networkx as nx  # imported late: it takes a noticeable time

    try:
        return _adjacency(nx.connected_watts_strogatz_graph(size, degree, probability, seed=seed))
    except nx.NetworkXError:
        raise InputError(
            f"no connected small world {size},{degree},{probability:g} came out of seed {seed} in "
            "100 tries; take another seed or a larger degree"
        ) from None


def _paired_stubs(degree: int, size: int, rng: Generator) -> tuple[Ends, Ends] | None:
    """Pair `degree` stubs per node into edges, or return None if no simple graph came out."""
    stubs = rng.permutation(np.repeat(np.arange(size), degree))
    first, second = stubs[0::2].copy(), stubs[1::2].copy()
    for _ in range(200):
        bad = _bad_pairs(first, second, size)
        if not bad.size:
            return first, second
        # Bad pairs swap ends with each other and with a few good ones. Each new pair may be bad in
        # turn, so involving more would undo repairs in dense graphs.
        others = rng.integers(first.size, size=1 + bad.size // 10)
        mixed = np.union1d(bad, others)
        second[mixed] = rng.permutation(second[mixed])
    return None


def _bad_pairs(first: Ends, second: Ends, size: int) -> NDArray[np.intp]:
    """Return the positions of self-loops and of all but the first copy of an edge."""
    keys = np.minimum(first, second) * size + np.maximum(first, second)
    order = np.argsort(keys, kind="stable")
    bad = first == second
    bad[order[1:]] |= keys[order[1:]] == keys[order[:-1]]
    return np.flatnonzero(bad)


def _adjacency(graph: Any) -> sparse.csr_array:
    ends = np.array(graph.edges, dtype=np.int64).reshape(-1, 2)
    return adjacency_of(ends[:, 0], ends[:, 1], len(graph))


def _require_edges(count: int) -> None:
    _require(
        count <= MAX_EDGES,
        f"a graph of about {count} edges was asked for, and the shorthand builds at most "
        f"{MAX_EDGES}; ask for a smaller graph or give Network an adjacency of your own",
    )


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise InputError(sentence)
