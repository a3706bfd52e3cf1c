"""Builds one agent from its configuration, a disk, a transport, a clock and random words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.aggregation import ROBUST, SYNCHRONOUS
from coopbandits.core.aggregate.entries import Attributed, entry_number
from coopbandits.core.contract import FleetAgent, LocalView
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import ClusterConfig, NodeConfig
from coopbandits.fleet.config.eligibility import missing_methods
from coopbandits.fleet.config.features import LARGEST, read_features, table_of
from coopbandits.fleet.config.sizes import message_bytes
from coopbandits.fleet.document.keeper import Keeper
from coopbandits.fleet.identity.names import agent_number
from coopbandits.fleet.identity.notary import Notary, Signing
from coopbandits.fleet.identity.revoked import Revoked
from coopbandits.fleet.identity.throwaway import ThrowawayNotary
from coopbandits.fleet.overlay.chance import Chance
from coopbandits.fleet.overlay.hyparview import HyParView
from coopbandits.fleet.overlay.members import Members
from coopbandits.fleet.process.places import Places
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.protocol.settings import BANDIT, NodeSettings
from coopbandits.fleet.protocol.talks import Terms
from coopbandits.fleet.storage.disk import Disk
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.replica import Replica
from coopbandits.fleet.storage.tickets import Tickets
from coopbandits.fleet.transport import Transport
from coopbandits.fleet.transport.open import OpenTransport

LEARNING = (
    "epoch", "arms", "policy", "reward_range", "sigma", "num_agents", "lambda_bound",
    "half_life", "features",
)  # fmt: skip
"""The cluster settings that an agent's state depends on."""

SPARE_BYTES = 1 << 16
"""What a message may take besides its values."""


def make_agent(
    cluster: ClusterConfig,
    origin: Mapping[str, int],
    neighbors: Sequence[int],
    degrees: Mapping[int, int],
    num_arms: int,
) -> FleetAgent:
    """Return a fresh agent, with Metropolis weights where degrees are known.

    Its number is made of its name and its random identity word. So to all others, an agent that
    lost its journal is a new one: it adds to what its former self told instead of contradicting it.
    """
    own = len(neighbors)
    weights = {j: 1.0 / (1.0 + max(own, degrees.get(j, own))) for j in sorted(neighbors)}
    total = 0.0
    for weight in weights.values():
        total += weight  # in this order, to round as the simulation's matrix does
    view = LocalView(
        agent_id=origin["number"],
        own_weight=1.0 - total,
        neighbor_weights=weights,
        num_arms=num_arms,
        sigma=cluster.scale.sigma,
        num_agents=cluster.told_num_agents,
        lambda_bound=cluster.told_lambda_bound,
        random_word=origin["word"],
        common_round=cluster.mode == SYNCHRONOUS,
        max_agents=float(cluster.max_agents),
        told_time=cluster.half_life is not None,
        num_features=cluster.encoder.width,
    )
    agent = cluster.policy_object().make_agent(view)
    if not isinstance(agent, FleetAgent):
        raise InputError(
            f"agents of policy {cluster.policy} have no {', '.join(missing_methods(agent))}, which "
            "a fleet needs; write these methods"
        )
    return agent


def open_replica(
    config: NodeConfig,
    disk: Disk,
    now: float,
    identity_word: int,
    nonce: int,
    number: Callable[[str], int] = agent_number,
) -> Replica:
    """Open an agent's journal.

    `identity_word` is used only if it is new; `nonce` is another random word at every start.
    """
    cluster = config.cluster
    identity: dict[str, Any] = {"node": config.id, "cluster": cluster.name}
    identity |= learning(cluster)
    fresh = entry_number(number(config.id), identity_word >> 16)
    journal = Journal(disk, identity, {"word": identity_word, "number": fresh})
    return Replica(
        journal,
        partial(make_agent, cluster, journal.origin),
        [number(name) for name in config.neighbors],
        Tickets(config.max_open_tickets, config.ticket_lifetime, journal.origin["word"]),
        cluster.scale,
        now,
        nonce,
        dict.fromkeys(range(len(cluster.arms)), ""),
    )


def learning(cluster: ClusterConfig) -> dict[str, Any]:
    """Return the settings that an agent's state depends on, as they read back from a journal."""
    found = {key: plain(getattr(cluster, key)) for key in LEARNING}
    if cluster.features is not None:
        found["features"] = table_of(cluster.features)
    return found


def as_learned(cluster: ClusterConfig, told: Mapping[str, Any]) -> ClusterConfig:
    """Return a cluster with the settings that a journal says it was written with.

    That of an agent with several bandits says the epoch alone.
    """
    if "arms" not in told:
        return replace(cluster, epoch=told["epoch"])
    found: dict[str, Any] = {key: told.get(key) for key in LEARNING}
    for key in ("arms", "reward_range"):
        found[key] = found[key] and tuple(found[key])
    if found["features"] is not None:
        found["features"] = read_features("features", found["features"])
    return replace(cluster, **found)


def plain(value: Any) -> Any:
    """Return a setting as it reads back from a journal."""
    return list(value) if isinstance(value, tuple) else value


def make_node(
    config: NodeConfig,
    replica: Replica,
    transport: Transport,
    clock: Callable[[], float],
    number: Callable[[str], int] = agent_number,
    notary: Notary | None = None,
) -> Node:
    """Return the protocol of an opened agent."""
    cluster = config.cluster
    own = (notary or make_notary(config)) if signs(replica) else None
    claims, signing = make_terms(config, cluster, own, number)
    keeper = make_keeper(config, replica.journal, transport)
    settings = node_settings(config, replica.incarnation, claims, signing, number, keeper)
    room = SPARE_BYTES + message_bytes(cluster)
    return Node(replace(settings, max_message_bytes=room), replica, transport, clock)


def signs(replica: Replica) -> bool:
    """Return whether an agent's messages are made of entries, which are signed."""
    return isinstance(getattr(replica.agent, "machine", None), Attributed)


def make_terms(
    config: NodeConfig,
    cluster: ClusterConfig,
    notary: Notary | None,
    number: Callable[[str], int],
) -> Terms:
    """Return by what the messages of a bandit, with these settings, are checked and signed."""
    claims = Claims(
        cluster.scale.bounded,
        cluster.max_pulls_per_second,
        cluster.epoch,
        cluster.max_agents,
        cluster.rounds_per_second,
        tick=cluster.tick,
        largest_feature=LARGEST,
    )
    interval = 1.0 / min(cluster.rounds_per_second, cluster.signatures_per_second)
    return Terms(claims, Signing(number(config.id), number, notary, interval))


def node_settings(
    config: NodeConfig,
    incarnation: int,
    claims: Claims,
    signing: Signing,
    number: Callable[[str], int],
    keeper: Keeper,
) -> NodeSettings:
    """Return the settings of an agent's protocol."""
    cluster = config.cluster
    return NodeSettings(
        node=config.id,
        cluster=cluster.name,
        configuration=cluster.hash,
        epoch=cluster.epoch,
        incarnation=incarnation,
        neighbors={name: number(name) for name in config.neighbors},
        period=1.0 / cluster.rounds_per_second,
        silence=config.silence,
        max_message_bytes=SPARE_BYTES,
        robust=bool(config.declared) or cluster.mode == ROBUST,
        claims=claims,
        signing=signing,
        revoked=Revoked(config.revoked),
        keeper=keeper,
    )


def make_keeper(config: NodeConfig, journal: Journal, transport: Transport) -> Keeper:
    """Return what keeps the cluster's document."""
    keeper = Keeper(config.cluster.name, config.document.operators, journal)
    keeper.join("places", Places(config, transport))
    return keeper


def make_members(
    config: NodeConfig, node: Node, transport: OpenTransport, words: Callable[[], int]
) -> Members:
    """Return what finds neighbours for a node."""

    def place() -> str:
        return str(config.advertise or f":{transport.address.port}")

    view = HyParView(config.id, config.degree, Chance(words))
    return Members(view, node, transport, config.seeds, place)


def make_notary(config: NodeConfig) -> Notary:
    """Return what signs and checks entries."""
    cluster = config.cluster
    scope, most = (cluster.name, cluster.epoch, BANDIT), 2 * cluster.max_agents
    if config.tls is None:
        return ThrowawayNotary(config.id, cluster.name, scope, most)
    return Notary(config.id, config.tls, scope, most)
