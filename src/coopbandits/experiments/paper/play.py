"""Plays all lines of all figures into a ledger, from which a re-run resumes.

Everything is played in this process, whose threads share the runs of a cell. The processes of a
sweep would each load the compiled engine, which takes longer than most cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.experiments.paper.settings import FIGURES, PROBLEM, Line, PaperFigure
from coopbandits.plots import Curve
from coopbandits.results import Result
from coopbandits.results.intervals import subtract
from coopbandits.sim import Cell, SweepInterrupted, merge, simulate
from coopbandits.sim.labels import network_settings
from coopbandits.sim.ledger import Ledger
from coopbandits.sim.progress import Progress


class Part(NamedTuple):
    """One line of one figure, and the cell with its numbers."""

    figure: PaperFigure
    line: Line
    cell: Cell


def make_part(figure: PaperFigure, line: Line, horizon: int, runs: int, seed: int) -> Part:
    """Return what to play for a line; where only N matters, on the first graph of that size."""
    network = figure.network
    if not line.uses_graph:
        networks = [other.network for other in FIGURES.values()]
        network = next(n for n in networks if n.num_agents == network.num_agents)
    return Part(figure, line, Cell(PROBLEM, network, line.policy(network), horizon, runs, seed))


@dataclass(frozen=True)
class Played:
    """One figure's results, with the policies in the order of `lines`."""

    figure: PaperFigure
    lines: tuple[Line, ...]
    result: Result

    def regret(self, key: str) -> Vector:
        """Return a line's final regret, run by run."""
        return self._curves(key)[:, -1]

    def curve(self, line: Line, against: str = "rounds", start: int = 1) -> Curve:
        """Return a line's mean and band from round `start` on, under its displayed name."""
        spelling = self.result.policies[self.lines.index(line)]
        late = Result(self.result.dataset.sel(round=slice(start, None)), self.result.meta)
        return late.curve(spelling, against)._replace(label=line.label)

    def growth(self, key: str) -> Vector:
        """Return the regret that a line gained after round `middle`, run by run."""
        return subtract(self._curves(key)[:, -1], self._curves(key)[:, self._middle])

    @property
    def middle(self) -> int:
        """The last recorded round of the first half."""
        return int(self.rounds[self._middle])

    @property
    def rounds(self) -> Vector:
        """The recorded rounds."""
        rounds: Vector = self.result.dataset["round"].values
        return rounds

    @property
    def _middle(self) -> int:
        return max(0, int(np.searchsorted(self.rounds, self.rounds[-1] / 2, "right")) - 1)

    def _curves(self, key: str) -> Vector:
        position = [line.key for line in self.lines].index(key)
        curves: Vector = self.result.regret.isel(policy=position).values
        return curves


def gather(parts: Sequence[Part], results: Mapping[str, Result]) -> list[Played]:
    """Collect the lines of each figure, in the order of the parts."""
    played = []
    for figure in {part.figure.name: part.figure for part in parts}.values():
        mine = [part for part in parts if part.figure is figure]
        joined = merge([_on(figure, results[part.cell.id]) for part in mine])
        played.append(Played(figure, tuple(part.line for part in mine), joined))
    return played


def _on(figure: PaperFigure, result: Result) -> Result:
    """Relabel a result with the figure's network, which gives the same numbers."""
    network = network_settings(figure.network)
    settings = {**result.meta["settings"], "network": network}
    return Result(result.dataset, {**result.meta, "settings": settings})


def play(
    parts: Sequence[Part],
    folder: Path,
    engine: str,
    threads: int | None,
    progress: bool | None,
) -> dict[str, Result]:
    """Play what the folder does not hold yet; return the result of every cell by its id."""
    ledger = Ledger(folder)
    cells = {part.cell.id: part.cell for part in parts}
    costs = {part.cell.id: part.line.cost * part.cell.network.num_agents for part in parts}
    results = {key: held for key, cell in cells.items() if (held := ledger.load(cell)) is not None}
    with Progress(sum(costs.values()), progress, "playing") as bar:
        bar.advance(sum(costs[key] for key in results))
        for key in [key for key in cells if key not in results]:
            try:
                results[key] = _play_cell(cells[key], ledger, engine, threads)
            except KeyboardInterrupt:
                raise SweepInterrupted(
                    f"interrupted: {len(results)} of {len(cells)} cells are in {folder}; "
                    "re-run to resume"
                ) from None
            bar.advance(costs[key])
    return results


def _play_cell(cell: Cell, ledger: Ledger, engine: str, threads: int | None) -> Result:
    result = simulate(
        cell.problem, cell.network, cell.policy, cell.horizon, cell.runs, cell.seed,
        engine, threads=threads, progress=False,
    )  # fmt: skip
    ledger.store(cell, result)
    return result
