"""N by tag and mixing: the mixing of e_min, bounds that hold, and a common end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits.core import draws
from coopbandits.core.estimate import TagCount

from ..fleet import (
    GRAPHS,
    gossip_matrix,
    second_eigenvalue,
    through_json,
)
from .gossip import connected_atlas, exchange_once, run, worded_views


def counts(graph: nx.Graph[Any], *, accelerated: bool, repetitions: int = 1) -> list[TagCount]:
    matrix = gossip_matrix(graph)
    bound = second_eigenvalue(matrix) if accelerated else 0.0
    return [
        TagCount(view, nx.diameter(graph), lambda_bound=bound, repetitions=repetitions)
        for view in worded_views(matrix)
    ]


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("graph", ["cycle-9", "star-6", "grid-2x4", "path-4"])
def test_values_are_those_of_mixing_e_min(graph: str, accelerated: bool) -> None:
    estimators = counts(GRAPHS[graph], accelerated=accelerated)
    matrix = gossip_matrix(GRAPHS[graph])
    lam = second_eigenvalue(matrix)
    smallest = min(float(e.tags[0]) for e in estimators)
    y = np.array([float(e.tags[0] == smallest) for e in estimators])
    before, rho = np.zeros_like(y), 0.0
    for _ in range(25):
        exchange_once(estimators)
        factor = (2.0 if rho else 1.0) / lam
        rho_next = 1.0 / (factor - rho)
        step = rho_next * (factor * matrix @ y - rho * before) if accelerated else matrix @ y
        y, before, rho = step, y, rho_next
        held = [float(e.values[0]) if e.tags[0] == smallest else 0.0 for e in estimators]
        assert held == pytest.approx(y.tolist(), abs=1e-12)


def check_exact(graphs: list[nx.Graph[Any]], *, accelerated: bool) -> None:
    for graph in graphs:
        estimators = counts(graph, accelerated=accelerated)
        run(estimators)
        assert {e.num_agents for e in estimators} == {(len(graph), len(graph))}


@pytest.mark.parametrize("accelerated", [False, True])
def test_some_small_graphs(accelerated: bool) -> None:
    check_exact(connected_atlas()[::100], accelerated=accelerated)


@pytest.mark.slow
@pytest.mark.parametrize("accelerated", [False, True])
def test_every_small_graph(accelerated: bool) -> None:
    check_exact(connected_atlas(), accelerated=accelerated)


@pytest.mark.slow
def test_cycle_200_to_one_percent() -> None:
    """About C = 355 rounds for ε = 1/22; 1 % takes some more. Bounds hold at any time."""
    estimators = counts(nx.cycle_graph(200), accelerated=True)
    for number in range(501):
        exchange_once(estimators)
        low, high = estimators[0].num_agents
        assert low <= 200
        assert high is None or high >= 200
        if number == 500:
            found = [1.0 / float(e.values[0]) for e in estimators]
    assert found == pytest.approx([200.0] * 200, rel=0.01)


def test_bounds_close_in() -> None:
    estimators = counts(nx.cycle_graph(21), accelerated=False)
    seen = []
    for _ in range(120):
        exchange_once(estimators)
        seen.append(estimators[4].num_agents)
    assert seen[0] == (1, None)
    for low, high in seen:
        assert low <= 21
        assert high is None or high >= 21
    assert len(set(seen)) > 4
    assert run(estimators) > 0
    assert estimators[4].num_agents == (21, 21)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_complete_graphs(size: int) -> None:
    check_exact([nx.complete_graph(size)], accelerated=True)


def unmix(word: int) -> int:
    """The inverse of the mixing function, so that a word with a wanted tag can be made."""
    mask = 2**64 - 1

    def unshift(x: int, by: int) -> int:
        y = x
        for _ in range(3):
            y = x ^ (y >> by)
        return y

    word = unshift(word, 31) * pow(int(draws.MIX_2), -1, 2**64) & mask
    word = unshift(word, 27) * pow(int(draws.MIX_1), -1, 2**64) & mask
    return (unshift(word, 30) - int(draws.GOLDEN)) & mask


@pytest.mark.parametrize(("repetitions", "found"), [(1, 4), (2, 8)])
def test_repetitions_survive_a_shared_tag(repetitions: int, found: int) -> None:
    """Agents 2 and 5 share the smallest of the first tags, so that the first answer is N/2."""
    graph = nx.cycle_graph(8)
    views = worded_views(gossip_matrix(graph))
    views[2] = replace(views[2], random_word=unmix(5 << 11))
    views[5] = replace(views[5], random_word=unmix((5 << 11) + 1))
    estimators = [TagCount(view, 4, repetitions=repetitions) for view in views]
    assert estimators[2].tags[0] == estimators[5].tags[0] == 5.0
    run(estimators)
    assert estimators[0].num_agents == (found, found)


def test_a_restart_changes_nothing() -> None:
    graph = GRAPHS["path-4"]
    estimators = counts(graph, accelerated=True, repetitions=2)
    restarted = counts(graph, accelerated=True, repetitions=2)
    for _ in range(20):
        for i, estimator in enumerate(restarted):
            state = through_json(estimator.export_state())
            restarted[i] = counts(graph, accelerated=True, repetitions=2)[i]
            restarted[i].restore_state(state)
        exchange_once(estimators)
        exchange_once(restarted)
    assert [e.export_state() for e in estimators] == [e.export_state() for e in restarted]
