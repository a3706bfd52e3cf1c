"""From an engine's arrays to a labelled result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from coopbandits.core.policy import AnyPolicy
from coopbandits.network import Network
from coopbandits.problems import Problem
from coopbandits.problems.tables import BEST, NETWORK_GAP, OWN_GAP
from coopbandits.problems.world import World
from coopbandits.results import Result
from coopbandits.results.storage import FORMAT, environment
from coopbandits.sim.digest import own_code
from coopbandits.sim.record import (
    COMPRESSED,
    WATCHED,
    Record,
    Task,
    frame_rounds,
    join,
    surroundings,
)
from coopbandits.sim.setup import PRECISIONS, Setup

if TYPE_CHECKING:
    from coopbandits.sim.ledger import Cell

NUL = "\N{SYMBOL FOR NULL}"
"""Stands for the character that ends texts in files."""

AXES = (
    "policy", "run", "round", "arm", "agent", "pull", "frame", "link", "end", "stage", "change",
)  # fmt: skip
CURVE = ("policy", "run", "round")
DIMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("regret", "global_regret", "worst_regret", "realized_regret"), CURVE),
    "values_sent": CURVE,
    "messages_sent": ("policy", "run"),
    "pulls": ("policy", "run", "arm"),
    "agent_pulls": ("policy", "run", "agent", "arm"),
    "agent_regret": ("policy", "run", "agent", "round"),
    "arms": ("policy", "run", "agent", "pull"),
    **dict.fromkeys(("site_ratio", "site_spread"), ("policy", "run")),
    **dict.fromkeys(("stop_round", "stop_arm", "stop_wrong"), ("policy", "run", "agent")),
    **dict.fromkeys(("messages_delivered", "messages_late", "messages_lost"), ("policy", "run")),
}
"""Every quantity that a result may have, and its axes."""

TAKEN = frozenset({*AXES, *DIMS, *WATCHED})
"""What no attribute of nodes is called: it would be read as a quantity that was not kept."""


def label(
    tasks: list[Task], batches: list[list[Record]], engines: list[str], seconds: float
) -> Result:
    """Join and label records, which are given by batch of runs, then by task."""
    records = [join([batch[i] for batch in batches]) for i in range(len(tasks))]
    setup, policies = tasks[0].setup, [task.given for task in tasks]
    data = {
        name: (
            dims,
            np.stack(
                [_quantity(name, task, record) for task, record in zip(tasks, records, strict=True)]
            ),
        )
        for name, dims in _variables(setup).items()
    }
    if setup.keep == "watch":
        data |= _frames(tasks, records)
    coords = {
        "policy": [policy.spelling for policy in policies],
        "run": np.arange(records[0].messages.size),
        "round": setup.rounds,
        "arm": arm_labels(setup.problem),
        **({"frame": _frame_rounds(setup)} if setup.keep == "watch" else {}),
        **(agent_labels(setup.network) if setup.keep or setup.stop else {}),
    }
    meta = {
        "format": FORMAT,
        "settings": settings(setup, policies) | {"runs": records[0].messages.size},
        "engines": engines,
        "wall_seconds": round(seconds, 3),
        **environment(),
    }
    return Result(xr.Dataset(data, coords), meta)


def arm_labels(problem: Problem) -> Any:
    """Return the arms' names, or their numbers where they have no others."""
    numbers = np.arange(problem.num_arms)
    names = problem.arm_names
    return numbers if names is None or names == tuple(map(str, numbers)) else storable(names)


def agent_labels(network: Network) -> dict[str, Any]:
    """Return coordinates of agents: names that are more than numbers, and the nodes' attributes.

    An attribute whose name is taken, or that files cannot have, is called ``node_…``.
    """
    found: dict[str, Any] = {}
    if network.labels != tuple(range(network.num_agents)):
        found["agent"] = agent_names(network.labels)
    for name, values in network.attributes.items():
        name = name.replace("/", "_").replace("\0", NUL)  # a slash would be a folder of the file
        while name in TAKEN or name in found or name in ("", ".", ".."):
            name = f"node_{name}"
        found[name] = ("agent", storable(values))
    return found


def agent_names(labels: Sequence[Any]) -> Any:
    """Return labels as an array: whole numbers as such, all else as text that tells them apart."""
    if all(type(label) is int for label in labels):
        return np.array(labels)
    texts = [str(label) for label in labels]
    return storable(texts if len(set(texts)) == len(texts) else [repr(label) for label in labels])


def storable(values: Sequence[Any]) -> Any:
    """Return texts or numbers as an array that files can hold."""
    plain = [value.replace("\0", NUL) if isinstance(value, str) else value for value in values]
    array = np.array(plain)
    # Whole numbers beyond 64 bits make an array of objects, and files have no such numbers.
    return array if array.dtype.kind != "O" else np.array([str(value) for value in plain])


def settings(setup: Setup, policies: Sequence[AnyPolicy]) -> dict[str, Any]:
    """Return all that a result is a function of, as plain data."""
    return {
        **shared_settings(setup),
        "policies": [policy.spelling for policy in policies],
        **policy_code(policies),
        "rounds": setup.rounds.tolist(),
        "keep": setup.keep,
    }


def policy_code(policies: Sequence[AnyPolicy]) -> dict[str, Any]:
    """Return the digests of code that is not ours by policy, as one setting where there is any."""
    found = {policy.spelling: own_code(policy) for policy in policies}
    own = {spelling: code for spelling, code in found.items() if code}
    return {"policy_code": own} if own else {}


def shared_settings(setup: Setup | Cell) -> dict[str, Any]:
    """Return the settings that identify both results and cells, as plain data.

    Settings that are off are left out, so that ids match results older than the setting. Names and
    settings do not tell what somebody's own class does: the digest of its code does.
    """
    code = own_code(setup.problem, setup.faults, setup.clocks)
    return {
        "problem": setup.problem.describe(),
        **({"code": code} if code else {}),
        "network": network_settings(setup.network),
        **_agents_named(setup.problem, setup.network),
        "horizon": int(setup.horizon),
        "runs": int(setup.runs),
        "seed": int(setup.seed),
        **({"shuffle_arms": True} if setup.shuffle_arms else {}),
        **({"faults": setup.faults.spelling} if setup.faults else {}),
        **({"clocks": setup.clocks.spelling} if setup.clocks else {}),
        **({"stop": setup.stop.spelling} if setup.stop else {}),
        **({"precision": setup.precision} if setup.precision != PRECISIONS[0] else {}),
    }


def _agents_named(problem: Problem, network: Network) -> dict[str, str]:
    """Return a digest of the agents' names where they decide what agents are paid."""
    numbered = network.labels == tuple(range(network.num_agents))
    if numbered or not (isinstance(problem, World) and problem.names_agents):
        return {}
    names = json.dumps([str(label) for label in network.labels])  # as worlds look them up
    return {"agents_sha256": hashlib.sha256(names.encode()).hexdigest()}


def network_settings(network: Network) -> dict[str, Any]:
    """Return a description of a network that identifies its matrix and its edges."""
    matrix, edges = network.matrix, network.adjacency
    # Edges of weight 0 are no entries of the matrix, yet messages take them.
    all_told = matrix.nnz - np.count_nonzero(matrix.diagonal()) == edges.nnz
    return {
        "description": network.description,
        "num_agents": network.num_agents,
        "num_edges": network.num_edges,
        "weights": network.weights,
        "sha256": _array_digest(matrix.indptr, matrix.indices, matrix.data),
        **({} if all_told else {"edges_sha256": _array_digest(edges.indptr, edges.indices)}),
    }


def _array_digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _frames(tasks: list[Task], records: list[Record]) -> dict[str, Any]:
    """Return what `coopbandits dashboard` shows; single precision is plenty for a picture."""
    dims = ("policy", "frame", "agent", "arm")
    setup = tasks[0].setup
    frames = [record.frames for record in records if record.frames]
    pulls = np.stack([each.pulls for each in frames])
    rewards = np.stack([each.rewards for each in frames]).astype(np.float32)
    return {
        "watch_pulls": (dims, pulls, {}, COMPRESSED),
        "watch_rewards": (dims, rewards, {}, COMPRESSED),
        "watch_regret": (dims[:2], np.stack([each.regret for each in frames])),
        "watch_stages": (("policy", "stage"), np.array([_stages(task) for task in tasks])),
        **surroundings(setup.tables, setup.network, _frame_rounds(setup)),
    }


def _stages(task: Task) -> tuple[int, int]:
    """Return the round after which news is first read, and every how many rounds; 0 for always."""
    view = task.network.local_view(
        0, num_arms=task.problem.num_arms, sigma=task.sigma, needs=task.policy.needs
    )
    return task.policy.stages(replace(view, num_features=task.num_features)) or (0, 0)


def _frame_rounds(setup: Setup) -> Any:
    return frame_rounds(setup.horizon, setup.network.num_agents, setup.problem.num_arms)


def _variables(setup: Setup) -> dict[str, tuple[str, ...]]:
    """Return what a result of these settings has."""
    left_out: set[str] = set()
    if not setup.keep:
        left_out.add("agent_pulls")
    if setup.keep not in ("curves", "arms"):
        left_out.add("agent_regret")
    if setup.keep != "arms":
        left_out.add("arms")
    if not setup.sees_sites:
        left_out |= {"site_ratio", "site_spread"}
    if not setup.stop:
        left_out |= {"stop_round", "stop_arm", "stop_wrong"}
    if not (setup.faults or setup.clocks):
        left_out |= {"messages_delivered", "messages_late", "messages_lost"}
    return {name: dims for name, dims in DIMS.items() if name not in left_out}


def _quantity(name: str, task: Task, record: Record) -> Any:
    if name in ("regret", "global_regret"):
        return _regret(name, task, record)
    if name == "realized_regret":
        return _best(task, record) - record.rewards
    if name == "pulls":
        return record.arm_counts[:, -1]
    if name == "stop_wrong":
        return _wrong_stops(task, record)
    if name in ("site_ratio", "site_spread"):
        return record.scatter[:, int(name == "site_spread")]
    return {
        "worst_regret": record.worst,
        "values_sent": record.values,
        "messages_sent": record.messages,
        "messages_delivered": record.delivered,
        "messages_late": record.late,
        "messages_lost": record.lost,
        "agent_pulls": record.agent_pulls,
        "agent_regret": record.agent_regret,
        "arms": record.arms,
        "stop_round": record.stop_rounds,
        "stop_arm": record.stop_arms,
    }[name]


def _regret(name: str, task: Task, record: Record) -> Any:
    """Return regret against every agent's own best arm, or against that of the network's mean."""
    if task.tables.is_single:  # both are the same, and the arms tell
        return record.arm_counts @ np.ascontiguousarray(task.tables.costs[0, 0, :, OWN_GAP])
    return record.costs[..., OWN_GAP if name == "regret" else NETWORK_GAP]


def _wrong_stops(task: Task, record: Record) -> Any:
    """Return which agents would have recommended an arm that is not good enough."""
    within = task.stop.within if task.stop else 0.0
    gaps = np.append(task.tables.costs[0, 0, :, OWN_GAP], 0.0)  # −1: no recommendation
    return gaps[record.stop_arms] > within


def _best(task: Task, record: Record) -> Any:
    """Return what the best arms would have paid on average."""
    if not task.tables.is_single:
        return record.costs[..., BEST]
    best = task.tables.costs[0, 0, 0, BEST] * task.network.num_agents
    return best * (record.arm_counts.sum(axis=2) / task.network.num_agents)
