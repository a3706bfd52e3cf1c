"""Builds the parts of one agent: its policy's agent, what messages are checked by, its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.entries import Attributed
from coopbandits.core.contract import FleetAgent, LocalView
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import BanditConfig, ClusterConfig, NodeConfig
from coopbandits.fleet.config.eligibility import missing_methods
from coopbandits.fleet.config.features import LARGEST
from coopbandits.fleet.document.store import DocumentStore
from coopbandits.fleet.identity.notary import Notary, ThrowawayNotary
from coopbandits.fleet.overlay.hyparview import Chance, HyParView
from coopbandits.fleet.overlay.members import Members
from coopbandits.fleet.protocol.entries import Signing
from coopbandits.fleet.protocol.gossip import Terms
from coopbandits.fleet.protocol.node import Node, NodeSettings
from coopbandits.fleet.storage.replica import Replica

SPARE_BYTES = 1 << 16
"""What a message may take besides its values."""


def make_agent(
    bandit: BanditConfig,
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
        sigma=bandit.scale.sigma,
        num_agents=bandit.known_num_agents,
        lambda_bound=bandit.known_lambda_bound,
        random_word=origin["word"],
        common_round=bandit.is_synchronous,
        max_agents=float(bandit.cluster.most_agents),
        told_time=bandit.half_life is not None,
        num_features=bandit.encoder.width,
    )
    agent = bandit.policy_object.make_agent(view)
    if not isinstance(agent, FleetAgent):
        raise InputError(
            f"agents of policy {bandit.policy} have no {', '.join(missing_methods(agent))}, which "
            "a fleet needs; write these methods"
        )
    return agent


def signs(replica: Replica) -> bool:
    """Return whether an agent's messages are made of entries, which are signed."""
    return isinstance(getattr(replica.agent, "machine", None), Attributed)


def make_terms(
    config: NodeConfig,
    bandit: BanditConfig,
    notary: Notary | None,
    number: Callable[[str], int],
) -> Terms:
    """Return by what the messages of a bandit are checked and signed."""
    cluster = config.cluster
    claims = Claims(
        bandit.scale.bounded,
        bandit.most_pulls,
        cluster.epoch,
        cluster.most_agents,
        bandit.cluster.rounds_per_second,
        tick=bandit.tick,
        largest_feature=LARGEST,
    )
    if notary is None:
        return Terms(claims, None)
    return Terms(claims, Signing(number(config.id), number, notary, signing_interval(cluster)))


def signing_interval(cluster: ClusterConfig) -> float:
    """Return the seconds between two signatures, at least."""
    return 1.0 / min(cluster.rounds_per_second, cluster.signatures_per_second)


def node_settings(
    config: NodeConfig,
    incarnation: int,
    number: Callable[[str], int],
    documents: DocumentStore,
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
        signing_interval=signing_interval(cluster),
        number_of=number,
        documents=documents,
    )


def make_members(
    config: NodeConfig, node: Node, words: Callable[[], int], port: Callable[[], int]
) -> Members:
    """Return what finds neighbours for a node that listens at a port, known once it does."""

    def place() -> str:
        return str(config.advertise or f":{port()}")

    view = HyParView(config.id, config.degree, Chance(words))
    return Members(view, node, config.seeds, place)


def make_notary(config: NodeConfig) -> Notary:
    """Return what signs and checks entries."""
    cluster = config.cluster
    scope, most = (cluster.name, cluster.epoch), 2 * cluster.most_agents
    if config.tls is None:
        return ThrowawayNotary(config.id, cluster.name, scope, most)
    return Notary(config.id, config.tls, scope, most)
