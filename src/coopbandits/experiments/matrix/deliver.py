"""The matrix as text, table, figures and page.

::

    DIR/matrix.csv                    one line per scenario, aggregation and index
    DIR/matrix.svg, .png              normal rewards on perfect networks, as a heat map
    DIR/matrix-bernoulli.svg, .png    rewards of 0 and 1
    DIR/matrix-faults.svg, .png       networks with faults
    DIR/matrix.html                   all tables, and which part matters

The ledger beside them is that of the leaderboard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coopbandits.experiments.leaderboard import CSV_HEADER, csv_cells, csv_text, lead, meta
from coopbandits.experiments.matrix.effects import Effects, find_effects
from coopbandits.experiments.matrix.grid import Grid, make_grid, rows_played
from coopbandits.experiments.matrix.plan import Matrix
from coopbandits.experiments.scores import Score, score
from coopbandits.experiments.suite import Scenario
from coopbandits.plots import Section, Table, figure_bytes, html_page, score_figure, svg
from coopbandits.plots.scores import MISSING, short
from coopbandits.plots.writing import write_files
from coopbandits.problems import make_problem
from coopbandits.results.statistics import columns, plural
from coopbandits.sim import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAULTS = "faults"

KINDS = {
    "gaussian": ("matrix", "with normal rewards"),
    "bernoulli": ("matrix-bernoulli", "with rewards of 0 and 1"),
    FAULTS: ("matrix-faults", "with faults"),
}
"""File name and title of every kind of scenario. Kinds are kept apart because an index for one
family of rewards could not be compared in a mean over both."""

ALL = "all"
"""Key of the effects among all aggregations, central totals excluded."""

WORST = "the largest score of one scenario"

NOTES = """\
A score is the geometric mean over scenarios; overall is that of a row or column, without the row of
central totals. A dash: not played, for want of a compiled kernel or since the rewards do not suit.
Shares are those in the variance of log scores; "both" is what neither part explains alone, and the
noise of few runs."""


class Part(NamedTuple):
    """Scenarios of one kind, their scores, and the resulting table."""

    kind: str
    scenarios: list[Scenario]
    scores: list[Score]
    grid: Grid

    @property
    def yardstick(self) -> str:
        """The policy that scores are relative to."""
        return self.scenarios[0].yardstick

    @property
    def title(self) -> str:
        """The number and kind of scenarios."""
        return f"{plural(len(self.scenarios), 'scenario')} {KINDS[self.kind][1]}"

    @property
    def effects(self) -> dict[str, Effects | None]:
        """Effects of the parts, by set of aggregations."""
        decentralised = ~self.grid.central
        return {
            ALL: find_effects(self.grid, decentralised),
            "those that send messages": find_effects(self.grid, decentralised & self.grid.talks),
        }


def deliver(plan: Matrix, done: Sweep, folder: Path) -> str:
    """Write table, figures and page of a complete matrix; return it as text."""
    scores = score(plan, done.results)
    parts = list(split(plan, scores))
    files = {"matrix.csv": as_csv(plan, scores).encode("utf-8")}
    drawings = []
    for part in parts:
        figure, name = draw(part), KINDS[part.kind][0]
        for ending in ("svg", "png"):
            files[f"{name}.{ending}"] = figure_bytes(figure, ending)
        drawings.append(svg(figure, files[f"{name}.svg"]))
    files["matrix.html"] = _page(plan, parts, drawings).encode("utf-8")
    write_files({folder / name: content for name, content in files.items()})
    return f"{as_text(plan, parts)}\n\nwritten to {folder}: {', '.join(files)}"


def split(plan: Matrix, scores: Sequence[Score]) -> Iterator[Part]:
    """Yield the scenarios by kind; kinds without scenarios are left out."""
    shown = rows_played(plan, scores)
    for kind in KINDS:
        scenarios = [one for one in plan.scenarios if _kind(one) == kind]
        names = {scenario.name for scenario in scenarios}
        rows = [row for row in scores if row.scenario in names]
        if scenarios:
            yield Part(kind, scenarios, rows, make_grid(plan, rows, shown))


def _kind(scenario: Scenario) -> str:
    return FAULTS if scenario.faults else make_problem(scenario.name, scenario.problem).family


def as_text(plan: Matrix, parts: Sequence[Part]) -> str:
    """Return the table of every kind of scenario, and which part matters there."""
    lines = []
    for part in parts:
        lines += [_lead(plan, part), "", *_columns(grid_rows(part.grid)), ""]
        lines += [WORST, "", *_columns(worst_rows(part.grid)), ""]
        lines += [*columns(share_rows(part), left=(0,)), ""]
        if effects := part.effects[ALL]:
            lines += [*columns(effect_rows(effects), left=(0, 2)), ""]
    return "\n".join(line.rstrip() for line in [*lines, NOTES])


def _lead(plan: Matrix, part: Part) -> str:
    return lead(plan, len(part.scenarios), KINDS[part.kind][1], part.yardstick)


def grid_rows(grid: Grid) -> list[tuple[str, ...]]:
    """Return the table with its margins, header first."""
    rows: list[tuple[str, ...]] = [("aggregation", *grid.indices, "overall")]
    for name, scores, mean in zip(grid.aggregations, grid.scores, grid.by_aggregation, strict=True):
        rows.append((name, *map(short, scores), short(mean)))
    return [*rows, ("overall", *map(short, grid.by_index), short(grid.overall))]


def worst_rows(grid: Grid) -> list[tuple[str, ...]]:
    """Return the table of largest scores, head first."""
    rows = zip(grid.aggregations, grid.worst, strict=True)
    head = ("aggregation", *grid.indices)
    return [head, *((name, *map(short, scores)) for name, scores in rows)]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align a table, its head on two lines: so many columns are half as wide then."""
    first, *names = rows[0]
    head = zip((first, ""), *map(_on_two_lines, names), strict=True)
    return columns([*head, *map(tuple, rows[1:])], left=(0,))


def _on_two_lines(name: str) -> tuple[str, str]:
    """Return both parts of a name, or halves of a long one.

    Examples
    --------
    >>> _on_two_lines("kl-ucb"), _on_two_lines("elimination")
    (('kl', 'ucb'), ('elimi-', 'nation'))
    """
    first, _, second = name.partition("-")
    half = len(name) // 2
    return (f"{name[:half]}-", name[half:]) if not second and half > 4 else (first, second)


def share_rows(part: Part) -> list[tuple[str, ...]]:
    """Return the share that the aggregation, the index and their interaction explain."""
    rows: list[tuple[str, ...]] = [
        ("which part matters, among", "aggregation", "index", "both", "spread")
    ]
    for among, effects in part.effects.items():
        if effects is None:
            rows.append((among, *[MISSING] * 4))
        else:
            shares = [f"{share * 100:.0f} %" for share in effects.shares]
            rows.append((among, *shares, f"×{effects.spread:.2f}"))
    return rows


def effect_rows(effects: Effects) -> list[tuple[str, ...]]:
    """Return the factor of each part on scores, best first."""
    sides = (
        [(name, f"×{factor:.2f}") for name, factor in side.items()]
        for side in (effects.aggregations, effects.indices)
    )
    pairs = zip_longest(*sides, fillvalue=("", ""))
    return [("aggregation", "effect", "index", "effect"), *((*a, *i) for a, i in pairs)]


def as_csv(plan: Matrix, scores: Sequence[Score]) -> str:
    """Return one line per scenario, aggregation and index, floats in full precision."""
    rows = []
    for row in scores:
        if row.policy in plan.pairs:
            scenario, _, *rest = csv_cells(row)
            rows.append([scenario, *plan.pairs[row.policy], *rest])
    scenario, _, *rest = CSV_HEADER
    return csv_text([scenario, "aggregation", "index", *rest], rows)


def draw(part: Part) -> Figure:
    """Draw the table with its margins."""
    grid = part.grid
    return score_figure(
        ["overall", *grid.aggregations],
        grid.indices,
        [grid.overall, *grid.by_aggregation],
        np.vstack([grid.by_index, grid.scores]),
        title=f"{part.title}: mean regret relative to {part.yardstick}",
        top_is_overall=True,
    )


def _page(plan: Matrix, parts: Sequence[Part], drawings: Sequence[str]) -> str:
    sections = []
    for part, drawing in zip(parts, drawings, strict=True):
        tables = [
            Table(share_rows(part), "Which part matters"),
            Table(worst_rows(part.grid), WORST.capitalize()),
        ]
        for among, effects in part.effects.items():
            if effects is not None:
                caption = f"Effects among {among}: scores, times the average part's"
                tables.append(Table(effect_rows(effects), caption, left=(0, 2)))
        sections.append(Section(part.title, figures=[(_lead(plan, part), drawing)], tables=tables))
    for part in parts:
        for scenario in part.scenarios:
            rows = [row for row in part.scores if row.scenario == scenario.name]
            table = Table(grid_rows(make_grid(plan, rows, part.grid.aggregations)))
            sections.append(Section(f"{scenario.name}: {scenario.probes}", tables=[table]))
    return html_page(
        title="Which part matters",
        lead=f"Every aggregation × every index, on the same random rewards. {NOTES}",
        sections=sections,
        settings=meta(plan),
    )
