"""The leaderboard: every policy in every scenario of the suite, played, scored, written.

::

    DIR/cells/, DIR/quarantine/    the ledger of the sweep, from which a re-run resumes
    DIR/meta.json                  scenarios, policies, runs, seed, versions
    DIR/leaderboard.csv            one line per scenario and policy
    DIR/leaderboard.svg, .png      all scores on perfect networks, as a heat map
    DIR/bad-networks.svg, .png     those under faults
    DIR/worlds.svg, .png           those where rewards move or agents differ
    DIR/contexts.svg, .png         those where rewards depend on features
    DIR/traffic.svg, .png          scores against what is sent, of the first of these
    DIR/leaderboard.html           all tables
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from coopbandits.core.checks import require_count
from coopbandits.core.errors import unknown_name
from coopbandits.experiments.scores import Score, Standing, score, standings
from coopbandits.experiments.suite import ALONE, FLOODED, INFORMED, YARDSTICK, Plan, Scenario
from coopbandits.plots import (
    Point,
    Section,
    Table,
    figure_bytes,
    html_page,
    score_figure,
    svg,
    traffic_figure,
)
from coopbandits.plots.scores import short
from coopbandits.plots.writing import write_files, write_text
from coopbandits.results.statistics import columns, number, plural, with_interval
from coopbandits.results.storage import (
    FORMAT,
    META_FILE,
    check_folder,
    environment,
)
from coopbandits.sim import Sweep, sweep
from coopbandits.sim.engine import AUTO, NAMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADER = ("rank", "policy", "B", "score", "B = 2", "worst", "95 %", "mean rank", "values")
NOTES = """\
score: geometric mean over scenarios; worst: the largest of them; 95 %: as score, of that quantile
B: constant of the bonus sqrt(B σ² ln t / n); B = 2: the score with that constant
values: sent per agent and round"""
BLIND = "blind: arms have features, at which the policy does not look"
SCENARIO_HEADER = (
    "policy",
    "rank",
    "B",
    "regret",
    "95 % of runs",
    "worst agent",
    "values",
    "score",
    "B = 2",
)


def play(
    plan: Plan,
    folder: Path,
    executor: Executor | None = None,
    *,
    workers: int | None = None,
    engine: str = AUTO,
    retry: bool = False,
) -> Sweep:
    """Play what the folder does not hold yet; other arguments as for `sweep`.

    A folder that holds a leaderboard of other settings is refused.
    """
    if workers is not None:
        require_count("workers", workers)
    check_folder(folder, plan.settings)
    if engine not in NAMES:
        raise unknown_name("engine", engine, NAMES)
    planned = [*plan.cells().values(), *plan.common_cells().values()]
    cells = [replace(cell, engine=engine) for cell in planned]
    write_text(folder / META_FILE, json.dumps(meta(plan), indent=2) + "\n")
    return sweep(cells, folder, executor, workers=workers, retry=retry)


def deliver(plan: Plan, done: Sweep, folder: Path) -> str:
    """Write table, figure and page of a complete leaderboard; return it as text."""
    scores = score(plan, done.results)
    groups = list(group(plan, scores))
    files = {"leaderboard.csv": as_csv(scores).encode("utf-8")}
    drawings = []
    for part in groups:
        figure, name = draw(part), FILES[part.yardstick]
        for kind in ("svg", "png"):
            files[f"{name}.{kind}"] = figure_bytes(figure, kind)
        drawings.append(svg(figure, files[f"{name}.svg"]))
    for kind in ("svg", "png"):
        files[f"traffic.{kind}"] = figure_bytes(draw_traffic(groups[0]), kind)
    files["leaderboard.html"] = _page(plan, groups, drawings).encode("utf-8")
    write_files({folder / name: content for name, content in files.items()})
    return f"{as_text(plan, groups)}\n\nwritten to {folder}: {', '.join(files)}"


FILES = {
    YARDSTICK: "leaderboard", FLOODED: "bad-networks", ALONE: "worlds", INFORMED: "contexts",
}  # fmt: skip
"""Yardstick → file name of the figure."""
WHERE = {
    YARDSTICK: "where all is well", FLOODED: "with faults", ALONE: "in worlds",
    INFORMED: "with features",
}  # fmt: skip
"""Yardstick → what its scenarios have in common."""


class Group(NamedTuple):
    """Scenarios that share a yardstick, with their scores and standings."""

    yardstick: str
    scenarios: list[Scenario]
    scores: list[Score]
    standings: list[Standing]


def group(plan: Plan, scores: Sequence[Score]) -> Iterator[Group]:
    """Yield the scenarios of every yardstick, if there are any."""
    for yardstick in FILES:
        scenarios = [one for one in plan.scenarios if one.yardstick == yardstick]
        names = {scenario.name for scenario in scenarios}
        rows = [row for row in scores if row.scenario in names]
        if scenarios:
            yield Group(yardstick, scenarios, rows, standings(rows, yardstick))


def meta(plan: Plan) -> dict[str, Any]:
    """Return the provenance of a plan's scores."""
    return {"format": FORMAT, "settings": plan.settings, **environment()}


def as_text(plan: Plan, groups: Sequence[Group]) -> str:
    """Return the overall tables, and the best decentralised policy of every scenario."""
    lines = []
    for part in groups:
        lines += [*wrap(_lead(plan, part), 100), ""]
        lines += columns([HEADER, *map(_standing_row, part.standings)], left=(1,))
        head = ("scenario", "T", part.yardstick, "best decentralised", "score")
        lines += ["", *columns([head, *_best_rows(part)], left=(0, 3)), ""]
    is_told = any(row.blind for part in groups for row in part.scores)
    return "\n".join(line.rstrip() for line in [*lines, NOTES, *([BLIND] if is_told else [])])


def _name(policy: str, row: Score | Standing) -> str:
    """Return a policy's name in a table, which says so where it is blind."""
    return f"{policy} (blind)" if row.blind else policy


def _lead(plan: Plan, part: Group) -> str:
    return lead(plan, len(part.scenarios), WHERE[part.yardstick], part.yardstick)


def lead(plan: Plan, num_scenarios: int, where: str, yardstick: str) -> str:
    """Return the line above a table of scores."""
    scenarios, runs = plural(num_scenarios, "scenario"), plural(plan.runs, "run")
    return (
        f"{scenarios} {where}, {runs} each, seed {plan.seed}; scores are mean regrets relative to "
        f"{yardstick}"
    )


def _standing_row(row: Standing) -> tuple[str, ...]:
    return (
        f"{row.rank}", _name(row.policy, row), _constant(row.bonus_constant), short(row.score),
        _common(row),
        short(row.worst), short(row.quantile), f"{row.mean_rank:.1f}", f"{row.values:.1f}",
    )  # fmt: skip


def _rows_of(scenario: Scenario, scores: Sequence[Score]) -> list[Score]:
    """Return the scores of one scenario, the best first."""
    rows = [row for row in scores if row.scenario == scenario.name]
    return sorted(rows, key=lambda row: row.rank)


def _best_rows(part: Group) -> Iterator[tuple[str, ...]]:
    for scenario in part.scenarios:
        rows = _rows_of(scenario, part.scores)
        (unit,) = (row for row in rows if row.policy == part.yardstick)
        best = next((row for row in rows if row.decentralised), None)
        shown = (_name(best.policy, best), _score(best)) if best else ("–", "–")
        yield (scenario.name, f"{scenario.horizon}", _mean(unit), *shown)


def _scenario_row(row: Score) -> tuple[str, ...]:
    return (
        _name(row.played, row), f"{row.rank}", _constant(row.bonus_constant), _mean(row),
        number(row.quantile), number(row.worst_agent), f"{row.values:.1f}", _score(row),
        _common(row),
    )  # fmt: skip


def _constant(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _common(row: Score | Standing) -> str:
    return "–" if math.isnan(row.common) else short(row.common)


def _mean(row: Score) -> str:
    return with_interval(row.mean, row.interval)


def _score(row: Score) -> str:
    return with_interval(row.score, row.score_interval, short)


CSV_HEADER = (
    "scenario", "policy", "played", "bonus_constant", "mean", "mean_low", "mean_high",
    "quantile_95", "values_per_agent_round", "score", "score_low", "score_high", "rank",
    "worst_agent", "blind", "score_common",
)  # fmt: skip


def as_csv(scores: Sequence[Score]) -> str:
    """Return one line per scenario and policy, floats in full precision."""
    return csv_text(CSV_HEADER, map(csv_cells, scores))


def csv_cells(row: Score) -> list[Any]:
    """Return the cells of one line, as `CSV_HEADER` has them."""
    return [
        row.scenario, row.policy, row.played, row.bonus_constant, row.mean, *row.interval,
        row.quantile, row.values, row.score, *row.score_interval, row.rank, row.worst_agent,
        int(row.blind), row.common,
    ]  # fmt: skip


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header)
    table.writerows(rows)
    return text.getvalue()


def draw(part: Group) -> Figure:
    """Draw all scores, the best policy on top."""
    found = {(row.policy, row.scenario): row.score for row in part.scores}
    scenarios = [scenario.name for scenario in part.scenarios]
    return score_figure(
        [_name(standing.policy, standing) for standing in part.standings],
        scenarios,
        [standing.score for standing in part.standings],
        [[found[standing.policy, name] for name in scenarios] for standing in part.standings],
        title=f"mean regret relative to {part.yardstick}",
    )


def draw_traffic(part: Group) -> Figure:
    """Draw the overall score of every policy whose agents talk, or could, against what it sends."""
    points = [
        Point(_name(standing.policy, standing), standing.values, standing.score)
        for standing in part.standings
        if standing.decentralised
    ]
    return traffic_figure(
        points,
        xlabel="values sent per agent and round",
        ylabel=f"mean regret relative to {part.yardstick}",
    )


def _page(plan: Plan, groups: Sequence[Group], drawings: Sequence[str]) -> str:
    leads = [_lead(plan, part) for part in groups]
    sections = [Section("", figures=list(zip(leads, drawings, strict=True)))]
    for lead, part in zip(leads, groups, strict=True):
        rows = [HEADER, *map(_standing_row, part.standings)]
        sections.append(Section(lead, tables=[Table(rows, left=(1,))]))
    for part in groups:
        for scenario in part.scenarios:
            rows = [SCENARIO_HEADER, *map(_scenario_row, _rows_of(scenario, part.scores))]
            sections.append(Section(f"{scenario.name}: {scenario.probes}", tables=[Table(rows)]))
    return html_page(
        title="Leaderboard of cooperative bandits",
        lead="Every policy in every scenario, on the same random rewards.",
        sections=sections,
        settings=meta(plan),
    )
