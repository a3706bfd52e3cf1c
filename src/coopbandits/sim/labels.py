"""From an engine's arrays to a labelled result."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import xarray as xr

from coopbandits.network import Faults, Network
from coopbandits.results import Result
from coopbandits.results.storage import FORMAT, environment
from coopbandits.sim.clocks import Clocks
from coopbandits.sim.record import Record, Task, join


def label(
    tasks: list[Task], batches: list[list[Record]], engines: list[str], seconds: float
) -> Result:
    """Label records given by batch of runs and task."""
    records = [join([batch[i] for batch in batches]) for i in range(len(tasks))]
    first = tasks[0]
    data = {
        name: (
            dims,
            np.stack(
                [_quantity(name, task, record) for task, record in zip(tasks, records, strict=True)]
            ),
        )
        for name, dims in _variables(first).items()
    }
    coords = {
        "policy": [task.policy.spelling for task in tasks],
        "run": np.arange(records[0].messages.size),
        "round": first.rounds,
        "arm": np.arange(first.problem.num_arms),
    }
    meta = {
        "format": FORMAT,
        "settings": settings(tasks, records[0].messages.size),
        "engines": engines,
        "wall_seconds": round(seconds, 3),
        **environment(),
    }
    return Result(xr.Dataset(data, coords), meta)


def settings(tasks: list[Task], runs: int) -> dict[str, Any]:
    """Return all that a result is a function of, as plain data."""
    first = tasks[0]
    return {
        "problem": first.problem.describe(),
        "network": network_settings(first.network),
        "policies": [task.policy.spelling for task in tasks],
        "horizon": first.horizon,
        "runs": runs,
        "seed": first.seed,
        "rounds": first.rounds.tolist(),
        "keep": first.keep,
        **optional_settings(first.shuffle_arms, first.faults, first.clocks),
    }


def optional_settings(shuffle_arms: bool, faults: Faults, clocks: Clocks | None) -> dict[str, Any]:
    """Return the settings that are on; left out otherwise, as in results older than them."""
    return {
        **({"shuffle_arms": True} if shuffle_arms else {}),
        **({"faults": faults.spelling} if faults else {}),
        **({"clocks": clocks.spelling} if clocks else {}),
    }


def network_settings(network: Network) -> dict[str, Any]:
    """Return a description of a network that tells different matrices apart."""
    digest = hashlib.sha256()
    for part in (network.matrix.indptr, network.matrix.indices, network.matrix.data):
        digest.update(np.ascontiguousarray(part).tobytes())
    return {
        "description": network.description,
        "num_agents": network.num_agents,
        "num_edges": network.num_edges,
        "weights": network.weights,
        "sha256": digest.hexdigest(),
    }


def _variables(task: Task) -> dict[str, tuple[str, ...]]:
    curve = ("policy", "run", "round")
    kept: dict[str, tuple[str, ...]] = {}
    if task.keep:
        kept["agent_pulls"] = ("policy", "run", "agent", "arm")
    if task.keep == "arms":
        kept["arms"] = ("policy", "run", "agent", "pull")
    if task.faults or task.clocks:
        kept |= {f"messages_{name}": ("policy", "run") for name in ("delivered", "late", "lost")}
    return {
        "regret": curve,
        "realized_regret": curve,
        "values_sent": curve,
        "messages_sent": ("policy", "run"),
        "pulls": ("policy", "run", "arm"),
        **kept,
    }


def _quantity(name: str, task: Task, record: Record) -> Any:
    if name == "regret":
        return record.arm_counts @ task.problem.gaps
    if name == "realized_regret":
        best = task.problem.means.max() * task.network.num_agents
        pulls_per_agent = record.arm_counts.sum(axis=2) / task.network.num_agents
        return best * pulls_per_agent - record.rewards
    if name == "pulls":
        return record.arm_counts[:, -1]
    return {
        "values_sent": record.values,
        "messages_sent": record.messages,
        "messages_delivered": record.delivered,
        "messages_late": record.late,
        "messages_lost": record.lost,
        "agent_pulls": record.agent_pulls,
        "arms": record.arms,
    }[name]
