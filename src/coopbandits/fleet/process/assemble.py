"""Puts one agent together from its configuration, a disk, a transport, a clock and random words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from coopbandits.core.agent import CooperativeAgent, LocalView
from coopbandits.fleet.config import ClusterConfig, NodeConfig
from coopbandits.fleet.identity.names import agent_number
from coopbandits.fleet.protocol.node import Charter, Node
from coopbandits.fleet.protocol.plausibility import Guard
from coopbandits.fleet.storage.disk import Disk
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.replica import Books
from coopbandits.fleet.storage.tickets import Tickets
from coopbandits.fleet.transport import Transport

LEARNING = (
    "epoch", "arms", "policy", "reward_range", "sigma", "num_agents", "lambda_bound",
)  # fmt: skip
"""What of a cluster's configuration an agent's memory depends on."""

ROOM = 1 << 16
"""Bytes that every message may have, besides those for the totals of all agents."""


def make_agent(
    cluster: ClusterConfig, birth: int, neighbors: Sequence[int], degrees: Mapping[int, int]
) -> CooperativeAgent:
    """Return a fresh agent, with Metropolis weights of the degrees known.

    Its number is made of its random word of birth. So an agent that has lost its memory is a new
    one to all others: it adds to what its former self has told and does not contradict it.
    """
    own = len(neighbors)
    weights = {j: 1.0 / (1.0 + max(own, degrees.get(j, own))) for j in sorted(neighbors)}
    total = 0.0
    for weight in weights.values():
        total += weight  # one after another, as the simulation's matrix is made
    view = LocalView(
        agent_id=birth >> 16,
        own_weight=1.0 - total,
        neighbor_weights=weights,
        num_arms=len(cluster.arms),
        sigma=cluster.scale.sigma,
        num_agents=cluster.told_num_agents,
        lambda_bound=cluster.told_lambda_bound,
        random_word=birth,
        common_round=cluster.mode == "synchronous",
    )
    agent = cluster.policy_object().make_agent(view)
    assert isinstance(agent, CooperativeAgent)  # noqa: S101  all that can run in a fleet are
    return agent


def open_books(
    config: NodeConfig,
    disk: Disk,
    now: float,
    birth: int,
    number: Callable[[str], int] = agent_number,
) -> Books:
    """Return an agent with all that its journal remembers; `birth` is the word of a new one."""
    cluster = config.cluster
    identity: dict[str, Any] = {"node": config.id, "cluster": cluster.name}
    identity |= {key: plain(getattr(cluster, key)) for key in LEARNING}
    journal = Journal(disk, identity, {"word": birth})
    return Books(
        journal,
        partial(make_agent, cluster, journal.birth["word"]),
        [number(name) for name in config.neighbors],
        Tickets(config.max_open_tickets, config.ticket_lifetime),
        cluster.scale,
        now,
    )


def plain(value: Any) -> Any:
    """Return a setting as a journal gives it back."""
    return list(value) if isinstance(value, tuple) else value


def make_node(
    config: NodeConfig,
    books: Books,
    transport: Transport,
    clock: Callable[[], float],
    number: Callable[[str], int] = agent_number,
) -> Node:
    """Return the protocol of an agent."""
    cluster = config.cluster
    robust = cluster.mode == "robust"
    guard = Guard(
        cluster.scale.bounded, cluster.max_pulls_per_second, cluster.epoch, cluster.max_agents
    )
    charter = Charter(
        node=config.id,
        cluster=cluster.name,
        configuration=cluster.hash,
        epoch=cluster.epoch,
        incarnation=books.incarnation,
        neighbors={name: number(name) for name in config.neighbors},
        period=1.0 / cluster.rounds_per_second,
        silence=config.silence,
        max_message_bytes=ROOM + 8 * cluster.max_agents * (2 * len(cluster.arms) + 3),
        guard=guard if robust else None,
    )
    return Node(charter, books, transport, clock)
