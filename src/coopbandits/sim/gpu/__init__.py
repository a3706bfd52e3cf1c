"""The GPU engine: CUDA kernels that play the same arms as the reference engine.

Sources are C++ (`kernels`), compiled when they are needed: for a CUDA device, or, with the
environment variable COOPBANDITS_GPU=emulated, by a C++ compiler for this machine's processor.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from coopbandits.core.aggregate import CentralTotals, LocalSums, RunningConsensus, StagedMixing
from coopbandits.core.errors import InputError
from coopbandits.core.policy import Parts
from coopbandits.sim import cpu, driver
from coopbandits.sim.cpu.choices import declares_bonus
from coopbandits.sim.engine import Engine, one_thread
from coopbandits.sim.gpu.backend import Backend, backend
from coopbandits.sim.gpu.rounds import central_obstacle, play_central, play_consensus
from coopbandits.sim.gpu.runs import discount_of, run_bytes
from coopbandits.sim.gpu.staged import play_local, play_staged
from coopbandits.sim.gpu.translate import CannotTranslateError, draws_one, index_source
from coopbandits.sim.record import Record, Task, Tick, join

Driver = Callable[[Parts, Task, range, Tick, Backend], Record]

DRIVERS: dict[type, Driver] = {
    StagedMixing: play_staged,
    RunningConsensus: play_consensus,
    LocalSums: play_local,
    CentralTotals: play_central,
}
"""Aggregation → what plays any index on it; subclasses have none."""

MOST_ARMS = 400
"""The totals of an agent's arms stand in shared memory, of which there is so much."""

MOST_AGENTS = (1 << 31) - 1
"""Of all runs of a batch together: places are whole numbers of 32 bits."""

SHARE = 0.9
"""How much of the free memory is taken."""


def obstacle(task: Task) -> str | None:
    """Return what there is no kernel for, as words to follow "no kernel", or None if one plays."""
    if task.policy.plays_parts and type(cpu.parts_of(task).aggregation) not in DRIVERS:
        return f" for aggregation {cpu.parts_of(task).aggregation.spelling}"
    if (missing := cpu.obstacle(task)) is not None:
        return missing
    if task.clocks is not None:
        return " on own clocks"
    if getattr(cpu.parts_of(task).aggregation, "finds_out", False):
        return " for agents that find out what they are not told"
    if driver.source_of(task.policy) is not None:
        return " for rewards from a source"
    if len(task.policy.members) > 1:
        return " for populations"
    if task.faults:
        return f" for faults {task.faults.spelling}"
    if task.stop is not None or task.tables.allowed is not None:
        return " for agents that stop" if task.stop else " for subsets of arms"
    if task.tables.in_context or task.problem.reward_function() is not None:
        return f" for the rewards of {type(task.problem).__name__}"
    if task.problem.num_arms > MOST_ARMS:
        return f" for more than {MOST_ARMS} arms"
    return _no_setting(cpu.parts_of(task), task)


def _no_setting(parts: Parts, task: Task) -> str | None:
    aggregation, layout = parts.aggregation, parts.statistic.registers(task.problem.num_arms).layout
    if layout is None or layout.squares > 0:
        return f" for statistic {parts.statistic.spelling}"
    if isinstance(aggregation, CentralTotals) and (missing := central_obstacle(parts, task)):
        return missing
    if isinstance(aggregation, StagedMixing):
        if aggregation.neighbor_pulls:
            return " for neighbours' pulls that are read at once"
        if aggregation.remix and not aggregation.own_pulls:
            return " for remixed totals that are read every round"
    try:
        index_source(parts.index)
        if task.precision != "float64" and discount_of(parts) != 1.0:
            return f" in {task.precision} for agents that forget"
        if task.precision != "float64" and not (
            declares_bonus(parts.index) or draws_one(parts.index)
        ):
            return f" in {task.precision} for index {parts.index.spelling}"
    except CannotTranslateError as error:
        return f", since index {parts.index.spelling} cannot be translated ({error})"
    return None


class GPUEngine:
    """The functions above as an `Engine`."""

    name = "gpu"
    batch_pulls = 100_000_000_000

    def obstacle(self, task: Task) -> str | None:
        """Return what there is no kernel for, or None; refuse where no kernel could ever run."""
        backend()
        missing = obstacle(task)
        return None if missing is None else f"has no GPU kernel{missing}"

    def run_bytes(self, task: Task) -> int:
        """Return the bytes of this machine's own memory that one run takes; see `play`."""
        agents, num_arms = task.network.num_agents, task.problem.num_arms
        kept = 8 * agents * (num_arms + (task.horizon if task.keep == "arms" else 0))
        return 8 * task.rounds.size * (num_arms + 10) + (kept if task.keep else 0)

    def session(self, threads: int | None) -> AbstractContextManager[None]:
        """Be ready; threads of this machine play no part."""
        return one_thread(threads)

    def play(self, task: Task, runs: range, tick: Tick) -> Record:
        """Play some runs, as many at a time as the device has memory for."""
        there = backend()
        needed, free = run_bytes(task), int(SHARE * there.free_bytes())
        if (fitting := free // needed) < 1:
            agents = int(task.network.num_agents * free / needed)
            raise InputError(
                f"{task.given.spelling} would take {needed / 1e9:.3g} GB for one run, and "
                f"{there.name} has {free / 1e9:.3g} GB free; take fewer agents (about {agents} "
                'fit), or engine="cpu"'
            )
        fitting = max(1, min(fitting, MOST_AGENTS // task.network.num_agents))
        parts = cpu.parts_of(task)
        driver = DRIVERS[type(parts.aggregation)]
        batches = [runs[at : at + fitting] for at in range(0, len(runs), fitting)]
        records = [driver(parts, task, batch, tick, there) for batch in batches]
        return join(records) if len(records) > 1 else records[0]  # copying one takes as long


ENGINE: Engine = GPUEngine()
