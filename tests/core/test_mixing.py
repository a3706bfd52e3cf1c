"""Gossip steps against the Chebyshev polynomial itself, and how many of them are needed."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from coopbandits.core import DDUCB, InputError
from coopbandits.core.draws import normals, words
from coopbandits.core.mixing import chebyshev_step, mixing_rounds, next_rho

from .fleet import GRAPHS, Matrix, exchange, gossip_matrix, make_agents, second_eigenvalue, staged

Floats = NDArray[np.float64]

EPSILON = 1 / 22
CYCLE = gossip_matrix(nx.cycle_graph(100))
TABLE = {
    "cycle 100": (CYCLE, 0.99868449, 164, 5847),
    "cycle 200": (gossip_matrix(nx.cycle_graph(200)), 0.99967104, 355, 25499),
    "grid 10x10": (
        gossip_matrix(nx.convert_node_labels_to_integers(nx.grid_2d_graph(10, 10))),
        0.98042261, 43, 390,
    ),
    "grid 15x15": (
        gossip_matrix(nx.convert_node_labels_to_integers(nx.grid_2d_graph(15, 15))),
        0.99125904, 70, 969,
    ),
}  # fmt: skip


def accelerated(matrix: Matrix, start: Floats, steps: int, lam: float) -> Floats:
    """The recursion on the whole network at once."""
    y, before, rho = start, np.zeros_like(start), np.zeros_like(start)
    for _ in range(steps):
        rho_next = next_rho(rho, lam)
        y, before = chebyshev_step(matrix @ y, before, rho, rho_next, lam), y
        rho = rho_next
    return y


def polynomial(matrix: Matrix, start: Floats, steps: int, lam: float) -> Floats:
    """T_C(P/λ)/T_C(1/λ) of the start, by eigenvalues: cos and cosh, no recursion."""
    values, vectors = np.linalg.eigh(matrix)
    x = values / lam
    inside = np.cos(steps * np.arccos(np.clip(x, -1.0, 1.0)))
    outside = np.cosh(steps * np.arccosh(np.maximum(1.0, np.abs(x)))) * np.sign(x) ** steps
    chebyshev = np.where(np.abs(x) <= 1.0, inside, outside)
    top = math.cosh(steps * math.acosh(1.0 / lam))
    result: Floats = vectors @ (chebyshev / top * (vectors.T @ start))
    return result


def first_unit(size: int) -> Floats:
    unit = np.zeros(size)
    unit[0] = 1.0
    return unit


def error(y: Floats) -> float:
    return float(y.size * np.linalg.norm(y - y.sum() / y.size))


def test_cycle_100_oracle() -> None:
    y = accelerated(CYCLE, first_unit(100), 164, second_eigenvalue(CYCLE))
    assert y.sum() == pytest.approx(1.0, abs=1e-12)
    assert error(y) == pytest.approx(0.0308330, abs=5e-8)


@pytest.mark.plays
def test_cycle_100_oracle_through_agents() -> None:
    """The same number when 100 agents pass messages: agent 0 saw reward 1, the others 0."""
    agents = make_agents(DDUCB(), CYCLE, num_arms=1)
    for i, agent in enumerate(agents):
        agent.observe(0, 1.0 if i == 0 else 0.0)
    assert staged(agents[0]).stage_rounds == 164
    for _ in range(1 + 164):
        exchange(agents)
    y = np.array([staged(agent).settled[0] for agent in agents])
    assert y.sum() == pytest.approx(1.0, abs=1e-12)
    assert error(y) == pytest.approx(0.0308330, abs=5e-8)


@pytest.mark.parametrize("graph", ["cycle-9", "star-6", "path-4", "grid-2x4", "regular-3-8"])
@pytest.mark.parametrize("above", [1.0, 1.02])
def test_recursion_is_the_chebyshev_polynomial(graph: str, above: float) -> None:
    for steps in (1, 2, 3, 10, 41):
        matrix = gossip_matrix(GRAPHS[graph])
        lam = min(0.99, above * second_eigenvalue(matrix))
        start = normals(words(5, np.arange(len(matrix), dtype=np.uint64)))
        expected = polynomial(matrix, start, steps, lam)
        assert accelerated(matrix, start, steps, lam) == pytest.approx(expected, abs=1e-12)


def test_first_step_is_plain() -> None:
    start = first_unit(100)
    assert accelerated(CYCLE, start, 1, 0.9) == pytest.approx(CYCLE @ start, abs=1e-15)


def test_rho_is_a_ratio_of_chebyshev_values() -> None:
    lam, rho = 0.8, np.zeros(1)
    for r in range(1, 30):
        rho = next_rho(rho, lam)
        angle = math.acosh(1 / lam)
        assert rho[0] == pytest.approx(math.cosh((r - 1) * angle) / math.cosh(r * angle))
        assert 0.0 < rho[0] < 1.0


@pytest.mark.parametrize("lam", [1e-9, 1e-6, 1e-3])
def test_tiny_lambda_never_overflows(lam: float) -> None:
    matrix = np.full((7, 7), 1 / 7)
    start = 1e6 * normals(words(6, np.arange(7, dtype=np.uint64)))
    y = accelerated(matrix, start, 5000, lam)
    assert y == pytest.approx(np.full(7, start.mean()), rel=1e-9)


@pytest.mark.parametrize("lam", [0.99999, 1 - 1e-12])
def test_lambda_near_one_never_overflows(lam: float) -> None:
    y = accelerated(gossip_matrix(GRAPHS["cycle-9"]), first_unit(9), 5000, lam)
    assert np.isfinite(y).all()
    assert y.sum() == pytest.approx(1.0, abs=1e-9)
    assert np.abs(y).max() <= 1.0 + 1e-9


@pytest.mark.parametrize("bound", [0.9987, 0.9995, 0.99999])
def test_a_bound_above_lambda_is_safe(bound: float) -> None:
    steps = mixing_rounds(100, bound, EPSILON)
    assert error(accelerated(CYCLE, first_unit(100), steps, bound)) <= EPSILON


@pytest.mark.parametrize("bound", [0.9, 0.99, 0.998])
def test_a_bound_below_lambda_is_not_safe(bound: float) -> None:
    steps = mixing_rounds(100, bound, EPSILON)
    assert error(accelerated(CYCLE, first_unit(100), steps, bound)) > EPSILON


@pytest.mark.parametrize("graph", TABLE)
def test_mixing_rounds_of_the_table(graph: str) -> None:
    matrix, lam, steps, plain_steps = TABLE[graph]
    assert second_eigenvalue(matrix) == pytest.approx(lam, abs=5e-9)
    for value in (lam, second_eigenvalue(matrix)):
        assert mixing_rounds(len(matrix), value, EPSILON) == steps
    plain = mixing_rounds(len(matrix), second_eigenvalue(matrix), EPSILON, accelerated=False)
    assert plain == plain_steps


@pytest.mark.parametrize("graph", TABLE)
def test_mixing_rounds_are_enough(graph: str) -> None:
    matrix = TABLE[graph][0]
    lam, size = second_eigenvalue(matrix), len(matrix)
    steps = mixing_rounds(size, lam, EPSILON)
    y = accelerated(matrix, first_unit(size), steps, lam)
    assert size * np.abs(y - 1 / size).max() <= EPSILON
    plain_steps = mixing_rounds(size, lam, EPSILON, accelerated=False)
    plain = np.linalg.matrix_power(matrix, plain_steps)[0]
    assert size * np.abs(plain - 1 / size).max() <= EPSILON


@pytest.mark.parametrize("accelerate", [True, False])
def test_lambda_zero_needs_one_step(accelerate: bool) -> None:
    for lam in (0.0, 0.9e-9):
        assert mixing_rounds(50, lam, EPSILON, accelerated=accelerate) == 1
    assert mixing_rounds(1, 0.0, EPSILON, accelerated=accelerate) == 1
    assert mixing_rounds(50, 0.5, EPSILON, accelerated=accelerate) > 1


@pytest.mark.parametrize("accelerate", [True, False])
def test_at_least_one_step(accelerate: bool) -> None:
    """A loose precision makes the logarithm negative; one step is made all the same."""
    assert mixing_rounds(1, 0.5, 100.0, accelerated=accelerate) == 1


@pytest.mark.parametrize("lam", [-0.1, 1.0, 1.5, math.nan])
def test_mixing_rounds_refuses_lambda(lam: float) -> None:
    with pytest.raises(InputError, match=f"lambda_bound.* {lam!r}"):
        mixing_rounds(10, lam, EPSILON)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_mixing_rounds_refuses_epsilon(epsilon: float) -> None:
    with pytest.raises(InputError, match=f"epsilon.* {epsilon!r}"):
        mixing_rounds(10, 0.5, epsilon)
