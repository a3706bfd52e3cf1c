"""Sweeps: many cells through any executor, into a ledger, once each.

Only the driver writes, so executors need no shared disk. A worker that dies fails every future of a
local pool. The pool is then rebuilt and the cells in progress are re-run one at a time, so that the
one that kills its worker is found and set aside while the rest of the sweep continues.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError
from coopbandits.core.spelling import html_facts
from coopbandits.plots.writing import write_text
from coopbandits.results import Result
from coopbandits.results.statistics import plural
from coopbandits.sim.compare import cells_frame, summary_frame
from coopbandits.sim.engine import GPU
from coopbandits.sim.ledger import Cell, Ledger, run_cell
from coopbandits.sim.progress import Progress, note

if TYPE_CHECKING:
    import pandas as pd


WINDOW = 32
"""Cells that a caller's own executor holds at a time."""


@dataclass
class Sweep:
    """The outcome of a sweep.

    Attributes
    ----------
    results : list of (Cell, Result)
        Finished cells, in the order given.
    failed : list of (Cell, str)
        Cells that were set aside, with their error.
    """

    results: list[tuple[Cell, Result]] = field(default_factory=list)
    failed: list[tuple[Cell, str]] = field(default_factory=list)

    def to_dataframe(self, table: str = "rounds") -> pd.DataFrame:
        """Return a tidy pandas table of all cells: `Result.to_dataframe`, after their settings."""
        return cells_frame(self.results, table)

    def summary_frame(self, *, pool_seeds: bool = False) -> pd.DataFrame:
        """Return one row per cell: mean final regret with intervals, quantiles, values sent.

        `pool_seeds` makes one sample of the runs of all seeds.
        """
        return summary_frame(self.results, pool_seeds=pool_seeds)

    def to_csv(self, path: str | Path, *, pool_seeds: bool = False) -> Path:
        """Write `summary_frame` as a CSV file."""
        write_text(Path(path), self.summary_frame(pool_seeds=pool_seeds).to_csv(index=False))
        return Path(path)

    def _repr_html_(self) -> str:
        facts: list[tuple[str, object]] = [(str(cell), error) for cell, error in self.failed]
        done = f"Sweep: {plural(len(self.results), 'cell')} finished, {len(self.failed)} set aside"
        return html_facts(done, facts)


class SweepInterrupted(KeyboardInterrupt):
    """Ctrl-C during a sweep; finished cells are in the ledger."""


def sweep(
    cells: Sequence[Cell],
    folder: str | Path,
    executor: Executor | None = None,
    *,
    workers: int | None = None,
    retry: bool = False,
    progress: bool | None = None,
) -> Sweep:
    """Play every cell that the folder does not hold yet.

    Parameters
    ----------
    cells : sequence of Cell
        What to play; duplicates are played once.
    folder : path
        Folder of the ledger.
    executor : concurrent.futures.Executor, optional
        Where to play; by default a local pool of processes. It is not shut down.
    workers : int, optional
        Processes of the local pool; by default one per core, and one where cells ask for the GPU.
    retry : bool
        Retry cells that were set aside earlier.
    progress : bool or None
        As in `simulate`.
    """
    if workers is not None:
        require_count("workers", workers)
    ledger = Ledger(Path(folder))
    unique = list({cell.id: cell for cell in _read_cells(cells)}.values())
    results: dict[str, Result] = {}
    missing = []
    with Progress(len(unique), progress, "cells") as bar:
        try:
            for cell in unique:
                if (result := ledger.load(cell)) is not None:
                    results[cell.id] = result
                elif retry or ledger.quarantined(cell) is None:
                    missing.append(cell)
                    continue
                bar.advance(1)
            for cell, outcome in _play(missing, executor, workers):
                _enter(ledger, cell, outcome)
                if isinstance(outcome, Result):
                    results[cell.id] = outcome
                bar.advance(1)
        except KeyboardInterrupt:
            finished = sum(ledger.path(cell).is_dir() for cell in unique)
            raise SweepInterrupted(
                f"interrupted: {finished} of {len(unique)} cells are in {folder}; re-run to resume"
            ) from None
    return Sweep(
        results=[(cell, results[cell.id]) for cell in unique if cell.id in results],
        failed=[
            (cell, ledger.quarantined(cell) or "its note cannot be read")
            for cell in unique
            if cell.id not in results
        ],
    )


def _read_cells(given: Any) -> list[Cell]:
    """Return cells as a list; reject anything else."""
    if isinstance(given, Cell) or not isinstance(given, Iterable):
        shown = f"one cell, {given}" if isinstance(given, Cell) else repr(given)
        raise InputError(f"cells is {shown}; give a list such as [cb.Cell(…)]")
    cells = list(given)
    for cell in cells:
        if not isinstance(cell, Cell):
            raise InputError(f"cells holds {cell!r}; give a list of cells such as [cb.Cell(…)]")
    return cells


def _enter(ledger: Ledger, cell: Cell, outcome: Result | BaseException) -> None:
    if isinstance(outcome, BaseException):
        ledger.quarantine(cell, f"{type(outcome).__name__}: {outcome}")
        note(f"{cell} failed and was set aside: {type(outcome).__name__}: {outcome}")
    else:
        ledger.store(cell, outcome)


Outcomes = Iterator[tuple[Cell, Result | BaseException]]


class _BrokenError(Exception):
    """An executor broke; the suspects are the cells in progress."""

    def __init__(self, suspects: list[Cell], error: BaseException) -> None:
        super().__init__(str(error))
        self.suspects = suspects
        self.error = error


def _play(cells: list[Cell], executor: Executor | None, workers: int | None) -> Outcomes:
    waiting = deque(cells)
    if executor is not None:
        try:
            yield from _through(executor, waiting, WINDOW)
        except _BrokenError as broken:
            raise InputError(
                f"the executor broke while playing {broken.suspects[0]}: {broken.error}; finished "
                "cells are kept, so start a new executor and run it again"
            ) from broken.error
        return
    # Processes that share a device would only wait for each other.
    usual = 1 if any(cell.engine == GPU for cell in cells) else os.cpu_count() or 1
    size = max(1, min(workers or usual, len(cells)))
    while waiting:
        try:
            with worker_pool(size) as pool:
                yield from _through(pool, waiting, size)
        except _BrokenError as broken:
            for suspect in broken.suspects:
                note(f"a worker process died; running {suspect} by itself")
                yield _alone(suspect)


def _alone(cell: Cell) -> tuple[Cell, Result | BaseException]:
    """Play a suspect in a process of its own: if that dies, this cell killed it."""
    try:
        with worker_pool(1) as pool:
            return next(_through(pool, deque([cell]), 1))
    except _BrokenError as broken:
        return cell, broken.error


def _through(executor: Executor, waiting: deque[Cell], window: int) -> Outcomes:
    """Yield outcomes as they come, or raise `_BrokenError`; `waiting` keeps the rest."""
    running: dict[Future[Result], Cell] = {}
    while waiting or running:
        while waiting and len(running) < window:
            try:
                running[executor.submit(run_cell, waiting[0])] = waiting[0]
            except BrokenExecutor as error:
                raise _BrokenError([*running.values(), waiting.popleft()], error) from error
            waiting.popleft()
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            failure = future.exception()
            if isinstance(failure, BrokenExecutor):
                raise _BrokenError(list(running.values()), failure)
            yield running.pop(future), failure or future.result()


@contextmanager
def worker_pool(size: int) -> Iterator[ProcessPoolExecutor]:
    """Start worker processes that leave Ctrl-C to the driver; kill them on any error.

    If the driver itself is killed, they end by themselves.
    """
    context = _Workers()
    pool = ProcessPoolExecutor(size, mp_context=context, initializer=_begin)
    try:
        yield pool
    except BaseException:
        context.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Workers(SpawnContext):
    """Remembers the processes that a pool starts, since a pool cannot kill them."""

    def __init__(self) -> None:
        self.processes: list[SpawnProcess] = []

    def Process(self, *args: Any, **settings: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802  a class there
        process = SpawnProcess(*args, **settings)
        self.processes.append(process)
        return process

    def kill(self) -> None:
        for process in self.processes:
            if process.is_alive():
                process.kill()


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_driver, daemon=True).start()


def _end_with_driver() -> None:
    """Wait for the driver's end: a worker of a pool would wait for its next task for ever."""
    driver = multiprocessing.parent_process()
    assert driver is not None  # noqa: S101  this process was started by one
    driver.join()
    os._exit(1)


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """Connect to a scheduler, such as ``tcp://127.0.0.1:8786``; its workers need coopbandits."""
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(
            "Dask is not installed; install it with: pip install 'coopbandits[cluster]'"
        ) from error
    try:
        client = Client(address, timeout=5)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address}; start one with: dask scheduler"
        ) from error
    try:
        yield client.get_executor()
    finally:
        client.close()
