"""The compiled CPU engine: plays the same arms as the reference engine, far faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numba

from coopbandits.core.aggregate import (
    CentralTotals,
    FloodedPulls,
    FloodedTotals,
    LocalSums,
    NeighborhoodSums,
    RunningConsensus,
    StagedMixing,
)
from coopbandits.core.errors import InputError
from coopbandits.core.policy import Parts
from coopbandits.core.spelling import is_ours
from coopbandits.problems import World
from coopbandits.sim import driver
from coopbandits.sim.cpu import flood, leaves
from coopbandits.sim.cpu.central import play_central
from coopbandits.sim.cpu.choices import (
    CannotCompileError,
    compiled_choice,
    declares_bonus,
)
from coopbandits.sim.cpu.compiling import listening, remove_stale_kernels
from coopbandits.sim.cpu.consensus import play_consensus
from coopbandits.sim.cpu.flooding import play_flooded_pulls, play_neighborhood
from coopbandits.sim.cpu.linear import excess as linear_excess
from coopbandits.sim.cpu.linear import play_linear_flood
from coopbandits.sim.cpu.staged import (
    play_local,
    play_local_bonus,
    play_staged,
    play_staged_bonus,
)
from coopbandits.sim.cpu.world import reward_obstacle
from coopbandits.sim.engine import Engine
from coopbandits.sim.progress import note
from coopbandits.sim.record import Record, Task, Tick, join

remove_stale_kernels(leaves.cache_folder())

Kernel = Callable[[Parts, Task, range, Tick], Record]


SENDS_NOTHING = (play_flooded_pulls, play_neighborhood)
"""Kernels that make no messages, of which the driver would have to keep many."""


def _equivalent(task: Task) -> Kernel | None:
    """Return a kernel that plays a task as the driver does, but faster."""
    is_apart = task.clocks is not None or len(task.policy.members) > 1
    if is_apart or driver.source_of(task.policy) is not None:
        return None
    parts = parts_of(task)
    spec = parts.aggregation
    if type(spec) is FloodedTotals:
        if not _is_logged(parts, task):
            return None
        if task.tables.in_context:
            return None if linear_excess(parts, task) else play_linear_flood
        return None if flood.excess(task) else flood.play_flood
    if task.tables.in_context or task.faults or getattr(spec, "finds_out", False):
        return None
    # Bounds replace most looks at an index with a bonus, where all agents may play all arms, none
    # stops and nothing is forgotten.
    is_plain = not spec.forgets and task.tables.allowed is None and task.stop is None
    has_bonus = is_plain and declares_bonus(parts.index)
    if type(spec) is StagedMixing:
        # Where agents read each other's values in every round, the driver is faster.
        if spec.neighbor_pulls or (spec.remix and not spec.own_pulls):
            return None
        return play_staged_bonus if has_bonus else play_staged
    if type(spec) is LocalSums and not spec.forgets:
        return play_local_bonus if has_bonus else play_local
    if type(spec) is RunningConsensus and not spec.forgets:
        return play_consensus
    if type(spec) is CentralTotals and spec.window is None:
        return play_central
    if type(spec) is NeighborhoodSums and spec == NeighborhoodSums():
        return play_neighborhood
    if type(spec) is FloodedPulls and spec.wait <= 1:
        return play_flooded_pulls
    return None


def _is_logged(parts: Parts, task: Task) -> bool:
    """Return whether entries of a flood can be places in a log, and linear models be without."""
    spec = parts.aggregation
    is_late = any(kind.longest_delay for kind in task.faults.kinds)
    if spec != FloodedTotals(discount=getattr(spec, "discount", 1.0)) or is_late:
        return False
    if not task.tables.in_context:
        return True
    is_plain = not (task.faults or spec.forgets or isinstance(task.problem, World))
    return is_plain and parts.statistic.takes_context


def parts_of(task: Task) -> Parts:
    """Return the parts of a task that is played by its parts; of a population the first's."""
    parts = driver.played_parts(driver.players(task.policy)[0])
    assert parts is not None  # noqa: S101  `obstacle` says so
    return parts


def obstacle(task: Task) -> str | None:
    """Return what is not compiled, as words to follow "no kernel", or None if all is."""
    if driver.on_fields(task):
        if missing := driver.obstacle(task):
            return missing
        uncompiled = (_uncompiled(each, task) for each in _members(task))
        return _excess(task) or next(filter(None, uncompiled), None)
    parts = task.policy.parts
    if parts is None:
        return ""
    if not task.policy.plays_parts:
        return " for agents that it makes itself"
    return f" for aggregation {parts.aggregation.spelling}"


def _excess(task: Task) -> str | None:
    """Return a phrase on how much memory a run takes, or None if it fits."""
    found = None if _equivalent(task) else driver.excess(task)
    parts = parts_of(task)
    if found and not task.tables.in_context and task.clocks is None and _is_logged(parts, task):
        return flood.excess(task)  # of which more agents fit
    return found


def _members(task: Task) -> list[Parts]:
    """Return the parts of all members of a population, or of the policy."""
    found = map(driver.played_parts, driver.players(task.policy))
    return [parts for parts in found if parts is not None]


def _uncompiled(parts: Parts, task: Task) -> str | None:
    if missing := reward_obstacle(task.problem):
        return f", since {missing}"
    if is_ours(parts.index):
        return None  # a kernel that needs its choice compiles that; the shortcuts do not
    if missing := index_obstacle(parts, task):
        return f", since {missing}"
    return None


def index_obstacle(parts: Parts, task: Task) -> str | None:
    """Return why numba cannot compile an index, or None; reject one that fails in plain Python."""
    index = parts.index
    if not is_ours(index) and not task.setup.try_index(parts):
        return f"index {index.spelling} asks how long its numbers or its scratch are"
    try:
        compiled_choice(index)
    except CannotCompileError as error:
        return f"numba cannot compile index {index.spelling} ({error})"
    return None


@contextmanager
def threads(number: int | None) -> Iterator[None]:
    """Use this many threads inside; None for all cores."""
    most: int = numba.config.NUMBA_NUM_THREADS
    if number is not None and not (type(number) is int and 1 <= number <= most):
        raise InputError(f"threads is {number!r}; give 1 to {most}, or None for all")
    before = numba.get_num_threads()
    numba.set_num_threads(number or most)
    try:
        with listening(_tell):
            yield
    finally:
        numba.set_num_threads(before)


_told: list[str] = []


def _tell() -> None:
    """Note once that a kernel is compiled, so that the wait does not look like a hang."""
    if not _told:
        _told.append("compiling the CPU engine for this policy, which takes about 10 s, once")
        note(_told[0])


class CPUEngine:
    """The functions above as an `Engine`."""

    name = "cpu"

    def obstacle(self, task: Task) -> str | None:
        """Return what there is no kernel for, or None."""
        missing = obstacle(task)
        return None if missing is None else f"has no compiled kernel{missing}"

    def run_bytes(self, task: Task) -> int:
        """Return the bytes of one run: registers, the log of a flood, tables of shuffled arms."""
        if (kernel := _equivalent(task)) is None:
            return driver.run_bytes(task)
        table = task.tables.rows.nbytes if task.shuffle_arms else 0
        of_agents = task.network.num_agents * task.problem.num_arms * 100 + table
        if kernel is flood.play_flood:
            return of_agents + flood.bytes_of_a_run(task)
        return of_agents if kernel in SENDS_NOTHING else driver.run_bytes(task)

    def session(self, threads_wanted: int | None) -> AbstractContextManager[None]:
        return threads(threads_wanted)

    def play(self, task: Task, runs: range, tick: Tick) -> Record:
        kernel, parts = _equivalent(task) or driver.play_fields, parts_of(task)
        if task.shuffle_arms and task.tables.allowed is not None:  # other flags in every run
            return join([kernel(parts, task, range(run, run + 1), tick) for run in runs])
        return kernel(parts, task, runs, tick)


ENGINE: Engine = CPUEngine()
