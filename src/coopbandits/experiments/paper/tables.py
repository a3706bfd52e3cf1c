"""Results as rows of text: final regrets, differences, graphs with their bounds, claims."""

from __future__ import annotations

from collections.abc import Sequence

from coopbandits import theory
from coopbandits.experiments.paper.play import Played
from coopbandits.experiments.paper.settings import ANALYSED, PROBLEM, Line
from coopbandits.experiments.paper.verdicts import Claim, differences
from coopbandits.results.statistics import HEADER, MeanSummary, mean_row, mean_text, number

Rows = list[tuple[str, ...]]
ANSWERS = {True: "yes", False: "no", None: "open"}


def regret_rows(played: Sequence[Played]) -> Rows:
    """Return mean and interval of the final regret, one row per line, one column per figure."""
    rows: Rows = [("policy", *(one.figure.name for one in played))]
    for line in played[0].lines:
        rows.append((line.label, *(mean_text(one.regret(line.key)) for one in played)))
    return rows


def difference_rows(played: Sequence[Played]) -> Rows:
    """Return every line's excess over DDUCB, paired by run, with adjusted intervals and p."""
    first, *others = played[0].lines
    compared = differences(played, [(line.key, first.key) for line in others])
    cells = {(pair.figure, pair.first): str(pair) for pair in compared}
    rows: Rows = [("policy − DDUCB", *(one.figure.name for one in played))]
    for line in others:
        rows.append((line.label, *(cells[one.figure.name, line.key] for one in played)))
    return rows


def detail_rows(one: Played) -> Rows:
    """Return intervals, quantiles and values sent of one figure."""
    return [HEADER, *map(_detail, one.result.summary().policies, one.lines)]


def _detail(row: MeanSummary, line: Line) -> tuple[str, ...]:
    return (line.label, *mean_row(row)[1:])


GRAPH_HEADER = (
    "figure", "N", "edges", "λ", "C", "C unaccelerated", "Lai–Robbins", "Theorem 1", "sharpened",
    "always a wrong arm",
)  # fmt: skip


def graph_rows(played: Sequence[Played]) -> Rows:
    """Return the numbers and bounds of every graph; a star marks vacuous bounds."""
    return [GRAPH_HEADER, *map(_graph, played)]


def _graph(one: Played) -> tuple[str, ...]:
    network, horizon = one.figure.network, one.result.horizon
    bounds = [
        bound(PROBLEM, network, ANALYSED, horizon)
        for bound in (theory.finite_time_bound, theory.sharper_finite_time_bound)
    ]
    vacuous = [theory.is_vacuous(bound, PROBLEM, network, horizon) for bound in bounds]
    return (
        one.figure.name, f"{network.num_agents}", f"{network.num_edges}", f"{network.lambda2:.6f}",
        f"{network.mixing_rounds()}", f"{network.mixing_rounds(accelerated=False)}",
        number(theory.lai_robbins(PROBLEM, network, horizon)),
        *(number(bound) + "*" * empty for bound, empty in zip(bounds, vacuous, strict=True)),
        number(theory.worst_arm_regret(PROBLEM, network, horizon)),
    )  # fmt: skip


CLAIM_HEADER = ("claim", "verdict", "evidence")


def claim_rows(claims: Sequence[Claim]) -> Rows:
    """Return every claim with its verdict and the evidence by figure."""
    return [CLAIM_HEADER, *map(_claim, claims)]


def _claim(claim: Claim) -> tuple[str, ...]:
    lines = [f"{one.figure}: {ANSWERS[one.confirmed]}; {one.evidence}" for one in claim.outcomes]
    return (f"{claim.text}\n[{claim.where}]", claim.verdict, "\n".join(lines))
