"""Kernels that play round by round: running consensus and central totals.

Consensus plays whole runs in shared memory, or single rounds on larger graphs. For central totals
every run has a block of the device, and every agent a thread.
"""

from __future__ import annotations

import numpy as np

from coopbandits.core.policy import Parts
from coopbandits.sim.cpu.runs import most_rounds
from coopbandits.sim.gpu.backend import Backend, Launch
from coopbandits.sim.gpu.runs import (
    DeviceRuns,
    discount_of,
    lines_of,
    links_of_each,
    links_there,
    passed_of,
    real_of,
    rounds_kept,
    rows_there,
)
from coopbandits.sim.record import Record, Task, Tick

MOST_STOPS = 16
"""Recorded rounds of one span: what agents note takes memory until it is added up, and what a span
recorded is fetched while the next is played."""

MOST_THREADS = 1024

MOST_SHARED = 75_000
"""Bytes of shared memory that a block of 128 may take."""

SOME = 17
"""Arms whose averages an agent makes in one go over its neighbours, in registers."""

RESIDENT = {8: 512, 4: 1024}
"""As in `staged`."""


def play_consensus(parts: Parts, task: Task, runs: range, tick: Tick, backend: Backend) -> Record:
    agents = task.network.num_agents
    arms, size_of_real = task.problem.num_arms, real_of(task).itemsize
    shared = agents * (2 * size_of_real * arms + 8 * lines_of(task))
    is_whole = agents <= MOST_THREADS and shared <= backend.most_shared - 1024
    state = DeviceRuns(
        parts,
        task,
        runs,
        tick,
        backend,
        lambda: spans_of(parts, task) if is_whole else _rounds(task),
    )
    times = np.maximum(1.0, passed_of(parts, task.horizon) * agents)
    times_there = state.upload(times)
    threads = -(-agents // 32) * 32
    if not is_whole:
        of_warp = size_of_real * 2 * 33 * arms  # a tile of averages
        threads = 128 if 4 * of_warp <= MOST_SHARED else 32
        shared = threads // 32 * of_warp
    matrix, degree = task.network.matrix, 0
    if is_whole:
        links = rows_there(state, matrix)
    else:
        degree, links = links_there(state, matrix)
    kernels = state.compiled(
        ("rounds.cu",),
        state.constants(
            THREADS=threads, RESIDENT=max(1, RESIDENT[size_of_real] // threads),
            LINKS=links_of_each(matrix), DEGREE=degree, SOME=SOME,
            AGENTS=agents if is_whole else 0, IS_ONE_RUN=int(len(runs) == 1),
        ),
    )  # fmt: skip
    pairs = 16 // (2 * size_of_real)  # that are fetched together; rows are filled up to such
    rows = arms if is_whole else -(-arms // pairs) * pairs
    shape = (state.everywhere, rows, 2)
    before = backend.zeros(shape, state.real)
    after = before if is_whole else backend.zeros(shape, state.real)
    size = Launch(len(runs), 1, threads, shared)
    if not is_whole:
        size = Launch(-(-state.everywhere // threads), 1, threads, shared)
    for number in range(len(state.spans.rounds)):
        values = (before,) if is_whole else (before, after)
        kernels.launch(
            "runs" if is_whole else "one_round", size, state.world, state.tally,
            state.spans.address(number), *links, *values,
            times_there.address + size_of_real * int(state.spans.firsts[number]),
            state.numbers_there,
        )  # fmt: skip
        state.played(number)
        before, after = after, before
    sent = 2 * task.network.num_edges * task.rounds
    stamp = state.discount != 1.0  # says how old a message is
    return state.finish(sent * (parts.statistic.registers(arms).size + stamp), int(sent[-1]))


def spans_of(parts: Parts, task: Task) -> list[tuple[int, int]]:
    """Return spans with few recorded rounds each, and no more than what is forgotten allows."""
    most = min(task.horizon, most_rounds(discount_of(parts)))
    stops = task.rounds[MOST_STOPS - 1 :: MOST_STOPS].tolist()
    ends = sorted({*stops, *range(most, task.horizon, most), task.horizon})
    return [(first, end - first) for first, end in zip([0, *ends], ends, strict=False)]


def _rounds(task: Task) -> list[tuple[int, int]]:
    return [(first, 1) for first in range(task.horizon)]


def central_obstacle(parts: Parts, task: Task) -> str | None:
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
