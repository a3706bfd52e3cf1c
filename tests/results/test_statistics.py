from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from coopbandits.core.draws import normals, words
from coopbandits.results.intervals import LEVEL, DominatingRun, mean_interval, p_value
from coopbandits.results.statistics import (
    MeanSummary,
    PairedDifference,
    Summary,
    columns,
    count,
    difference_row,
    mean_row,
    mean_text,
    number,
    paired_differences,
    summarise,
)


def gauss(key: int, *shape: int) -> NDArray[np.float64]:
    counters = np.arange(math.prod(shape), dtype=np.uint64)
    return normals(words(key, counters)).reshape(shape)


def summary(*regret: NDArray[np.float64] | list[float]) -> Summary:
    names = [f"p{i}" for i in range(len(regret))]
    return summarise(names, np.array(regret), np.full(len(names), 12.0), 100)


def test_differences_are_taken_run_by_run() -> None:
    shared = 30 * gauss(1, 20)
    regret = np.array([200 + shared, 205 + shared + gauss(2, 20)])
    (row,) = paired_differences(["a", "b"], regret)
    assert (row.first, row.second) == ("a", "b")
    assert row.interval == pytest.approx(mean_interval(regret[0] - regret[1]))
    paired = row.interval[1] - row.interval[0]
    unpaired = stats.ttest_ind(regret[0], regret[1]).confidence_interval()
    assert paired < 0.2 * (unpaired.high - unpaired.low)
    assert row.p_value == p_value(regret[0] - regret[1])
    assert row.p_value < 1e-6 < stats.ttest_ind(regret[0], regret[1]).pvalue


def test_every_pair_is_compared_and_corrected() -> None:
    regret = 100 + gauss(8, 4, 6)
    rows = paired_differences(list("abcd"), regret)
    assert [row.first + row.second for row in rows] == ["ab", "ac", "ad", "bc", "bd", "cd"]
    samples = [regret[i] - regret[j] for i in range(4) for j in range(i + 1, 4)]
    raw = [p_value(sample) for sample in samples]
    assert [row.p_value for row in rows] == pytest.approx([min(1.0, 6 * p) for p in raw])
    expected = [mean_interval(sample, 1 - (1 - LEVEL) / 6) for sample in samples]
    assert [row.interval for row in rows] == expected


def test_one_run_has_dashes_and_says_so() -> None:
    made = summary([30.0], [40.0])
    assert mean_row(made.policies[0]) == ("p0", "30.0", "–", "30.0/30.0/30.0", "–", "12")
    assert difference_row(made.differences[0]) == ("p0 − p1", "-10.0", "–", "–")
    assert made.advice.startswith("One run")
    assert "100 rounds, 1 run, 95 %" in str(made)
    assert "nan" not in str(made)


def test_identical_policies_do_not_differ() -> None:
    sample = 100 + gauss(1, 10)
    (row,) = summary(sample, sample).differences
    assert (row.mean, row.interval, row.p_value) == (0.0, (0.0, 0.0), 1.0)
    assert difference_row(row) == ("p0 − p1", "0", "[0, 0]", "1")
    assert "p0 and p1" in summary(sample, sample).advice


@pytest.mark.parametrize("noise", [0.0, 1e-14])
def test_a_constant_difference_is_certain_and_silent(noise: float) -> None:
    sample = 100 + gauss(1, 10)
    (row,) = paired_differences(["a", "b"], np.array([sample, sample - 0.1 + noise * gauss(2, 10)]))
    assert row.mean == pytest.approx(0.1)
    assert row.p_value < 1e-12
    (exact,) = paired_differences(["a", "b"], np.array([[3.0, 5.0], [1.0, 3.0]]))
    assert (exact.mean, exact.p_value) == (2.0, 0.0)


def test_advice_when_runs_are_too_few() -> None:
    sample = 100 + 40 * gauss(1, 10)
    advice = summary(sample).advice
    half = (mean_interval(sample)[1] - mean_interval(sample)[0]) / 2 / sample.mean()
    assert advice.startswith(f"More runs needed: p0 is known to ±{100 * half:.0f} %")
    needed = int(advice.split("about ")[1].split()[0])
    spread = sample.std(ddof=1) / sample.mean()
    assert stats.t.ppf(0.975, needed - 1) * spread / math.sqrt(needed) == pytest.approx(
        0.05, rel=0.01
    )


def test_advice_from_two_runs_is_not_absurd() -> None:
    """Student's factor of 12.7 for two runs says little about how many are needed."""
    advice = summary([90.0, 110.0]).advice
    assert 2 < int(advice.split("about ")[1].split()[0]) < 100


def test_advice_when_runs_are_enough() -> None:
    near = summary(100 + gauss(1, 10), 200 + gauss(2, 10))
    assert "within ±5 %" in near.advice
    apart = summary(100 + gauss(1, 10), 100 + gauss(2, 10), 200 + gauss(3, 10))
    assert apart.advice.endswith("p0 and p1.")
    many = summary(*(100 + gauss(seed, 10) for seed in range(1, 5)), 200 + gauss(5, 10))
    assert "6 of 10 pairs" in many.advice


def test_advice_when_the_mean_is_zero() -> None:
    assert "within ±5 %" in summary([0.0, 0.0]).advice
    assert "p0 is not told from 0" in summary([-1.0, 1.0]).advice


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345.6, "12346"),
        (1000.0, "1000"),
        (999.94, "999.9"),
        (-12.34, "-12.3"),
        (1.0, "1.0"),
        (0.12345, "0.123"),
        (0.0, "0"),
        (-0.0, "0"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (14184.4, "14184"),
        (9_999_999.0, "9999999"),
        (1.234e8, "123.4M"),
        (5e10, "50.0G"),
    ],
)
def test_count(value: float, text: str) -> None:
    assert count(value) == text


def test_quantiles_and_means() -> None:
    row = summary(np.arange(1.0, 102.0)).policies[0]
    assert row.mean == 51.0
    assert row.quantiles == pytest.approx((6.0, 51.0, 96.0))


def test_columns_are_aligned() -> None:
    lines = columns([("name", "x", "yy"), ("a", "1.25", "7")])
    assert lines == ["name     x  yy", "a     1.25   7"]


def test_the_printed_summary_has_straight_columns() -> None:
    text = str(summary(1e4 + gauss(1, 5), gauss(2, 5) ** 2, 100 + gauss(3, 5)))
    tables = [block.splitlines() for block in text.split("\n\n")]
    assert tables[0] == ["regret after 100 rounds, 5 runs, 95 % intervals"]
    for table, rows in ((tables[1], 4), (tables[3], 4)):
        assert len(table) == rows
        assert len({len(line) for line in table}) == 1
    assert tables[1][0].split()[0] == "policy"
    assert text.endswith(tables[-1][0])


def test_rows_of_dataclasses() -> None:
    row = MeanSummary("p", 50.0, (41.0, 58.0), (30.0, 50.0, 70.0), 2.5e7, 9.5)
    assert mean_row(row) == ("p", "50.0", "[41.0, 58.0]", "30.0/50.0/70.0", "9.5", "25.0M")
    difference = PairedDifference("a", "b", -5.0, (-6.0, -4.0), 0.00123)
    assert difference_row(difference) == ("a − b", "-5.0", "[-6.0, -4.0]", "0.0012")


def test_a_mean_is_written_with_its_interval_unless_it_is_exact() -> None:
    assert mean_text(np.array([9.0, 10.0, 11.0])) == "10.0 [7.5, 12.5]"
    assert mean_text(np.array([9.0, 10.0, 11.0]), "{:.2f}".format) == "10.00 [7.52, 12.48]"
    assert mean_text(np.array([1234.0])) == "1234"
    assert mean_text(np.array([5.0, 5.0])) == "5.0"


def test_a_run_that_dominates_is_named_with_its_share() -> None:
    sample = 100 + gauss(1, 10)
    assert "Run" not in summary(sample).advice
    sample[7] = 1000.0
    made = summary(200 + gauss(2, 10), sample)
    others = (sample.sum() - 1000.0) / 9
    share = 1000.0 / sample.sum()
    assert made.policies[1].dominating == pytest.approx(DominatingRun(7, share, others))
    assert made.policies[0].dominating is None
    assert f"Run 7 has {100 * share:.0f} % of the regret of p1" in made.advice
    assert f"{others:.1f}" in made.advice


def test_of_many_dominating_runs_the_largest_shares_are_named() -> None:
    samples = [100 + gauss(seed, 10) for seed in range(8)]
    for i, sample in enumerate(samples):
        sample[i] = 500.0 + 100.0 * i
    named = [part[:6] for part in summary(*samples).advice.split("Run ")[1:]]
    assert named == [f"{run} has " for run in (7, 6, 5, 4, 3)]


def test_global_regret_is_shown_where_it_differs() -> None:
    def heading(overall: float) -> tuple[str, ...]:
        regret = np.array([[4.0, 6.0]])
        made = summarise(["p"], regret, np.zeros(1), 10, against_mean=np.array([overall]))
        return made.tables[0][1][0]

    assert "global" not in heading(5.0)
    assert heading(7.0).index("global") == heading(7.0).index("worst agent") - 1


def test_rounding_reads_as_zero() -> None:
    """The same pulls added up in another order: 0.1 + 0.2 is not 0.3."""
    regret = np.array([[0.1 + 0.2, 0.6, 0.1 + 0.7], [0.3, 0.1 + 0.5, 0.8]])
    assert regret[0].tolist() != regret[1].tolist()
    summary = summarise(["a", "b"], regret, np.zeros(2), 10)
    (row,) = summary.differences
    assert (row.mean, row.interval, row.p_value) == (0.0, (0.0, 0.0), 1.0)
    assert difference_row(row) == ("a − b", "0", "[0, 0]", "1")


def test_a_spread_of_rounding_is_none() -> None:
    sample = np.array([0.1 + 0.2, 0.3, 0.3, 0.1 + 0.2, 0.3])
    assert sample.std() > 0.0
    (row,) = summarise(["a"], sample[None], np.zeros(1), 10).policies
    assert mean_row(row)[1:3] == ("0.3", "[0.3, 0.3]")
