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
from coopbandits.core.aggregate.fields import Aggregation
from coopbandits.core.errors import InputError
from coopbandits.core.policy import Parts
from coopbandits.core.spelling import is_ours
from coopbandits.problems import World
from coopbandits.sim import driver
from coopbandits.sim.cpu import flood, leaves, own_rewards, stale_cache
from coopbandits.sim.cpu.central import play_central
from coopbandits.sim.cpu.choices import (
    CannotCompileError,
    compiled_choice,
    declares_bonus,
)
from coopbandits.sim.cpu.compiling import listening
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
from coopbandits.sim.engine import Engine
from coopbandits.sim.progress import note
from coopbandits.sim.record import Record, Task, Tick, join

stale_cache.remove(leaves.cache_folder())

Kernel = Callable[[Parts, Task, range, Tick], Record]

KERNELS: dict[type, Kernel] = {FloodedTotals: flood.play_flood}
"""Aggregation → the kernel that plays any index on it; subclasses have none."""


SHORTCUTS: dict[type, Kernel] = {StagedMixing: play_staged_bonus, LocalSums: play_local_bonus}
"""Faster kernels for indices that declare a bonus, without faults and where nothing is forgotten,
where all may play all arms and nobody stops."""


def find_kernel(task: Task) -> Kernel:
    """Return the kernel that plays a task."""
    if faster := _equivalent(task):
        return faster
    if driver.on_fields(task):
        return driver.play_fields
    kind = type(parts_of(task).aggregation)
    return play_linear_flood if task.tables.in_context else KERNELS[kind]


def _equivalent(task: Task) -> Kernel | None:
    """Return a kernel that plays a task as the driver does, but faster."""
    is_apart = task.clocks is not None or task.tables.in_context or bool(task.faults)
    if is_apart or len(task.policy.members) > 1 or driver.source_of(task.policy) is not None:
        return None
    parts = parts_of(task)
    kind, lasts = type(parts.aggregation), not parts.aggregation.forgets
    is_plain = lasts and task.tables.allowed is None and task.stop is None
    if is_plain and declares_bonus(parts.index) and kind in SHORTCUTS:
        return SHORTCUTS[kind]
    if kind is LocalSums and lasts:
        return play_local
    if kind is RunningConsensus and lasts:
        return play_consensus
    if kind is CentralTotals and getattr(parts.aggregation, "window", None) is None:
        return play_central
    if kind is NeighborhoodSums and parts.aggregation == NeighborhoodSums():
        return play_neighborhood
    if kind is FloodedPulls and getattr(parts.aggregation, "wait", 0) <= 1:
        return play_flooded_pulls
    return play_staged if kind is StagedMixing else None


def parts_of(task: Task) -> Parts:
    """Return the parts of a task that is played by its parts; of a population the first's."""
    parts = driver.played_parts(driver.players(task.policy)[0])
    assert parts is not None  # noqa: S101  `obstacle` says so
    return parts


def obstacle(task: Task) -> str | None:
    """Return what is not compiled, as words to follow "no kernel", or None if all is.

    For aggregations on fields `driver.obstacle` says it. Beside these, floods of totals alone are
    compiled, and some of their settings, faults and linear models are not.
    """
    if driver.on_fields(task):
        if missing := driver.obstacle(task):
            return missing
        uncompiled = (_uncompiled(each, task) for each in _members(task))
        too_much = None if _equivalent(task) else driver.excess(task)
        return too_much or next(filter(None, uncompiled), None)
    parts = task.policy.parts
    if parts is None:
        return ""
    if not task.policy.plays_parts:
        return " for agents that it makes itself"
    if isinstance(parts.aggregation, Aggregation):
        return parts.aggregation.machine_only
    if type(parts.aggregation) not in KERNELS:
        return f" for aggregation {parts.aggregation.spelling}"
    if task.clocks is not None:
        return f" for {parts.aggregation.name} on own clocks"
    return _no_setting(parts.aggregation) or _no_flood(parts, task) or _uncompiled(parts, task)


def _no_setting(aggregation: object) -> str:
    """Return a setting of a flood that is for the reference engine, in the same words."""
    if getattr(aggregation, "window", None) is not None:
        return " for windows of floods"
    if getattr(aggregation, "lazy", 0.0):
        return " for lazy floods"
    if getattr(aggregation, "spread", None) is not None:
        return " for floods that are pooled in part"
    return ""


def _no_flood(parts: Parts, task: Task) -> str:
    """Return what a flood meets with that is for the reference engine, in the same words."""
    late = any(kind.longest_delay for kind in task.faults.kinds)
    if task.faults and (late or task.tables.in_context):
        return f" for {parts.aggregation.name} under faults {task.faults.spelling}"
    if task.tables.in_context:
        return _no_linear_flood(parts, task)
    if parts.statistic.registers(task.problem.num_arms).layout is None:
        return f" for statistic {parts.statistic.spelling}"
    return flood.excess(task) or ""


def _no_linear_flood(parts: Parts, task: Task) -> str:
    """Return the same for rewards that depend on features."""
    if not parts.statistic.takes_context or not is_ours(parts.index):
        return f" of index {parts.index.spelling} for rewards that depend on features"
    if parts.aggregation.forgets:
        return " for floods of linear models that forget"
    # A world of one group and one segment is alike everywhere, but has other coefficients than the
    # problem that it is made of, and the kernel asks the problem.
    if isinstance(task.problem, World) or not task.tables.is_everywhere_alike:
        return " for floods of linear models in worlds"
    if linear_excess(parts, task):
        return f" for floods of linear models among {task.network.num_agents} agents"
    return ""


def _members(task: Task) -> list[Parts]:
    """Return the parts of all members of a population, or of the policy."""
    found = map(driver.played_parts, driver.players(task.policy))
    return [parts for parts in found if parts is not None]


def _uncompiled(parts: Parts, task: Task) -> str | None:
    if missing := own_rewards.obstacle(task.problem):
        return f", since {missing}"
    if is_ours(parts.index):
        return None  # a kernel that needs its choice compiles that; the shortcuts do not
    if missing := index_obstacle(parts, task):
        return f", since {missing}"
    return None


def index_obstacle(parts: Parts, task: Task) -> str | None:
    """Return why numba cannot compile an index, or None; refuse one that fails in plain Python."""
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
    """Note that a kernel is compiled, once, so that nobody takes the wait for a hang."""
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
        table = task.tables.rows.nbytes if task.shuffle_arms else 0
        of_agents = task.network.num_agents * task.problem.num_arms * 100 + table
        if driver.on_fields(task):
            sends_nothing = _equivalent(task) in (play_flooded_pulls, play_neighborhood)
            return of_agents if sends_nothing else driver.run_bytes(task)
        if task.tables.in_context:
            size = parts_of(task).registers(task.problem.num_arms, task.num_features).size
            return 8 * size * (task.network.num_agents**2 + task.network.num_edges)
        return of_agents + flood.bytes_of_a_run(task)

    def session(self, threads_wanted: int | None) -> AbstractContextManager[None]:
        """Use this many threads, and announce compilations."""
        return threads(threads_wanted)

    def play(self, task: Task, runs: range, tick: Tick) -> Record:
        """Play some runs together."""
        kernel, parts = find_kernel(task), parts_of(task)
        if task.shuffle_arms and task.tables.allowed is not None:  # other flags in every run
            return join([kernel(parts, task, range(run, run + 1), tick) for run in runs])
        return kernel(parts, task, runs, tick)


ENGINE: Engine = CPUEngine()
