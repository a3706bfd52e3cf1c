"""Estimates of an agent's traffic and memory before it starts."""

from __future__ import annotations

from typing import Any, NamedTuple

from coopbandits.core.aggregate.extrema import EXPONENTIALS
from coopbandits.core.policies import DDUCB
from coopbandits.fleet.config.model import ClusterConfig, NodeConfig

OVERHEAD = 110
"""Bytes of a message besides its values: frame header, TLS record, TCP and IP headers."""

PROCESS_MB = 50.0
"""Resident memory of an agent without neighbours, as measured."""

LINK_MB = 0.05
"""Memory of one TLS connection, as measured."""

TICKET_MB = 0.0005
"""Memory of one open ticket."""


class MessageSize(NamedTuple):
    """Values in a message: usually, at most, and when it is that many."""

    usual: int
    most: int
    when: str


def message_size(cluster: ClusterConfig) -> MessageSize:
    """Return the number of values in the policy's messages."""
    policy: Any = cluster.policy_object()
    totals = 2 * len(cluster.arms)
    if isinstance(policy, DDUCB):
        return _staged_size(policy, totals, cluster.max_agents)
    if policy.name in ("coop-ucb2", "dec-ts"):
        return MessageSize(totals, totals, "always")
    if getattr(policy, "family", "") == "gaussian" and policy.sigma == "estimate":
        totals += 1  # the sum of squares
    if policy.name in ("flood-ts", "flood-ucb"):
        when = f"with news of {cluster.max_agents} agents in every round"
        return MessageSize(2, 2 + cluster.max_agents * (totals + 2), when)
    usual = totals + (2 if policy.name == "gossip-ts" else 6)
    return MessageSize(usual, usual + EXPONENTIALS, "while agents are being counted")


def _staged_size(policy: DDUCB, totals: int, max_agents: int) -> MessageSize:
    usual = min(policy.values_per_message or totals, totals)
    usual += totals * policy.remix + 2 * policy.neighbor_pulls
    if policy.estimates:
        return MessageSize(usual, max(usual, max_agents + 4), "while agents are being counted")
    return MessageSize(usual, usual + 1, "after losses")


def bytes_per_second(cluster: ClusterConfig, values: int) -> float:
    """Return the traffic of messages with this many values, per neighbour and direction."""
    return cluster.rounds_per_second * (OVERHEAD + 8 * values)


def memory_mb(config: NodeConfig) -> float:
    """Return the approximate memory of the process, in megabytes."""
    largest = 8 * message_size(config.cluster).most / 1e6
    # A message is held both as values and as bytes, when sent and when received.
    links = (LINK_MB + 4 * largest) * len(config.neighbors)
    return PROCESS_MB + links + TICKET_MB * config.max_open_tickets
