"""Power iteration: how good, how long, and that it is over for all at once."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits.core import InputError
from coopbandits.core.estimate import PowerIteration

from ..fleet import (
    GRAPHS,
    Matrix,
    gossip_matrix,
    one_view,
    second_eigenvalue,
    through_json,
)
from .gossip import connected_atlas, exchange_once, run, worded_views


def iterations(matrix: Matrix, spread: int, key: int = 7) -> list[PowerIteration]:
    return [PowerIteration(view, spread) for view in worded_views(matrix, key)]


def safe_and_tight(graph: nx.Graph[Any], key: int) -> tuple[bool, bool]:
    """Whether the bound is at least λ, and whether it gives away less than three quarters."""
    matrix = gossip_matrix(graph)
    estimators = iterations(matrix, nx.diameter(graph), key)
    run(estimators)
    (bound,) = {e.lambda_bound for e in estimators}
    lam = second_eigenvalue(matrix)
    return bound >= lam - 1e-9, 1 - bound >= 0.25 * (1 - lam)


def test_safe_on_most_small_graphs() -> None:
    found = [safe_and_tight(graph, key=3) for graph in connected_atlas()[::25]]
    assert np.mean([safe for safe, _ in found]) >= 0.95
    assert np.mean([tight for _, tight in found]) >= 0.9


@pytest.mark.slow
def test_safe_in_98_of_100_draws() -> None:
    found = [safe_and_tight(graph, key) for graph in connected_atlas() for key in (1, 2)]
    safe, tight = np.mean(found, axis=0)
    print(f"safe {safe:.4f}, tight {tight:.4f} of {len(found)} draws")
    assert safe >= 0.98


def test_a_cycle() -> None:
    """λ̂ is within a few per cent of the gap, and the bound gives half of the gap away."""
    matrix = gossip_matrix(nx.cycle_graph(12))
    estimators = iterations(matrix, 6)
    run(estimators)
    gap = 1 - second_eigenvalue(matrix)
    assert 1 - estimators[0].estimate == pytest.approx(gap, rel=0.1)
    assert 1 - estimators[0].lambda_bound == pytest.approx(gap / 2, rel=0.1)


def test_rounds_of_a_step_and_its_spreading() -> None:
    """z, then steps up to 1, 2, 4, … with D rounds after each: 1 + 2s + (2 + log₂ s) D in all."""
    estimators = iterations(gossip_matrix(nx.cycle_graph(12)), 6)
    rounds = run(estimators)
    asked = estimators[0].target // 2  # steps at the last norm
    assert rounds == 1 + asked + 6 * (1 + int(np.log2(asked)))


@pytest.mark.parametrize("size", [1, 2, 6])
def test_complete_graphs_have_lambda_zero(size: int) -> None:
    estimators = iterations(gossip_matrix(nx.complete_graph(size)), min(1, size - 1))
    run(estimators)
    assert {e.lambda_bound for e in estimators} == {0.0}


@pytest.mark.parametrize("lam", [1e-5, 1e-3, 0.02])
def test_a_small_lambda_is_not_taken_for_zero(lam: float) -> None:
    """Here v falls to rounding after a few steps, and the bound is what that tells."""
    matrix = np.full((4, 4), (1 - lam) / 4) + lam * np.eye(4)
    estimators = iterations(matrix, 1)
    run(estimators)
    assert lam <= estimators[0].lambda_bound <= 0.6


def test_a_restart_changes_nothing() -> None:
    matrix = gossip_matrix(GRAPHS["path-4"])
    estimators, restarted = iterations(matrix, 3), iterations(matrix, 3)
    while not estimators[0].done:
        for i, estimator in enumerate(restarted):
            state = through_json(estimator.export_state())
            restarted[i] = iterations(matrix, 3)[i]
            restarted[i].restore_state(state)
        exchange_once(estimators)
        exchange_once(restarted)
    assert [e.export_state() for e in estimators] == [e.export_state() for e in restarted]


def test_bad_messages_change_nothing() -> None:
    estimator = PowerIteration(one_view(random_word=2**60), 1)
    before = estimator.export_state()
    for messages in ({1: np.ones(1)}, {1: np.ones(1), 2: np.ones(2)}):
        with pytest.raises(InputError, match=r"\[2\]|\(1,\)"):
            estimator.receive(messages)
    assert estimator.export_state() == before


def test_a_liar_cannot_keep_it_from_ending() -> None:
    """An entry that never shrinks: after so many steps the guaranteed bound is all there is."""
    bound = 0.9
    power = PowerIteration(one_view(), 1, guaranteed=bound)
    while not power.done:
        power.receive({1: np.array([2.0]), 2: np.array([2.0])})
        assert power.rounds < 2 * 2 * 20.0 / (1.0 - bound) + 40
    assert bound <= power.lambda_bound <= 1.0
