"""Tables and what they are made of, on scores whose parts are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits.experiments.matrix import make_matrix
from coopbandits.experiments.matrix.effects import find_effects
from coopbandits.experiments.matrix.grid import make_grid

from .made_up import made_up

SHARING = {"flooded-totals": 1.0, "tree-sums": 2.0, "local-sums": 16.0}
PLAYING = {"kl-ucb": 1.0, "ucb": 4.0}
PLAN = make_matrix(
    ["two-arms", "few-agents"], aggregations=["local-sums", "tree-sums", "central-totals",
    "flooded-totals"], indices=["ucb", "kl-ucb", "moss"],
)  # fmt: skip

ROWS = PLAN.aggregations


def product(scenario: str, aggregation: str, index: str) -> float | None:
    """A score that is a product of its parts, twice as large in one scenario; no MOSS."""
    if index == "moss":
        return None
    size = 2.0 if scenario == "two-arms" else 0.5
    return size * SHARING.get(aggregation, 0.5) * PLAYING[index]


def test_a_grid_has_the_best_first_and_means_over_scenarios() -> None:
    grid = make_grid(PLAN, made_up(PLAN, product), ROWS)
    assert grid.aggregations == ["central-totals", "flooded-totals", "tree-sums", "local-sums"]
    assert grid.indices == ["kl-ucb", "ucb"]
    assert grid.scores == pytest.approx(np.array([[0.5, 2], [1, 4], [2, 8], [16, 64]]))
    assert grid.worst == pytest.approx(2 * grid.scores)
    assert grid.central.tolist() == [True, False, False, False]
    assert grid.talks.tolist() == [False, True, True, False]
    assert grid.by_aggregation == pytest.approx([1, 2, 4, 32])
    assert grid.by_index == pytest.approx(np.array([1.0, 4.0]) * 32 ** (1 / 3))
    assert grid.overall == pytest.approx(2 * 32 ** (1 / 3))


def test_a_pair_that_is_missing_somewhere_has_no_score() -> None:
    def holed(scenario: str, aggregation: str, index: str) -> float | None:
        hole = (scenario, aggregation, index) == ("two-arms", "tree-sums", "ucb")
        return None if hole else product(scenario, aggregation, index)

    grid = make_grid(PLAN, made_up(PLAN, holed), ROWS)
    at = grid.aggregations.index("tree-sums"), grid.indices.index("ucb")
    assert np.argwhere(np.isnan(grid.scores)).tolist() == [list(at)]
    assert math.isnan(grid.by_aggregation[at[0]])
    effects = find_effects(grid, ~grid.central)
    assert effects is not None
    assert list(effects.aggregations) == ["flooded-totals", "local-sums"]


def test_a_product_has_no_share_of_both() -> None:
    grid = make_grid(PLAN, made_up(PLAN, product), ROWS)
    effects = find_effects(grid, ~grid.central)
    assert effects is not None
    row, column = np.log2([1, 2, 16]).var(), np.log2([1, 4]).var()
    total = row + column
    assert effects.shares == pytest.approx((row / total, column / total, 0.0))
    assert effects.spread == pytest.approx(2 ** math.sqrt(total))
    middle = 32 ** (1 / 3)
    assert effects.aggregations == pytest.approx(
        {"flooded-totals": 1 / middle, "tree-sums": 2 / middle, "local-sums": 16 / middle}
    )
    assert effects.indices == pytest.approx({"kl-ucb": 0.5, "ucb": 2.0})
    talking = find_effects(grid, grid.talks)
    assert talking is not None
    assert list(talking.aggregations) == ["flooded-totals", "tree-sums"]
    assert talking.shares == pytest.approx((0.2, 0.8, 0.0))


def test_what_only_pairs_explain_is_the_share_of_both() -> None:
    def crossed(scenario: str, aggregation: str, index: str) -> float | None:
        del scenario
        if index == "moss" or aggregation == "local-sums":
            return None
        return 2.0 if (aggregation == "tree-sums") == (index == "ucb") else 1.0

    grid = make_grid(PLAN, made_up(PLAN, crossed), ROWS)
    effects = find_effects(grid, ~grid.central)
    assert effects is not None
    assert effects.shares == pytest.approx((0.0, 0.0, 1.0))
    assert grid.aggregations[-1] == "local-sums"  # shown, with dashes
    assert math.isnan(grid.by_aggregation[-1])
    assert grid.by_index == pytest.approx([math.sqrt(2.0)] * 2)


@pytest.mark.parametrize("score", [1.0, 0.0])
def test_nothing_matters_where_all_are_alike(score: float) -> None:
    grid = make_grid(PLAN, made_up(PLAN, lambda *_: score), ROWS)
    assert find_effects(grid, ~grid.central) is None
    assert grid.by_index.tolist() == [score] * 3


def test_one_row_has_no_effects() -> None:
    grid = make_grid(PLAN, made_up(PLAN, product), ROWS)
    assert find_effects(grid, grid.central) is None
