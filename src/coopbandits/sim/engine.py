"""Engines: what `simulate` asks of one, which there are, and which plays a task."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Protocol

import numpy as np
from scipy.sparse import csgraph

from coopbandits.core.aggregate.entries import HEADER
from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.policy import Parts
from coopbandits.sim.progress import note
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.setup import PRECISIONS

AUTO = "auto"
GPU = "gpu"
REFERENCE = "reference"

ENGINES = (
    (GPU, "coopbandits.sim.gpu"),
    ("cpu", "coopbandits.sim.cpu"),
    (REFERENCE, "coopbandits.sim.asynchronous"),
    (REFERENCE, "coopbandits.sim.reference"),
)
"""Name and module of every engine, fastest first. A module is imported when it may be needed and
holds its engine as `ENGINE`. Of engines with the same name, the first that can plays a task. The
GPU engine must be asked for: it needs what most machines do not have."""

WORTH_TELLING = 60.0
"""Seconds from which the note on the reference engine says how long it takes."""

NAMES = (AUTO, *dict.fromkeys(name for name, _ in ENGINES))
"""What users may ask for."""


class Engine(Protocol):
    """Plays tasks: the same arms as every other engine.

    Attributes
    ----------
    name : str
        What it is called in results.
    """

    name: str

    def obstacle(self, task: Task) -> str | None:
        """Return why it cannot play a task, as words to follow the policy's name, or None."""

    def run_bytes(self, task: Task) -> int | None:
        """Return the bytes that each run of a batch takes; None to get runs one at a time."""

    def session(self, threads: int | None) -> AbstractContextManager[None]:
        """Prepare to play with this many threads, None for all; refuse impossible numbers."""

    def play(self, task: Task, runs: range, tick: Tick) -> Record:
        """Play some runs, inside a session; arms are recorded by their place in `arm_order`."""


def choose(wanted: str, task: Task) -> Engine:
    """Return the wanted engine, or the fastest for "auto"; the reference engine if none can.

    For the GPU engine the next fastest steps in. A note on standard error says so if an engine
    steps in unasked. The reference engine does not where that would take days, or more memory than
    there is.
    """
    if wanted not in NAMES:
        raise unknown_name("engine", str(wanted), NAMES)
    if task.precision != PRECISIONS[0] and wanted != GPU:
        raise InputError(
            f'precision is {task.precision!r}, which engine="gpu" alone has, and engine is '
            f'{wanted!r}; give engine="gpu", or leave precision out'
        )
    obstacles: list[str] = []
    for name, module in ENGINES:
        # The reference engine may always step in, the GPU only if it was asked for.
        may_play = wanted in (name, GPU) or name == REFERENCE or (wanted == AUTO and name != GPU)
        if not may_play:
            continue
        engine = _load(module)
        obstacle = engine.obstacle(task)
        if obstacle is None:
            if name == REFERENCE != wanted:
                _step_in(f"{task.given.spelling} {obstacles[0]}", task)
            elif name != GPU == wanted:
                how = "" if task.precision == PRECISIONS[0] else f", in {PRECISIONS[0]}"
                note(f"{task.given.spelling} {obstacles[0]}, so the {name} engine plays it{how}")
            return engine
        obstacles.append(obstacle)
    raise InputError(f"no engine plays {task.given.spelling}: it {obstacles[0]}")


def _load(module: str) -> Engine:
    try:
        engine: Engine = import_module(module).ENGINE
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        raise InputError(
            "compiled kernels have no folder that can be written; set NUMBA_CACHE_DIR to one, or "
            'take engine="reference", which is slower'
        ) from error
    return engine


def _step_in(why: str, task: Task) -> None:
    """Note that the reference engine plays unasked, or reject what takes too much."""
    if excess := too_much(task):
        raise InputError(
            f"{why}, and the reference engine {excess}; take fewer agents, rounds or runs, or "
            'ask for it with engine="reference"'
        )
    seconds = reference_seconds(task)
    takes = f" in about {in_words(seconds)}" if seconds > WORTH_TELLING else ""
    note(f"{why}, so the slower {REFERENCE} engine plays it{takes}")


@contextmanager
def one_thread(threads: int | None) -> Iterator[None]:
    """Session of an engine that plays in one thread, whatever the limit."""
    if threads is not None:
        require_count("threads", threads)
    yield


# What the reference engine would cost, to refuse a fallback that no user would wait for. The
# figures are those of one core of an ordinary machine, right to a factor of about four: enough to
# tell minutes from weeks.

AGENT, MESSAGE, ENTRY = 30e-6, 20e-6, 1e-6
"""Seconds per agent and round, per message, and per agent that a growing message tells of."""

MOST_SECONDS = 4 * 3600.0
"""A policy that would take longer than four hours on the reference engine must be sent there by
name. Our own suites stay below it."""


def too_much(task: Task) -> str | None:
    """Return why the reference engine should not step in unasked, as words after "it", or None."""
    needed, there = reference_memory(task), physical_memory()
    if needed > there:
        agents = int(task.network.num_agents * there / needed)
        return (
            f"would take about {needed / 1e9:.3g} GB, more than the {there / 1e9:.3g} GB of this "
            f"machine (about {agents} agents fit)"
        )
    if (needed := reference_seconds(task)) <= MOST_SECONDS:
        return None
    enough, rounds = in_words(MOST_SECONDS), int(task.horizon * MOST_SECONDS / needed)
    return f"would take about {in_words(needed)} ({enough} are enough for about {rounds} rounds)"


def reference_seconds(task: Task) -> float:
    """Return about how long all runs take."""
    agents = task.network.num_agents
    if task.policy.central:
        return AGENT * agents * task.horizon * task.num_runs
    message = MESSAGE + (ENTRY * reach(task) if _grows(task.policy.parts) else 0.0)
    rounds = AGENT * agents + message * int(task.network.adjacency.nnz)
    return rounds * task.horizon * task.num_runs


def reference_memory(task: Task) -> float:
    """Return about how many bytes the agents of one run take, where that is more than a little."""
    parts = task.policy.parts
    if not _grows(parts):
        return 0.0
    assert parts is not None  # noqa: S101  `_grows` has looked
    width = HEADER + parts.registers(task.problem.num_arms, task.num_features).size
    return 8.0 * width * task.network.num_agents * reach(task)


def _grows(parts: Parts | None) -> bool:
    return parts is not None and bool(getattr(parts.aggregation, "grows", False))


def reach(task: Task) -> int:
    """Return how many agents' news reaches one agent, the first, within the horizon."""
    graph, hops = task.network.adjacency, min(task.horizon, task.network.num_agents)
    near = csgraph.dijkstra(graph, indices=0, unweighted=True, limit=hops)
    return int(np.isfinite(near).sum())


def physical_memory() -> float:
    """Return the bytes of memory of this machine; endless where it does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def in_words(seconds: float) -> str:
    """Return a number of seconds in the unit that people use."""
    for size, unit in ((86_400, "days"), (3600, "hours")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds / 60:.0f} minutes"
