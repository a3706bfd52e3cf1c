"""Central totals: a block of the device for every run, a thread for every agent."""

from __future__ import annotations

from coopbandits.core.policy import Parts
from coopbandits.sim.gpu.backend import Backend, Launch
from coopbandits.sim.gpu.consensus import MOST_THREADS, RESIDENT, spans_of
from coopbandits.sim.gpu.runs import DeviceRuns, rounds_kept
from coopbandits.sim.record import Record, Task, Tick


def obstacle(parts: Parts, task: Task) -> str | None:
    """Return what there is no kernel for, or None."""
    if rounds_kept(parts) == 0:
        return " for totals that are read after every pull"
    if task.network.num_agents > MOST_THREADS:
        return f" for central totals of more than {MOST_THREADS} agents"
    return None


def play_central(parts: Parts, task: Task, runs: range, tick: Tick, backend: Backend) -> Record:
    """Play some runs of any index on totals of the last round, or of some before."""
    state = DeviceRuns(parts, task, runs, tick, backend, lambda: spans_of(parts, task))
    agents, arms, size_of_real = state.num_agents, state.num_arms, state.real.itemsize
    threads, kept = -(-agents // 32) * 32, rounds_kept(parts)
    shared = 4 * size_of_real * arms + agents * (8 * state.lines + size_of_real + 4)
    resident = max(1, RESIDENT[size_of_real] // threads)
    constants = state.constants(THREADS=threads, RESIDENT=resident, KEPT=kept)
    kernels = state.compiled(("central.cu",), constants)
    history = backend.zeros((len(runs), kept, arms, 2), state.real)
    sums = backend.zeros((len(runs), arms, 2), state.real)
    for number in range(len(state.spans.rounds)):
        kernels.launch(
            "central", Launch(len(runs), 1, threads, shared), state.world, state.tally,
            state.spans.address(number), history, sums, state.numbers_there,
        )  # fmt: skip
        state.played(number)
    return state.finish()
