"""Running consensus: whole runs in shared memory, or round by round on larger graphs."""

from __future__ import annotations

import numpy as np

from coopbandits.core.policy import Parts
from coopbandits.sim.gpu.backend import Backend, Launch
from coopbandits.sim.gpu.runs import (
    DeviceRuns,
    lines_of,
    links_of_each,
    links_there,
    normals_of,
)
from coopbandits.sim.record import Record, Task, Tick

MOST_STOPS = 16
"""Recorded rounds of one span: what agents note takes memory until it is added up."""

MOST_THREADS = 1024

MOST_SHARED = 75_000
"""Bytes of shared memory that a block of 128 may take."""

RESIDENT = 384
"""Agents that a multiprocessor is to hold at a time: more of them have fewer registers each."""


def play_consensus(parts: Parts, task: Task, runs: range, tick: Tick, backend: Backend) -> Record:
    """Play some runs of any index on a running consensus."""
    agents = task.network.num_agents
    arms, normals = task.problem.num_arms, normals_of(parts, task.problem.num_arms)
    shared = 8 * agents * (2 * arms + normals + lines_of(task))
    is_whole = agents <= MOST_THREADS and shared <= backend.most_shared - 1024
    state = DeviceRuns(
        parts, task, runs, tick, backend, lambda: _spans(task) if is_whole else _rounds(task)
    )
    times = np.maximum(1.0, np.arange(float(task.horizon)) * agents)
    times_there = backend.upload(times)
    threads = -(-agents // 32) * 32
    if not is_whole:
        of_warp = 16 * 33 * arms + 8 * 32 * normals  # a tile of averages, and normals
        threads = 128 if 4 * of_warp <= MOST_SHARED else 32
        shared = threads // 32 * of_warp
    links_each = links_of_each(task.network.matrix)
    kernels = state.compiled(
        ("rounds.cu",),
        state.constants(
            THREADS=threads, RESIDENT=max(1, RESIDENT // threads), LINKS=links_each,
            VARIATES=normals,
        ),
    )  # fmt: skip
    links = links_there(task.network.matrix, backend)
    before = state.registers()
    after = before if is_whole else state.registers()
    size = Launch(len(runs), 1, threads, shared)
    if not is_whole:
        size = Launch(-(-state.everywhere // threads), 1, threads, shared)
    for number in range(len(state.spans.rounds)):
        values = (before,) if is_whole else (before, after)
        kernels.launch(
            "runs" if is_whole else "one_round", size, state.world, state.tally,
            state.spans.address(number), *links, *values,
            times_there.address + 8 * int(state.spans.firsts[number]), state.numbers_there,
        )  # fmt: skip
        state.played(number)
        before, after = after, before
    record = state.finish()
    sent = 2 * task.network.num_edges * task.rounds
    record.values[:] = sent * parts.statistic.registers(task.problem.num_arms).size
    record.messages[:] = sent[-1]
    return record


def _spans(task: Task) -> list[tuple[int, int]]:
    """Return spans with few recorded rounds each."""
    ends = task.rounds[MOST_STOPS - 1 :: MOST_STOPS].tolist()
    ends = ends if ends and ends[-1] == task.horizon else [*ends, task.horizon]
    return [(first, end - first) for first, end in zip([0, *ends], ends, strict=False)]


def _rounds(task: Task) -> list[tuple[int, int]]:
    """Return single rounds."""
    return [(first, 1) for first in range(task.horizon)]
