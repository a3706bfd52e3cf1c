"""The summary of some runs: means with intervals, paired comparisons, and advice, as tables.

Policies of one call share their reward tapes, so differences are taken run by run: they vary far
less than the regrets themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from coopbandits.core.contract import Vector
from coopbandits.plots import Table, html_fragment
from coopbandits.results import stops
from coopbandits.results.intervals import (
    LEVEL,
    ROUNDING,
    DominatingRun,
    Interval,
    compare,
    dominating_run,
    mean_interval,
    standard_error,
    subtract,
)
from coopbandits.results.stops import StopSummary

QUANTILES = (0.05, 0.5, 0.95)
WANTED_PRECISION = 0.05
"""An interval of ± 5 % of the mean is called precise enough."""
MOST_NAMED = 5
"""Most pairs without a significant difference, and most dominating runs, that are named."""


@dataclass(frozen=True)
class MeanSummary:
    """The mean of one policy's runs, its 95 % interval, and the run that dominates it, if any.

    `worst_agent` is the mean of the worst agent's regret, and `global_regret` that against the best
    arm of the network's mean; not-a-number where they were not given.
    """

    policy: str
    mean: float
    interval: Interval
    quantiles: tuple[float, ...]
    values_sent: float
    worst_agent: float = math.nan
    global_regret: float = math.nan
    dominating: DominatingRun | None = None


@dataclass(frozen=True)
class PairedDifference:
    """How two policies differ on the same tapes.

    Interval and p-value are adjusted for the number of pairs: the interval excludes 0 if and only
    if `p_value` is below 0.05.
    """

    first: str
    second: str
    mean: float
    interval: Interval
    p_value: float


@dataclass(frozen=True)
class Delivery:
    """What became of one policy's messages, as means over runs; the rest is still in transit."""

    policy: str
    sent: float
    delivered: float
    late: float
    lost: float


@dataclass(frozen=True)
class Summary:
    """Means, paired differences, whether more runs are needed, deliveries, and when to stop."""

    runs: int
    horizon: int
    policies: tuple[MeanSummary, ...]
    differences: tuple[PairedDifference, ...]
    advice: str
    deliveries: tuple[Delivery, ...] = ()
    stops: tuple[StopSummary, ...] = ()

    @property
    def tables(self) -> list[tuple[str, list[tuple[str, ...]]]]:
        """Headings and rows of all tables; the first row of each is the header."""
        rounds, runs = plural(self.horizon, "round"), plural(self.runs, "run")
        means = [HEADER, *map(mean_row, self.policies)]
        if any(abs(row.global_regret - row.mean) > ROUNDING * row.mean for row in self.policies):
            means = _with_global(means, self.policies)
        found = [(f"regret after {rounds}, {runs}, 95 % intervals", means)]
        if self.differences:
            pairs = plural(len(self.differences), "comparison")
            heading = f"paired differences on the same tapes, adjusted for {pairs}"
            found.append((heading, [DIFFERENCE_HEADER, *map(difference_row, self.differences)]))
        if self.deliveries:
            rows = [DELIVERY_HEADER, *map(delivery_row, self.deliveries)]
            found.append(("messages, means over runs", rows))
        if self.stops:
            rows = [stops.HEADER, *(each.row for each in self.stops)]
            found.append(("rounds until agents could have stopped, means over runs", rows))
        return found

    def __str__(self) -> str:
        lines = [
            line for heading, rows in self.tables for line in (heading, "", *columns(rows), "")
        ]
        return "\n".join([*lines, self.advice])

    def _repr_html_(self) -> str:
        tables = [html_fragment(Table(rows, heading)) for heading, rows in self.tables]
        return "".join([*tables, f"<p>{escape(self.advice)}</p>"])


HEADER = ("policy", "mean", "95 % interval", "5/50/95 %", "worst agent", "values sent")
DIFFERENCE_HEADER = ("first − second", "mean", "95 % interval", "p")
DELIVERY_HEADER = ("policy", "sent", "delivered", "late among them", "lost")


def mean_row(row: MeanSummary) -> tuple[str, ...]:
    """Return the cells of one line of the table of means."""
    quantiles = "/".join(number(q) for q in row.quantiles)
    worst = "–" if math.isnan(row.worst_agent) else number(row.worst_agent)
    sent = count(row.values_sent)
    return (row.policy, number(row.mean), ends(row.interval), quantiles, worst, sent)


def _with_global(
    rows: list[tuple[str, ...]], policies: tuple[MeanSummary, ...]
) -> list[tuple[str, ...]]:
    """Add a column of global regret, which is not the agents' own where their arms differ."""
    cells = ["global", *(number(row.global_regret) for row in policies)]
    return [(*row[:-2], cell, *row[-2:]) for row, cell in zip(rows, cells, strict=True)]


def difference_row(row: PairedDifference) -> tuple[str, ...]:
    """Return the cells of one line of the table of differences."""
    p_value = "–" if math.isnan(row.p_value) else f"{row.p_value:.2g}"
    return (f"{row.first} − {row.second}", number(row.mean), ends(row.interval), p_value)


def delivery_row(row: Delivery) -> tuple[str, ...]:
    """Return the cells of one line of the table of deliveries."""
    return (row.policy, *(count(value) for value in (row.sent, row.delivered, row.late, row.lost)))


def number(value: float) -> str:
    """Write a regret: no decimals from 1000 on, one from 1 on, else three digits."""
    value += 0.0  # no minus before zero
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.3g}"


def count(value: float) -> str:
    """Write a number of values: whole below ten million, then in millions or billions."""
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if value >= 10 * size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}"


def plural(amount: int, noun: str) -> str:
    """Write a count with its noun, such as ``2 runs``."""
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"


def ends(interval: Interval, write: Callable[[float], str] = number) -> str:
    """Write an interval, such as ``[9.5, 11.0]``; a dash where there is none."""
    low, high = interval
    return "–" if math.isnan(low) else f"[{write(low)}, {write(high)}]"


def with_interval(mean: float, interval: Interval, write: Callable[[float], str] = number) -> str:
    """Write a mean with its interval, such as ``10.0 [9.5, 11.0]``; alone where it is exact."""
    low, high = interval
    is_alone = math.isnan(low) or low == high
    return write(mean) if is_alone else f"{write(mean)} {ends(interval, write)}"


def mean_text(sample: Vector | NDArray[np.int64], write: Callable[[float], str] = number) -> str:
    """Write the mean of some runs with its 95 % interval."""
    runs = np.asarray(sample, dtype=np.float64)
    return with_interval(float(runs.mean()), mean_interval(runs), write)


def columns(rows: list[tuple[str, ...]], left: tuple[int, ...] = (0,)) -> list[str]:
    """Align cells: the columns in `left` to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def summarise(
    policies: list[str],
    regret: NDArray[np.float64],
    values: Vector,
    horizon: int,
    deliveries: tuple[Delivery, ...] = (),
    worst: Vector | None = None,
    against_mean: Vector | None = None,
) -> Summary:
    """Summarise final regrets (policy, run) and means of the rest (policy)."""
    unknown = np.full(len(policies), math.nan)
    means = tuple(
        MeanSummary(
            policy=policy,
            mean=float(row.mean()),
            interval=mean_interval(row),
            quantiles=tuple(float(q) for q in np.quantile(row, QUANTILES)),
            values_sent=float(sent),
            worst_agent=float(at_worst),
            global_regret=float(overall),
            dominating=dominating_run(row),
        )
        for policy, row, sent, at_worst, overall in zip(
            policies,
            regret,
            values,
            unknown if worst is None else worst,
            unknown if against_mean is None else against_mean,
            strict=True,
        )
    )
    differences = paired_differences(policies, regret)
    runs = regret.shape[1]
    advice = _advice(means, differences, regret)
    return Summary(runs, horizon, means, differences, advice, deliveries)


def paired_differences(
    policies: list[str], regret: NDArray[np.float64]
) -> tuple[PairedDifference, ...]:
    """Return the difference of every two policies, adjusted for the number of pairs."""
    pairs = list(combinations(range(len(policies)), 2))
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    samples = subtract(regret[first], regret[second])
    return tuple(
        PairedDifference(policies[i], policies[j], float(sample.mean()), interval, p)
        for (i, j), sample, (interval, p) in zip(pairs, samples, compare(samples), strict=True)
    )


def _advice(
    means: tuple[MeanSummary, ...],
    differences: tuple[PairedDifference, ...],
    regret: NDArray[np.float64],
) -> str:
    runs = regret.shape[1]
    if runs < 2:
        return "One run tells nothing about its own error: use at least 10 runs."
    widest = max(range(len(means)), key=lambda i: _relative_half_width(means[i]))
    policy, width = means[widest].policy, _relative_half_width(means[widest])
    if math.isinf(width):
        advice = f"More runs needed: the mean of {policy} is not told from 0."
    elif width > WANTED_PRECISION:
        advice = (
            f"More runs needed: {policy} is known to ±{100 * width:.0f} %; about "
            f"{_runs_needed(regret[widest])} runs would give ±{100 * WANTED_PRECISION:.0f} %."
        )
    else:
        advice = f"Enough runs for means within ±{100 * WANTED_PRECISION:.0f} %."
    open_pairs = [d for d in differences if d.p_value >= 1 - LEVEL]
    if len(open_pairs) > MOST_NAMED:
        advice += f" {len(open_pairs)} of {len(differences)} pairs are not told apart at 5 %."
    elif open_pairs:
        names = "; ".join(f"{d.first} and {d.second}" for d in open_pairs)
        advice += f" Not told apart at 5 %: {names}."
    return " ".join([advice, *_dominated(means, runs)])


def _dominated(means: tuple[MeanSummary, ...], runs: int) -> list[str]:
    """Name the runs that make a mean what it is, the largest share first."""
    found = [(row.policy, row.dominating) for row in means if row.dominating]
    found.sort(key=lambda item: -item[1].share)
    return [
        f"Run {found.run} has {100 * found.share:.0f} % of the regret of {policy} (mean without "
        f"it: {number(found.others)}), so {runs} runs say little about its mean: add runs or "
        "compare medians."
        for policy, found in found[:MOST_NAMED]
    ]


def _relative_half_width(row: MeanSummary) -> float:
    low, high = row.interval
    if high == low:
        return 0.0
    return (high - low) / 2 / row.mean if row.mean > 0 else math.inf


def _runs_needed(sample: Vector) -> int:
    """Return how many runs bring Student's relative half width down to the wanted one.

    Enough of them make the correction for skewness small.
    """
    runs, quantile = sample.size, (1 + LEVEL) / 2
    spread = standard_error(sample) * math.sqrt(runs) / float(sample.mean())
    needed = runs
    for _ in range(3):  # Student's quantile depends on the answer; it converges fast
        factor = float(stdtrit(max(needed, runs, 2) - 1, quantile))
        needed = math.ceil((factor * spread / WANTED_PRECISION) ** 2)
    return max(needed, runs + 1)
