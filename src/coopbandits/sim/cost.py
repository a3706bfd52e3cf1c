"""What the reference engine would cost, to refuse a fallback that nobody would wait for.

The figures are those of one core of an ordinary machine, right to a factor of about four. That is
enough to tell minutes from weeks.
"""

from __future__ import annotations

import os

import numpy as np
from scipy.sparse import csgraph

from coopbandits.core.aggregate.entries import HEADER
from coopbandits.core.policy import Parts
from coopbandits.sim.record import Task

AGENT, MESSAGE, ENTRY = 30e-6, 20e-6, 1e-6
"""Seconds per agent and round, per message, and per agent that a growing message tells of."""

MOST_SECONDS = 4 * 3600.0
"""A policy that would take longer than four hours on the reference engine must be sent there by
name. Our own suites stay below it."""


def obstacle(task: Task) -> str | None:
    """Return why the reference engine should not step in unasked, as words after "it", or None."""
    needed, there = memory(task), physical_memory()
    if needed > there:
        agents = int(task.network.num_agents * there / needed)
        return (
            f"would take about {needed / 1e9:.3g} GB, more than the {there / 1e9:.3g} GB of this "
            f"machine (about {agents} agents fit)"
        )
    if (needed := seconds(task)) <= MOST_SECONDS:
        return None
    enough, rounds = duration(MOST_SECONDS), int(task.horizon * MOST_SECONDS / needed)
    return f"would take about {duration(needed)} ({enough} are enough for about {rounds} rounds)"


def seconds(task: Task) -> float:
    """Return about how long all runs take."""
    agents = task.network.num_agents
    if task.policy.central:
        return AGENT * agents * task.horizon * task.num_runs
    message = MESSAGE + (ENTRY * reach(task) if _grows(task.policy.parts) else 0.0)
    rounds = AGENT * agents + message * int(task.network.adjacency.nnz)
    return rounds * task.horizon * task.num_runs


def memory(task: Task) -> float:
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


def duration(seconds: float) -> str:
    """Return a number of seconds in the unit that people use."""
    for size, unit in ((86_400, "days"), (3600, "hours")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds / 60:.0f} minutes"
