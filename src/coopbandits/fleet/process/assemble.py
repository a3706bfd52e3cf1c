"""Builds an agent from its configuration, from the journal up.

::

    open_bandits   the journal, a replica per bandit, and in each the policy's agent
    make_shell     the protocol (`Node`) on top of them, connected to journal and links
    Runtime        the clock, timers and service around the shell (`runtime.py`)

Tests and simulations of the fleet call the same functions with virtual clocks, disks and networks.
`number` maps an agent's id to its number, where they choose the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.entries import Attributed, entry_number
from coopbandits.core.contract import FleetAgent, LocalView
from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import BanditConfig, ClusterConfig, NodeConfig
from coopbandits.fleet.config.bandits import from_journal
from coopbandits.fleet.config.eligibility import missing_methods
from coopbandits.fleet.config.features import LARGEST
from coopbandits.fleet.document.content import Document, member_problems
from coopbandits.fleet.document.store import DocumentStore, DocumentSubscriber
from coopbandits.fleet.identity.names import Revoked, agent_number
from coopbandits.fleet.identity.notary import Notary, ThrowawayNotary
from coopbandits.fleet.overlay.hyparview import Chance, HyParView
from coopbandits.fleet.overlay.members import Members
from coopbandits.fleet.process.declarations import (
    adopted_document,
    all_bandits,
    declare,
    document_problems,
    in_force,
    journal_problems,
    log_kept_policies,
    only_in_file,
    purge_problems,
    room_for,
)
from coopbandits.fleet.process.shell import Shell
from coopbandits.fleet.protocol.entries import Signing
from coopbandits.fleet.protocol.gossip import Terms
from coopbandits.fleet.protocol.node import Node, NodeSettings
from coopbandits.fleet.storage.disk import Disk, DiskError
from coopbandits.fleet.storage.eras import Gossiped, Makers, base_policy
from coopbandits.fleet.storage.journal import BanditJournal, Journal
from coopbandits.fleet.storage.records import Declared
from coopbandits.fleet.storage.replica import Bandits, Replica
from coopbandits.fleet.storage.tickets import Tickets
from coopbandits.fleet.transport import Transport

# The journal and its bandits


def open_bandits(
    config: NodeConfig,
    disk: Disk,
    clock: Callable[[], float],
    words: Callable[[], int],
    number: Callable[[str], int] = agent_number,
    *,
    stepwise: bool = False,
) -> Bandits:
    """Open an agent's journal, apply what is declared, and write the first snapshot.

    `stepwise` rejects a purge of an arm that was chosen until now, unless a document orders it.
    """
    bandits = open_kept(config, disk, clock, words, number)
    document = adopted_document(config, bandits.journal)
    declared = in_force(config, document, bandits)
    problems = [*document_problems(document, declared), *journal_problems(bandits, declared)]
    if stepwise:
        problems += purge_problems(bandits, only_in_file(declared, document))
    if problems:
        raise InputError("\n".join(problems))
    declare(bandits, declared.values(), write=False)
    with suppress(DiskError):  # `journal.trouble` says so, and no event is accepted
        bandits.compact()
    return bandits


def open_kept(
    config: NodeConfig,
    disk: Disk,
    clock: Callable[[], float],
    words: Callable[[], int],
    number: Callable[[str], int] = agent_number,
) -> Bandits:
    """Open an agent's journal as it is; nothing is written.

    `words` returns 64 random bits: the identity of a new journal, and a nonce per bandit.
    """
    cluster, word = config.cluster, words() or 1
    identity = {"node": config.id, "cluster": cluster.name, "epoch": cluster.epoch}
    # The agent's number combines its id and the random word. So an agent that lost its journal
    # comes back as a new one: it adds to what its former self has sent, and cannot contradict it.
    origin = {"word": word, "number": entry_number(number(config.id), word >> 16)}
    journal = Journal(disk, identity, origin)

    def make(log: BanditJournal, declared: Declared, nonce: int) -> Replica:
        def makers(shared: Mapping[str, Any]) -> Makers:
            found = from_journal(cluster, declared.name, log.number, shared)
            return Makers(
                partial(make_agent, found, journal.origin),
                partial(make_agent, found, journal.origin, is_base=True),
            )

        bandit = from_journal(cluster, declared.name, log.number, declared.shared)
        return Replica(
            log,
            makers,
            [number(name) for name in config.neighbors],
            Tickets(config.max_open_tickets, config.ticket_lifetime, journal.origin["word"]),
            bandit.scale,
            clock(),
            nonce,
            declared,
        )

    return Bandits(journal, make, words)


def make_agent(
    bandit: BanditConfig,
    origin: Mapping[str, int],
    neighbors: Sequence[int],
    degrees: Mapping[int, int],
    num_arms: int,
    *,
    is_base: bool = False,
) -> FleetAgent:
    """Return a fresh agent of a bandit, with Metropolis weights where degrees are known.

    With `is_base` it is one that holds the pulls of earlier eras.
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
    policy = bandit.policy_object
    agent = (base_policy(policy) if is_base else policy).make_agent(view)
    if not isinstance(agent, FleetAgent):
        raise InputError(
            f"agents of policy {bandit.policy} lack {', '.join(missing_methods(agent))}, which a "
            "fleet needs; write these methods"
        )
    return agent


# The protocol on top of them


def make_shell(
    config: NodeConfig,
    bandits: Bandits,
    transport: Transport,
    clock: Callable[[], float],
    number: Callable[[str], int] = agent_number,
    notary: Notary | None = None,
    revoked: Revoked | None = None,
) -> Shell:
    """Return the protocol of an opened agent, connected to its journal and links."""
    notary, revoked = notary or make_notary(config), revoked or Revoked(config.revoked)
    cluster = config.cluster
    signing_interval = 1.0 / min(cluster.rounds_per_second, cluster.signatures_per_second)

    def terms(bandit: BanditConfig, replica: Gossiped) -> Terms:
        claims = make_claims(cluster, bandit)
        if not isinstance(getattr(replica.agent, "machine", None), Attributed):
            return Terms(claims, None)  # messages have no authors, so nothing is signed
        return Terms(claims, Signing(number(config.id), number, notary, signing_interval))

    now = clock()
    document = adopted_document(config, bandits.journal)
    declared = in_force(config, document, bandits)
    log_kept_policies(bandits, in_force(config, document))
    found = all_bandits(config, bandits, declared)
    documents = DocumentStore(cluster.name, config.document.operators, bandits.journal)
    settings = NodeSettings(
        node=config.id,
        cluster=cluster.name,
        configuration=cluster.hash,
        epoch=cluster.epoch,
        incarnation=bandits.incarnation or int(now),
        neighbors={name: number(name) for name in config.neighbors},
        period=1.0 / cluster.rounds_per_second,
        silence=config.silence,
        max_message_bytes=room_for(found, bandits),
        signing_interval=signing_interval,
        number_of=number,
        documents=documents,
        notary=notary,
        max_agents=cluster.most_agents,
    )
    node = Node(settings, bandits, found, terms, now)
    documents.subscribe("places", DocumentAddresses(config, node.move))
    node.revoke(revoked.names, now)
    return Shell(node, transport, clock, revoked, notary)


def make_claims(cluster: ClusterConfig, bandit: BanditConfig) -> Claims:
    """Return the bounds that a bandit's messages are checked against."""
    return Claims(
        bandit.scale.bounded,
        bandit.most_pulls,
        cluster.epoch,
        cluster.most_agents,
        bandit.cluster.rounds_per_second,
        tick=bandit.tick,
        largest_feature=LARGEST,
    )


def make_notary(config: NodeConfig) -> Notary:
    """Return the notary that signs and checks entries; without [tls] its keys are throwaway."""
    cluster = config.cluster
    scope, most = (cluster.name, cluster.epoch), 2 * cluster.most_agents
    if config.tls is None:
        return ThrowawayNotary(config.id, cluster.name, scope, most)
    return Notary(config.id, config.tls, scope, most)


def make_members(
    config: NodeConfig, node: Node, words: Callable[[], int], port: Callable[[], int]
) -> Members:
    """Return the overlay that finds neighbours; `port` is known once the transport listens."""

    def place() -> str:
        return str(config.advertise or f":{port()}")

    view = HyParView(config.id, config.degree, Chance(words))
    return Members(view, node, config.seeds, place)


class DocumentAddresses(DocumentSubscriber):
    """Has neighbours dialled at the addresses of a document, or else of the agent's file.

    Parameters
    ----------
    config : NodeConfig
        The agent's own file.
    move : callable
        Changes the address at which a neighbour is dialled.
    """

    def __init__(self, config: NodeConfig, move: Callable[[str, Address], None]) -> None:
        self.config, self.move = config, move

    def problems(self, document: Document) -> list[str]:
        """Return a sentence for everything in the document that this agent cannot do."""
        return list(member_problems(document, self.config))

    def apply(self, document: Document) -> None:
        """Dial neighbours at the document's addresses."""
        for name, place in self.config.neighbors.items():
            self.move(name, document.members.get(name, place))
