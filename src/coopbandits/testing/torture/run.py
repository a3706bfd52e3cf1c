"""Plays one seed or many, and tells what came of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass

from coopbandits.testing.torture.application import ViolationError
from coopbandits.testing.torture.schedule import SECOND, Schedule, Setting, make_schedule
from coopbandits.testing.torture.stage import Stage
from coopbandits.testing.torture.trace import Trace


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
    return Outcome(
        schedule,
        violation,
        stage.events,
        stage.time / SECOND,
        stage.trace.digest,
        stage.trace.lines or [],
    )


def play_seeds(setting: Setting, seeds: range) -> Iterator[Outcome]:
    """Play some seeds, one after the other."""
    for seed in seeds:
        yield play(make_schedule(seed, setting))
