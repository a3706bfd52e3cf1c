"""Which pairs are played where."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import coopbandits as cb
from coopbandits import InputError
from coopbandits.core import rows
from coopbandits.core.policy import fits
from coopbandits.core.registry import (
    AGGREGATIONS,
    INDICES,
    parse_aggregation,
    parse_index,
    parse_policy,
)
from coopbandits.experiments.matrix import make_matrix
from coopbandits.experiments.matrix.plan import EVERY_AGGREGATION
from coopbandits.experiments.suite import SCENARIOS, make_plan


def test_a_matrix_without_wishes_is_every_part_on_the_whole_suite() -> None:
    plan = make_matrix()
    assert plan.scenarios == tuple(
        one for one in SCENARIOS if not one.is_world and not one.in_context
    )
    with pytest.raises(InputError, match="scenario linear"):
        make_matrix(["linear"])
    assert {name.partition(":")[0] for name in plan.aggregations} == {
        *(part.name for part in AGGREGATIONS), "central-totals",
    }  # fmt: skip
    assert plan.indices == tuple(part().spelling for part in INDICES)
    assert list(plan.pairs.values()) == [
        (aggregation, index)
        for aggregation in plan.aggregations
        for index in plan.indices
        if fits(parse_aggregation(aggregation), parse_index(index))
    ]
    assert plan.policies == (*plan.pairs, "central-ts", "flood-ts")
    assert (plan.runs, plan.seed) == (5, 0)


def test_pairs_are_spelled_as_they_are_read() -> None:
    assert all(parse_policy(pair).spelling == pair for pair in make_matrix().pairs)


def test_pairs_that_do_not_fit_are_left_out() -> None:
    parts = ["tree-sums", "tracked-means"], ["ucb", "centred-draw:sigma=estimate"]
    plan = make_matrix(["two-arms"], aggregations=parts[0], indices=parts[1])
    assert list(plan.pairs) == [
        "tree-sums*ucb", "tree-sums*centred-draw:sigma=estimate", "tracked-means*ucb",
    ]  # fmt: skip
    assert plan.policies[:3] == tuple(plan.pairs)


def test_a_matrix_and_a_leaderboard_of_the_same_policies_are_not_mixed_up() -> None:
    plan = make_matrix(["two-arms"], aggregations=["tree-sums"], indices=["ucb"])
    twin = make_plan(["two-arms"], plan.policies, plan.runs)
    assert list(plan.cells()) == list(twin.cells())
    assert json.dumps(plan.settings) != json.dumps(twin.settings)


def test_indices_take_rewards_for_what_they_are() -> None:
    indices = ["kl-ucb", "beta-draw", "normal-draw"]
    plan = make_matrix(
        ["two-arms", "fair-coins"], aggregations=["tree-sums"], indices=indices, horizon=20
    )
    cells = plan.cells()
    assert ("two-arms", "tree-sums*kl-ucb") in cells
    assert ("two-arms", "tree-sums*beta-draw") not in cells  # rewards outside [0, 1]
    assert ("fair-coins", "tree-sums*beta-draw") in cells
    assert ("two-arms", "tree-sums*normal-draw") in cells
    assert ("fair-coins", "tree-sums*normal-draw") in cells


SEEN: dict[str, int] = {}


@dataclass(frozen=True)
class Unread(cb.LocalSums):
    """Own sums in words that numba does not know."""

    name: ClassVar[str] = "unread"

    @staticmethod
    def observe(s: Any, pull: Any) -> None:
        SEEN["pulls"] = SEEN.get("pulls", 0) + 1
        rows.add(s.totals, pull)


def test_what_only_the_reference_engine_plays_is_left_out() -> None:
    slow = Unread().spelling
    scenarios, aggregations = ["two-arms", "loss-30"], (*EVERY_AGGREGATION, slow)
    plan = make_matrix(scenarios, aggregations=aggregations, indices=["ucb"], horizon=20)
    played: dict[str, set[str]] = {}
    for scenario, pair in plan.cells():
        if pair in plan.pairs:
            played.setdefault(scenario, set()).add(plan.pairs[pair][0])
    for names in played.values():
        assert names >= {"staged-mixing", "tree-sums", "flooded-pulls", "central-totals"}
        assert slow not in names


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"scenarios": ["cycle-10"]}, "unknown scenario 'cycle-10'"),
        ({"runs": 0}, r"runs.* 0\b"),
        ({"aggregations": ["trees"]}, "unknown aggregation 'trees'"),
        ({"indices": ["ucb", "ucb"]}, r"local-sums\*ucb.*twice"),
        (
            {"aggregations": ["tracked-means"], "indices": ["centred-draw:sigma=estimate"]},
            "centred-draw.*tracked-means",
        ),
    ],
)
def test_bad_wishes(wish: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make_matrix(**wish)  # type: ignore[arg-type]  # wrong ones are tried
