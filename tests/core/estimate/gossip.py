"""Estimators on a small graph, driven by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
from networkx.generators.atlas import graph_atlas_g

from coopbandits.core import LocalView
from coopbandits.core.draws import words
from coopbandits.core.estimate.survey import Estimator

from ..fleet import Matrix, views


def connected_atlas() -> list[nx.Graph[Any]]:
    """All connected graphs of two to seven nodes, 995 of them."""
    return [graph for graph in graph_atlas_g() if len(graph) > 1 and nx.is_connected(graph)]


def worded_views(matrix: Matrix, key: int = 7) -> list[LocalView]:
    """Views with a random word, and without N and λ."""
    drawn = words(key, np.arange(len(matrix), dtype=np.uint64)).tolist()
    return [
        replace(view, num_agents=None, lambda_bound=None, random_word=word)
        for view, word in zip(views(matrix, 2, lambda_bound=0.5), drawn, strict=True)
    ]


def exchange_once(estimators: Sequence[Estimator]) -> int:
    """Play one round; returns how many values were sent."""
    sent = [{j: e.outgoing(j) for j in e.neighbors} for e in estimators]
    for i, estimator in enumerate(estimators):
        estimator.receive({j: sent[j][i] for j in estimator.neighbors})
    return sum(message.size for messages in sent for message in messages.values())


def run(estimators: Sequence[Estimator], most: int = 2000) -> int:
    """Play until done and return the number of rounds; all must end in the same one."""
    for number in range(most):
        ended = {estimator.done for estimator in estimators}
        assert len(ended) == 1
        if True in ended:
            return number
        exchange_once(estimators)
    raise AssertionError(f"not done after {most} rounds")


def metropolis(graph: nx.Graph[Any]) -> Matrix:
    """P_ij = 1/(1 + max(d_i, d_j)), written out once more."""
    degrees = dict(graph.degree)
    nodes = sorted(graph)
    matrix = np.zeros((len(nodes), len(nodes)))
    for i, j in graph.edges:
        weight = 1.0 / (1 + max(degrees[i], degrees[j]))
        matrix[nodes.index(i), nodes.index(j)] = matrix[nodes.index(j), nodes.index(i)] = weight
    return matrix + np.diag(1.0 - matrix.sum(axis=1))
