from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from coopbandits.experiments.paper.verdicts import (
    DEPENDS,
    FAILS,
    HOLDS,
    all_of,
    at_most,
    differences,
    lower_everywhere,
    verdict,
)
from coopbandits.results.intervals import mean_interval, p_value

from .synthetic import make_played


@pytest.mark.parametrize(
    ("confirmed", "word"),
    [
        ([True, True], HOLDS),
        ([False, False], FAILS),
        ([True, False], DEPENDS),
        ([True, None], DEPENDS),
        ([False, None], DEPENDS),
        ([None], DEPENDS),
    ],
)
def test_verdict(confirmed: Sequence[bool | None], word: str) -> None:
    assert verdict(confirmed) == word


def test_all_of() -> None:
    assert all_of([True, True]) is True
    assert all_of([True, None]) is None
    assert all_of([None, False, True]) is False


def test_at_most_goes_by_the_interval() -> None:
    sample = np.array([9.0, 10.0, 11.0])  # 10 ± 2.48
    assert at_most(sample, 12.6) is True
    assert at_most(sample, 12.4) is None
    assert at_most(sample, 7.6) is None
    assert at_most(sample, 7.4) is False
    assert at_most(np.array([10.0]), 100.0) is None


def test_differences_are_paired_and_adjusted_for_all() -> None:
    played = [make_played(noise={"plain": 2.0}), make_played("grid-100", noise={"plain": 2.0})]
    pairs = [("plain", "dducb"), ("central", "dducb")]
    compared = differences(played, pairs)
    assert [(pair.figure, pair.first) for pair in compared] == [
        *(("cycle-100", "plain"), ("cycle-100", "central")),
        *(("grid-100", "plain"), ("grid-100", "central")),
    ]
    first = compared[0]
    assert first.sample.tolist() == [994.0, 998.0, 1000.0, 1002.0, 1006.0]
    assert first.p_value == pytest.approx(4 * p_value(first.sample))
    assert first.interval == mean_interval(first.sample, 1 - 0.05 / 4)
    assert compared[1].p_value == 0.0
    assert first.lower is False
    assert compared[1].lower is True
    assert str(first) == "1000 [991.4, 1009] (p < 0.001)"


def test_what_chance_could_explain_is_open() -> None:
    (pair,) = differences(
        [make_played(plain=(1000.5, 20), noise={"plain": 2.0})], [("plain", "dducb")]
    )
    assert pair.lower is None
    assert "(p = 0.8" in str(pair)


def test_one_run_decides_nothing() -> None:
    played = make_played()
    one = played.result.dataset.isel(run=slice(1))
    single = type(played)(played.figure, played.lines, type(played.result)(one, {}))
    (pair,) = differences([single], [("dducb", "plain")])
    assert pair.lower is None
    assert str(pair) == "-1000"


def test_the_worst_of_several_pairs_decides() -> None:
    pairs = [("dducb", "plain"), ("dducb", "central")]
    (outcome,) = lower_everywhere([make_played()], pairs)
    assert outcome.confirmed is False
    assert outcome.evidence == "DDUCB − central batched UCB = 500.0 (p < 0.001)"
    (better,) = lower_everywhere([make_played()], pairs[:1])
    assert better.confirmed is True
