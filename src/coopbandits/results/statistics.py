"""Statistics of runs: means, and differences of paired means.

Policies of one call share their reward tapes, so differences are taken run by run: they vary far
less than the regrets themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from coopbandits.core.contract import Vector
from coopbandits.core.draws import uniforms, words
from coopbandits.plots import Table, html_fragment
from coopbandits.results import stops
from coopbandits.results.stops import StopSummary

LEVEL = 0.95
RESAMPLES = 2000
BOOTSTRAP_DRAWS = 1_000_000
"""Most resampled numbers held in memory; the interval does not depend on it."""
QUANTILES = (0.05, 0.5, 0.95)
WANTED_PRECISION = 0.05
"""An interval of ± 5 % of the mean is called precise enough."""
MOST_NAMED = 5
"""So many pairs that are not told apart are named; of more there is a number."""
ROUNDING = 1e-12
"""What is left of equal numbers when they are subtracted, relative to them; some thousand ulps."""


@dataclass(frozen=True)
class MeanSummary:
    """The mean of one policy's runs, and how certain it is.

    `worst_agent` is the mean of the worst agent's regret, and `global_regret` that against the best
    arm of the network's mean; not-a-number in results from before they were recorded.
    """

    policy: str
    mean: float
    t_interval: tuple[float, float]
    bootstrap_interval: tuple[float, float]
    quantiles: tuple[float, ...]
    values_sent: float
    worst_agent: float = math.nan
    global_regret: float = math.nan


@dataclass(frozen=True)
class PairedDifference:
    """How two policies differ on the same tapes; `p_value` is Holm-corrected."""

    first: str
    second: str
    mean: float
    t_interval: tuple[float, float]
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
            heading = "paired differences on the same tapes, p after Holm's correction"
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


HEADER = ("policy", "mean ± t", "bootstrap", "5/50/95 %", "worst agent", "values sent")
DIFFERENCE_HEADER = ("first − second", "mean ± t", "p")
DELIVERY_HEADER = ("policy", "sent", "delivered", "late among them", "lost")


def mean_row(row: MeanSummary) -> tuple[str, ...]:
    """Return the cells of one line of the table of means."""
    low, high = row.bootstrap_interval
    bootstrap = "–" if math.isnan(low) else f"{number(low)}…{number(high)}"
    quantiles = "/".join(number(q) for q in row.quantiles)
    worst = "–" if math.isnan(row.worst_agent) else number(row.worst_agent)
    return (row.policy, _plus_minus(row), bootstrap, quantiles, worst, count(row.values_sent))


def _with_global(
    rows: list[tuple[str, ...]], policies: tuple[MeanSummary, ...]
) -> list[tuple[str, ...]]:
    """Add a column of global regret, which is not the agents' own where their arms differ."""
    cells = ["global", *(number(row.global_regret) for row in policies)]
    return [(*row[:-2], cell, *row[-2:]) for row, cell in zip(rows, cells, strict=True)]


def difference_row(row: PairedDifference) -> tuple[str, ...]:
    """Return the cells of one line of the table of differences."""
    p_value = "–" if math.isnan(row.p_value) else f"{row.p_value:.2g}"
    return (f"{row.first} − {row.second}", _plus_minus(row), p_value)


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


def _plus_minus(row: MeanSummary | PairedDifference) -> str:
    low, high = row.t_interval
    return (
        number(row.mean) if math.isnan(low) else f"{number(row.mean)} ± {number((high - low) / 2)}"
    )


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
            t_interval=t_interval(row),
            bootstrap_interval=bootstrap_interval(row),
            quantiles=tuple(float(q) for q in np.quantile(row, QUANTILES)),
            values_sent=float(sent),
            worst_agent=float(at_worst),
            global_regret=float(overall),
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
    advice = _advice(means, differences, runs)
    return Summary(runs, horizon, means, differences, advice, deliveries)


def t_interval(sample: Vector) -> tuple[float, float]:
    """Return Student's interval of the mean; not-a-number for a single run."""
    if sample.size < 2:
        return (math.nan, math.nan)
    half = float(stdtrit(sample.size - 1, (1 + LEVEL) / 2) * standard_error(sample))
    return (float(sample.mean()) - half, float(sample.mean()) + half)


def ratio_interval(sample: Vector, reference: Vector) -> tuple[float, float]:
    """Return Student's interval of the ratio of two paired means, by the delta method.

    To first order the error of the ratio R of the means of x and y is that of the mean of x − R y,
    divided by the mean of y; it is zero where y is x itself.
    """
    scale = float(reference.mean())
    ratio = float(sample.mean()) / scale
    low, high = t_interval(subtract(sample, ratio * reference))
    return (ratio + low / scale, ratio + high / scale)


def standard_error(sample: Vector) -> float:
    """Return the standard error of the mean; 0 where the numbers differ by rounding alone."""
    if np.ptp(sample) <= ROUNDING * np.abs(sample).max():
        return 0.0
    return float(sample.std(ddof=1) / math.sqrt(sample.size))


def subtract(first: Vector, second: Vector) -> Vector:
    """Return the difference, exactly 0 where only rounding is left of it.

    Otherwise it would be printed, and tested for significance, like any other number.
    """
    difference = first - second
    noise = ROUNDING * np.maximum(np.abs(first), np.abs(second))
    return np.where(np.abs(difference) <= noise, 0.0, difference)


def bootstrap_interval(sample: Vector) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean; the resamples are fixed."""
    if sample.size < 2:
        return (math.nan, math.nan)
    size = sample.size
    means = np.empty(RESAMPLES)
    step = max(1, BOOTSTRAP_DRAWS // size)
    for start in range(0, RESAMPLES, step):
        stop = min(start + step, RESAMPLES)
        draws = uniforms(words(0, np.arange(start * size, stop * size, dtype=np.uint64)))
        picks = (draws * size).astype(np.int64).reshape(stop - start, size)
        means[start:stop] = sample[picks].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return (float(low), float(high))


def paired_differences(
    policies: list[str], regret: NDArray[np.float64]
) -> tuple[PairedDifference, ...]:
    """Return the difference of every two policies, with p-values corrected by Holm's method."""
    pairs = list(combinations(range(len(policies)), 2))
    samples = [subtract(regret[i], regret[j]) for i, j in pairs]
    corrected = holm([p_value(sample) for sample in samples])
    return tuple(
        PairedDifference(policies[i], policies[j], float(sample.mean()), t_interval(sample), p)
        for (i, j), sample, p in zip(pairs, samples, corrected, strict=True)
    )


def holm(p_values: list[float]) -> list[float]:
    """Return Holm's step-down correction of some p-values, in their order."""
    order = np.argsort(p_values)
    corrected = np.empty(len(p_values))
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest if not math.isnan(p_values[i]) else math.nan
    return [float(p) for p in corrected]


def p_value(sample: Vector) -> float:
    """Return the two-sided p-value of Student's test that a mean is 0; NaN for a single run."""
    if sample.size < 2:
        return math.nan
    error = standard_error(sample)
    if error == 0.0:
        return 0.0 if sample.any() else 1.0
    return float(2 * stdtr(sample.size - 1, -abs(sample.mean()) / error))


def _advice(
    means: tuple[MeanSummary, ...], differences: tuple[PairedDifference, ...], runs: int
) -> str:
    if runs < 2:
        return "One run tells nothing about its own error: use at least 10 runs."
    widest = max(means, key=_relative_half_width)
    open_pairs = [d for d in differences if d.p_value > 1 - LEVEL]
    if math.isinf(width := _relative_half_width(widest)):
        advice = f"More runs needed: the mean of {widest.policy} is not told from 0."
    elif width > WANTED_PRECISION:
        needed = _runs_needed(width, runs)
        advice = (
            f"More runs needed: {widest.policy} is known to ±{100 * width:.0f} %; about {needed} "
            f"runs would give ±{100 * WANTED_PRECISION:.0f} %."
        )
    else:
        advice = f"Enough runs for means within ±{100 * WANTED_PRECISION:.0f} %."
    if len(open_pairs) > MOST_NAMED:
        advice += f" {len(open_pairs)} of {len(differences)} pairs are not told apart at 5 %."
    elif open_pairs:
        names = "; ".join(f"{d.first} and {d.second}" for d in open_pairs)
        advice += f" Not told apart at 5 %: {names}."
    return advice


def _relative_half_width(row: MeanSummary) -> float:
    low, high = row.t_interval
    if high == low:
        return 0.0
    return (high - low) / 2 / row.mean if row.mean > 0 else math.inf


def _runs_needed(width: float, runs: int) -> int:
    """Return how many runs bring a relative half width down to the wanted one."""
    quantile = (1 + LEVEL) / 2
    spread = width * math.sqrt(runs) / float(stdtrit(runs - 1, quantile))
    needed = runs
    for _ in range(3):  # Student's quantile depends on the answer; it converges fast
        factor = float(stdtrit(max(needed, runs, 2) - 1, quantile))
        needed = math.ceil((factor * spread / WANTED_PRECISION) ** 2)
    return max(needed, runs + 1)
