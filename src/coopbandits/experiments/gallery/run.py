"""Plays a gallery experiment: a sweep into a ledger, then table, CSV and figure."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from coopbandits.core.checks import require_count
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.registry import parse_policy
from coopbandits.experiments.gallery import bounds
from coopbandits.experiments.gallery.entries import ENTRIES, PER_AGENT, Entry, Point
from coopbandits.experiments.gallery.outcome import Outcome, Series
from coopbandits.network import Network
from coopbandits.plots import figure_bytes
from coopbandits.plots.writing import write_files
from coopbandits.problems import GaussianBandit, parse_means
from coopbandits.sim import Cell, Sweep, sweep
from coopbandits.sim.engine import AUTO, NAMES


def run_gallery(
    name: str,
    runs: int = 10,
    seed: int = 0,
    out: str | Path = "out",
    executor: Executor | None = None,
    *,
    workers: int | None = None,
    engine: str = AUTO,
    retry: bool = False,
    progress: bool | None = None,
) -> Outcome:
    """Play what is missing of an experiment, and write its files.

    Parameters
    ----------
    name : str
        One of `ENTRIES`.
    runs, seed : int
        Repetitions of every point, and their seed.
    out : path
        Folder of the ledger, as in `sweep`, and of NAME.csv, NAME.svg and NAME.png; for some also
        of NAME-seconds.csv and so on, the time that playing took.
    executor, workers, retry, progress
        As in `sweep`.
    engine : str
        As in `simulate`.
    """
    if name not in ENTRIES:
        raise unknown_name("experiment of the gallery", name, ENTRIES)
    require_count("runs", runs)
    require_count("seed", seed, least=0)
    entry = ENTRIES[name]
    if entry.points:
        if engine not in NAMES:
            raise unknown_name("engine", engine, NAMES)
        cells = [replace(cell_of(point, runs, seed), engine=engine) for point in entry.points]
        done = sweep(cells, out, executor, workers=workers, retry=retry, progress=progress)
        outcome = _collect(name, entry, cells, done)
        if entry.timed and outcome.series:
            write(_timed(name, entry, cells, done), Path(out))
    else:
        outcome = Outcome(name, entry, _computed())
    if not outcome.series:
        raise InputError(
            f"no point of {name} could be played; the first failed with {outcome.failed[0]}; "
            "repair that and play it again with retry"
        )
    write(outcome, Path(out))
    return outcome


def write(outcome: Outcome, folder: Path) -> None:
    """Write CSV and figures."""
    figure = outcome.figure()
    files = {folder / f"{outcome.name}.csv": outcome.csv().encode()}
    for ending in ("svg", "png"):
        files[folder / f"{outcome.name}.{ending}"] = figure_bytes(figure, ending)
    write_files(files)


def cell_of(point: Point, runs: int, seed: int) -> Cell:
    """Return the cell of a point."""
    problem, network = GaussianBandit(parse_means(point.means)), Network.from_spec(point.graph)
    return Cell(problem, network, parse_policy(point.policy), point.horizon, runs, seed)


def _collect(name: str, entry: Entry, cells: list[Cell], done: Sweep) -> Outcome:
    regret = {
        cell.id: result.regret.values[0, :, -1]
        / (cell.network.num_agents if entry.ylabel == PER_AGENT else 1)
        for cell, result in done.results
    }
    failed = tuple(f"{cell}: {error}" for cell, error in done.failed)
    return Outcome(name, entry, _all_series(entry, cells, regret), failed)


def _timed(name: str, entry: Entry, cells: list[Cell], done: Sweep) -> Outcome:
    """Return how long all runs of each point took, when they were played."""
    seconds = {
        cell.id: np.array([max(0.001, result.meta["wall_seconds"])])  # which is rounded so
        for cell, result in done.results
    }
    took = replace(entry, question="How long does that take?", ylabel="seconds for all runs")
    return Outcome(f"{name}-seconds", took, _all_series(entry, cells, seconds))


def _all_series(entry: Entry, cells: list[Cell], found: dict[str, Vector]) -> tuple[Series, ...]:
    """Return what was found of every point, series by series."""
    pairs = [
        (point, found[cell.id])
        for point, cell in zip(entry.points, cells, strict=True)
        if cell.id in found
    ]
    groups = groupby(pairs, lambda pair: pair[0].series)
    return tuple(_series(label, list(members)) for label, members in groups)


def _series(label: str, members: list[tuple[Point, Vector]]) -> Series:
    x = np.array([float(point.x) for point, _ in members])
    return Series(label, x, np.array([values for _, values in members]))


def _computed() -> tuple[Series, ...]:
    """Return the comparison of bounds, which needs no simulation."""
    x = np.array(bounds.NUM_AGENTS, dtype=np.float64)
    rows = np.array([bounds.bound_factors(agents) for agents in bounds.NUM_AGENTS]).T
    return tuple(
        Series(label, x, row[:, None]) for label, row in zip(bounds.SERIES, rows, strict=True)
    )
