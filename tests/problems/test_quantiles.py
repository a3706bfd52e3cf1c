from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from coopbandits.problems.quantiles import (
    CELLS,
    beta_table,
    cell_means,
    cell_table,
    mean_of_table,
)

SHAPES = [(1, 1), (2, 20), (20, 2), (0.05, 2), (2, 0.05), (0.05, 0.05), (0.5, 0.5), (2, 2), (9, 7)]


def log_mgf(row: NDArray[np.float64], x: float) -> float:
    """Return ln E exp(x(X − mean)) of a LINEAR row, whose cells are uniform distributions."""
    start, end = row[::2], row[1::2]
    reach = np.abs(x) * (end - start) / 2
    large = np.maximum(reach, 1e-3)
    # ln(sinh(r)/r), by its series where the quotient would lose digits.
    spread = np.where(reach < 1e-3, reach**2 / 6, np.log(np.sinh(large) / large))
    total = logsumexp(x * ((start + end) / 2 - mean_of_table(row)) + spread)
    return float(total - np.log(start.size))


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_beta_keeps_mean_and_variance(a: float, b: float) -> None:
    row = beta_table(a, b)
    true = stats.beta(a, b)
    assert mean_of_table(row) == pytest.approx(true.mean(), abs=1e-11)
    centre, reach = (row[::2] + row[1::2]) / 2, (row[1::2] - row[::2]) / 2
    variance = np.mean((centre - true.mean()) ** 2 + reach**2 / 3)
    assert variance == pytest.approx(true.var(), rel=1e-4)
    assert variance <= true.var() * (1 + 1e-9)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_beta_quantiles_near_scipy(a: float, b: float) -> None:
    # Inside, to 5e-6; in the outermost cells the table is cut short, but never beyond the cell.
    row = beta_table(a, b)
    chances = (np.arange(4 * CELLS) + 0.5) / (4 * CELLS)
    position = chances * CELLS
    cell = position.astype(int)
    mine = row[2 * cell] + (position - cell) * (row[2 * cell + 1] - row[2 * cell])
    inside = (chances > 0.02) & (chances < 0.98)
    np.testing.assert_allclose(mine[inside], stats.beta.ppf(chances, a, b)[inside], atol=5e-6)
    edges = stats.beta.ppf(np.arange(CELLS + 1) / CELLS, a, b)
    assert (mine >= edges[cell] - 1e-12).all()
    assert (mine <= edges[cell + 1] + 1e-12).all()


@given(a=st.floats(1e-3, 300), b=st.floats(1e-3, 300))
@settings(max_examples=30, deadline=None)
def test_beta_rows_are_monotone_and_keep_the_proxy(a: float, b: float) -> None:
    row = beta_table(a, b)
    assert row.min() >= 0
    assert row.max() <= 1
    assert (np.diff(row) >= -1e-15).all()
    assert mean_of_table(row) == pytest.approx(a / (a + b), abs=1e-9)
    for x in (-200.0, -30.0, -3.0, -0.1, 0.1, 3.0, 30.0, 200.0):
        assert log_mgf(row, x) <= x**2 / (8 * (a + b + 1)) + 1e-9 * max(1, abs(x))


def test_interpolated_quantiles_would_break_the_proxy() -> None:
    """Why a row holds cells with exact means and not the quantiles at the edges."""
    edges = stats.beta.ppf(np.arange(CELLS + 1) / CELLS, 2, 20)
    naive = np.column_stack([edges[:-1], edges[1:]]).ravel()
    assert mean_of_table(naive) - 2 / 22 > 5e-5
    assert log_mgf(naive, 50.0) > 50.0**2 / (8 * 23)
    assert log_mgf(beta_table(2, 20), 50.0) <= 50.0**2 / (8 * 23)


def test_cell_lines_stay_between_the_edges() -> None:
    row = cell_table(np.array([0.0, 1.0, 1.0, 4.0]), np.array([0.25, 1.0, 3.5]))
    assert row.tolist() == [0.0, 0.5, 1.0, 1.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("distribution", "calls"),
    [
        (stats.uniform(), 8193),
        (stats.beta(2, 20), 10_000),
        (stats.beta(0.05, 2), 10_000),
        (stats.bernoulli(0.3), 10_000),
        (stats.powerlaw(0.01), 10_000),
    ],
)
def test_cell_means_of_rough_quantiles(distribution: Any, calls: int) -> None:
    asked = 0

    def quantile(chances: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal asked
        asked += chances.size
        return np.asarray(distribution.ppf(chances), dtype=np.float64)

    grid = np.clip(np.arange(CELLS + 1) / CELLS, 1e-12, 1 - 1e-12)
    means = cell_means(quantile, grid, quantile(grid))
    assert means.mean() == pytest.approx(distribution.mean(), abs=1e-9)
    assert asked <= calls


def test_cell_means_of_a_constant() -> None:
    grid = np.linspace(0, 1, 5)
    np.testing.assert_allclose(
        cell_means(lambda u: np.full(u.size, 0.3), grid, 0 * grid + 0.3), 0.3
    )
