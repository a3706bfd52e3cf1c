"""Estimates of an agent's traffic and memory before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coopbandits.core.aggregate import FloodedTotals, MessageSize
from coopbandits.core.statistic import ArmSums
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.config.model import NodeConfig

OVERHEAD = 110
"""Bytes of a message besides its values: frame header, TLS record, TCP and IP headers."""

PROCESS_MB = 50.0
"""Resident memory of an agent without neighbours, as measured."""

LINK_MB = 0.05
"""Memory of one TLS connection, as measured."""

TICKET_MB = 0.0005
"""Memory of one open ticket."""


PROOF_BYTES = 1200
"""Room for the proof of an entry and for a certificate, of which two may be on their way."""

MOST_MESSAGE_MB = 32.0
"""An agent holds several messages of every neighbour, and writes its own to its journal."""

ROOM = FloodedTotals(), ArmSums("pooled")
"""There is always room for what these send."""


def message_size(bandit: BanditConfig, num_arms: int = 0) -> MessageSize | None:
    """Return the number of values in the policy's messages; None if it does not tell.

    `num_arms` are those of the bandit unless given.
    """
    policy: Any = bandit.policy_object
    num_arms, most_agents = num_arms or len(bandit.arms), bandit.cluster.most_agents
    if policy.parts is None:
        size: MessageSize | None = None
        if hasattr(policy, "message_size"):
            size = MessageSize(*policy.message_size(num_arms, most_agents))
        return size
    registers = policy.parts.registers(num_arms, bandit.encoder.width)
    found: MessageSize = policy.parts.aggregation.message_size(registers, most_agents)
    return found


def most_values(bandit: BanditConfig, num_arms: int = 0) -> int:
    """Return the number of values for which a receiver must have room."""
    size = message_size(bandit, num_arms)
    aggregation, statistic = ROOM
    registers = statistic.registers(num_arms or len(bandit.arms))
    room = aggregation.message_size(registers, bandit.cluster.most_agents)
    return max(room.most, size.most if size else 0)


def message_bytes(bandit: BanditConfig, num_arms: int = 0) -> int:
    """Return the bytes for which a receiver must have room, with proofs and certificates."""
    return 8 * most_values(bandit, num_arms) + PROOF_BYTES * bandit.cluster.most_agents


def find_oversize(bandit: BanditConfig) -> Iterator[str]:
    """Refuse what takes more memory and traffic than a fleet can live with."""
    size = message_bytes(bandit) / 1e6
    if size <= MOST_MESSAGE_MB:
        return
    columns = bandit.encoder.width
    model = f", {columns} columns of features" if bandit.features else ""
    fewer = " or features, or disjoint=false for one model of all arms" * bool(bandit.features)
    yield (
        f"{bandit.where} makes messages of up to {size:,.0f} MB ({len(bandit.arms)} "
        f"arms{model}, policy {bandit.policy}, max_agents {bandit.cluster.most_agents}); they may "
        f"have {MOST_MESSAGE_MB:g} MB: lower max_agents, declare fewer arms{fewer}, or take a "
        "policy whose messages do not grow with the agents, such as one on tree-sums"
    )


def bytes_per_second(bandit: BanditConfig, values: int) -> float:
    """Return the traffic of messages with this many values, per neighbour and direction."""
    return bandit.cluster.rounds_per_second * (OVERHEAD + 8 * values)


def memory_mb(config: NodeConfig) -> float:
    """Return the approximate memory of the process, in megabytes."""
    largest = 0.0
    for bandit in config.bandits.values():
        size = message_size(bandit)
        largest += 8 * (size.most if size else most_values(bandit)) / 1e6
    # A message is held both as values and as bytes, when sent and when received.
    links = (LINK_MB + 4 * largest) * config.most_links
    return PROCESS_MB + links + TICKET_MB * config.max_open_tickets * len(config.bandits)
