"""Plays one seed or many, and tells what came of it."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial

from coopbandits.core.checks import require_count
from coopbandits.sim.sweep import worker_pool
from tests.torture.application import ViolationError
from tests.torture.schedule import SECOND, Schedule, Setting, make_schedule
from tests.torture.spelling import command
from tests.torture.stage import Stage
from tests.torture.trace import Trace

WORTH_A_WORKER = 10
"""So many seeds take longer than the start of a process."""


@dataclass(frozen=True)
class Outcome:
    """What came of one schedule.

    Attributes
    ----------
    schedule : Schedule
        What was played.
    violation : str
        The promise that was not kept, in one sentence; empty if all were.
    events : int
        Events until the end or the violation.
    seconds : float
        Virtual seconds until then.
    digest : str
        Hash of the trace.
    lines : list of str
        The trace itself, if it was kept.
    """

    schedule: Schedule
    violation: str
    events: int
    seconds: float
    digest: str
    lines: list[str]


def play(schedule: Schedule, *, keep: bool = False) -> Outcome:
    """Play a schedule to its end, or to the first violation."""
    collects = gc.isenabled()
    gc.disable()  # a run makes few cycles that die before its end; looking for them takes a tenth
    try:
        return _play(schedule, keep=keep)
    finally:
        if collects:
            gc.enable()


def _play(schedule: Schedule, *, keep: bool) -> Outcome:
    stage = Stage(schedule, Trace(keep=keep))
    violation = ""
    try:
        stage.run()
    except ViolationError as found:
        violation = str(found)
    except Exception as error:  # a fault of torture itself: none of an agent comes this far
        error.add_note(f"This happened while seed {schedule.seed} was played: {command(schedule)}")
        raise
    return Outcome(
        schedule,
        violation,
        stage.events,
        stage.time / SECOND,
        stage.trace.digest,
        stage.trace.lines or [],
    )


def play_seeds(
    setting: Setting, seeds: Sequence[int], *, workers: int | None = None
) -> Generator[Outcome, None, None]:
    """Play some seeds, and yield what came of each, in their order.

    Parameters
    ----------
    setting : Setting
        What all have in common.
    seeds : sequence of int
        The seeds.
    workers : int, optional
        Local processes; by default one per core, as long as each has enough to do.
    """
    if workers is None:
        size = min(os.cpu_count() or 1, len(seeds) // WORTH_A_WORKER)
    else:
        require_count("workers", workers)
        size = min(workers, len(seeds))
    if size > 1:
        with worker_pool(size) as pool:
            yield from pool.map(partial(_play_seed, setting), seeds)
    else:
        for seed in seeds:
            yield play(make_schedule(seed, setting))


def _play_seed(setting: Setting, seed: int) -> Outcome:
    """Play a seed in a worker process, whose log nobody reads."""
    logging.disable(logging.CRITICAL)
    return play(make_schedule(seed, setting))
