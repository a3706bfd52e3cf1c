"""A few agents on a small graph, driven by hand: what the tests of `core` share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from coopbandits.core import (
    Agent,
    ArmSums,
    CooperativeAgent,
    Estimate,
    Index,
    LocalView,
    Policy,
    Vector,
)
from coopbandits.core.aggregate import AnyAggregation
from coopbandits.core.aggregate.consensus import RunningConsensusMachine
from coopbandits.core.aggregate.fields import FieldMachine
from coopbandits.core.aggregate.staged_mixing import StagedMixingMachine
from coopbandits.core.choice import index_values
from coopbandits.core.draws import Words, normals, words

from .fields import Fields

Matrix = NDArray[np.float64]

GRAPHS: dict[str, nx.Graph[Any]] = {
    "cycle-5": nx.cycle_graph(5),
    "cycle-9": nx.cycle_graph(9),
    "star-6": nx.star_graph(5),
    "grid-2x4": nx.convert_node_labels_to_integers(nx.grid_2d_graph(2, 4)),
    "complete-6": nx.complete_graph(6),
    "path-4": nx.path_graph(4),
    "single": nx.empty_graph(1),
    "regular-3-8": nx.random_regular_graph(3, 8, seed=7),
}


def gossip_matrix(graph: nx.Graph[Any]) -> Matrix:
    """I − (D − A)/(δ_max + 1), written out once more so that nothing here hangs on `network`."""
    adjacency = np.asarray(nx.to_numpy_array(graph, nodelist=sorted(graph)), dtype=np.float64)
    degrees = adjacency.sum(axis=1)
    laplacian = np.diag(degrees) - adjacency
    matrix: Matrix = np.eye(len(degrees)) - laplacian / (degrees.max() + 1.0)
    return matrix


def second_eigenvalue(matrix: Matrix) -> float:
    """Largest |λ_j|, j ≥ 2; below 1e-9 it counts as 0."""
    sizes = np.sort(np.abs(np.linalg.eigvalsh(matrix)))[:-1]
    largest = float(sizes[-1]) if sizes.size else 0.0
    return largest if largest >= 1e-9 else 0.0


def views(
    matrix: Matrix, num_arms: int, sigma: float = 1.0, lambda_bound: float | None = None
) -> list[LocalView]:
    """What each agent may know; N, λ, a random word and a secret always told."""
    size = len(matrix)
    bound = second_eigenvalue(matrix) if lambda_bound is None else lambda_bound
    return [
        LocalView(
            agent_id=i,
            own_weight=float(matrix[i, i]),
            neighbor_weights={
                j: float(matrix[i, j]) for j in range(size) if j != i and matrix[i, j] != 0.0
            },
            num_arms=num_arms,
            sigma=sigma,
            num_agents=size,
            lambda_bound=bound,
            random_word=word,
            secret=word.to_bytes(32, "little"),
        )
        for i, word in enumerate(words(3, np.arange(size, dtype=np.uint64)).tolist())
    ]


def one_view(**changes: Any) -> LocalView:
    """The view of an agent with two neighbours, 1 and 2, in a triangle."""
    known: dict[str, Any] = {
        "agent_id": 0,
        "own_weight": 0.5,
        "neighbor_weights": {1: 0.25, 2: 0.25},
        "num_arms": 2,
        "num_agents": 3,
        "lambda_bound": 0.25,
        "random_word": 1,
        "secret": bytes(32),
    }
    return LocalView(**(known | changes))


def make_agent(policy: Policy, view: LocalView) -> CooperativeAgent:
    agent = policy.make_agent(view)
    assert isinstance(agent, CooperativeAgent)
    return agent


def make_agents(policy: Policy, matrix: Matrix, num_arms: int) -> list[CooperativeAgent]:
    return [make_agent(policy, view) for view in views(matrix, num_arms)]


def team(graph: str, num_arms: int, policy: Policy) -> list[Any]:
    """The agents of a policy on one of `GRAPHS`."""
    return list(make_agents(policy, gossip_matrix(GRAPHS[graph]), num_arms))


def machine(spec: AnyAggregation, view: LocalView, *, squares: str = "none") -> Any:
    """One agent's machine, which adds up sums and counts per arm; its fields are attributes."""
    made = spec.make(view, ArmSums(squares).registers(view.num_arms))
    return Fields(made) if isinstance(made, FieldMachine) else made


def values_of(index: Index, estimate: Estimate, word: int = 0, **view: Any) -> NDArray[np.float64]:
    """The index of every arm, for an agent with such a view."""
    numbers = index.numbers(one_view(num_arms=len(estimate.counts), **view))
    return np.array(index_values(index, numbers, estimate, word)[0])


def played_values(agent: CooperativeAgent, estimate: Estimate, word: int = 0) -> Any:
    """The index of every arm as an agent has it."""
    return np.array(index_values(agent.index, agent.numbers, estimate, word)[0])


def staged(agent: CooperativeAgent) -> Fields:
    assert isinstance(agent.machine, StagedMixingMachine)
    return Fields(agent.machine)


def changed(state: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A state with other values, also of its aggregation."""
    inner = state["aggregation"] | changes.get("aggregation", {})
    return state | changes | {"aggregation": inner}


def fields(agent: CooperativeAgent) -> Fields:
    return Fields(agent.machine)


def consensus(agent: CooperativeAgent) -> Fields:
    assert isinstance(agent.machine, RunningConsensusMachine)
    return Fields(agent.machine)


def rewards_tape(size: int, horizon: int, num_arms: int, key: int = 11) -> NDArray[np.float64]:
    """rewards[agent, pull, arm] = mean of the arm + normal; fixed numbers, nothing special."""
    means = 1.0 - 0.25 * np.arange(num_arms) / max(1, num_arms - 1)
    counters = np.arange(size * horizon * num_arms, dtype=np.uint64)
    noise = normals(words(key, counters)).reshape(size, horizon, num_arms)
    tape: NDArray[np.float64] = means[::-1] + noise
    return tape


def exchange(agents: Sequence[Agent]) -> list[int]:
    """End the round: every message is written before any is read. Returns the message sizes."""
    sent: list[dict[int, Vector]] = [{} for _ in agents]
    sizes = []
    for sender, agent in enumerate(agents):
        for neighbor in agent.view.neighbor_weights:
            message = agent.outgoing(neighbor)
            sizes.append(0 if message is None else message.size)
            if message is not None:
                sent[neighbor][sender] = message
    for agent, messages in zip(agents, sent, strict=True):
        agent.receive(messages)
    return sizes


class Run(NamedTuple):
    """One row per round: arms played, estimate().time just before, message sizes just after."""

    arms: list[list[int]]
    times: list[list[float]]
    sizes: list[set[int]]


def decision_words(size: int, horizon: int, key: int = 23) -> Words:
    """Return one word per (agent, pull)."""
    return words(key, np.arange(size * horizon, dtype=np.uint64)).reshape(size, horizon)


def drive(
    agents: Sequence[CooperativeAgent],
    rewards: NDArray[np.float64],
    first: int,
    last: int,
    decisions: Words | None = None,
) -> Run:
    """Play rounds first … last−1, one pull per agent and round; without `decisions` all are 0."""
    if decisions is None:
        decisions = np.zeros(rewards.shape[:2], dtype=np.uint64)
    run = Run([], [], [])
    for t in range(first, last):
        run.times.append([agent.machine.estimate().time for agent in agents])
        row = [agent.choose(int(decisions[i, t])) for i, agent in enumerate(agents)]
        for i, (agent, arm) in enumerate(zip(agents, row, strict=True)):
            agent.observe(arm, float(rewards[i, t, arm]))
        run.arms.append(row)
        run.sizes.append(set(exchange(agents)))
    return run


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    """What a state becomes when it is stored and read again."""
    restored: dict[str, Any] = json.loads(json.dumps(state))
    return restored
