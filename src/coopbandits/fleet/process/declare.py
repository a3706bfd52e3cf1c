"""Opens an agent's bandits, and changes them while it runs: by its file, or by the document.

`make_shell` puts an opened agent together. `take` applies declarations, all of them or none.
`RuledBandits` and `Places` act on the cluster's document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from coopbandits.core.aggregate.entries import entry_number
from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.config.bandits import MAX_ARMS, Arm, BanditConfig, from_journal
from coopbandits.fleet.config.consistency import declaration_problems
from coopbandits.fleet.document.content import (
    Document,
    declared_by,
    declared_problems,
    member_problems,
)
from coopbandits.fleet.document.store import DocumentStore, DocumentSubscriber
from coopbandits.fleet.identity.names import Revoked, agent_number
from coopbandits.fleet.identity.notary import Notary
from coopbandits.fleet.process.assemble import (
    SPARE_BYTES,
    make_agent,
    make_notary,
    make_terms,
    node_settings,
    signs,
)
from coopbandits.fleet.process.shell import Shell
from coopbandits.fleet.protocol.arms import MOST_UNNAMED
from coopbandits.fleet.protocol.gossip import Terms
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import UnavailableError
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.storage.bandits import Bandits, Declaration
from coopbandits.fleet.storage.disk import Disk, DiskError
from coopbandits.fleet.storage.events import Declared
from coopbandits.fleet.storage.journal import Chapter, Journal
from coopbandits.fleet.storage.replica import Replica
from coopbandits.fleet.storage.tickets import Tickets
from coopbandits.fleet.transport import Transport

Declarations = Mapping[str, BanditConfig]

LARGE = 1 << 26
"""Room in bytes for what neighbours may say of arms that are unknown here."""


def journal_identity(config: NodeConfig) -> dict[str, Any]:
    """Return whose journal it is."""
    cluster = config.cluster
    return {"node": config.id, "cluster": cluster.name, "epoch": cluster.epoch}


def in_force(config: NodeConfig, journal: Journal) -> Declarations:
    """Return the bandits that an agent goes by: the document's in its journal, or its file's."""
    return _by(_document(config, journal), config)


def _by(document: Document | None, config: NodeConfig) -> Declarations:
    return declared_by(document, config) if document else config.bandits


def _document(config: NodeConfig, journal: Journal) -> Document | None:
    return DocumentStore(config.cluster.name, config.document.operators, journal).document


def _contradicted(document: Document | None, declared: Declarations) -> Iterator[str]:
    """Yield a sentence for every bandit that cannot be as a file and the document say together.

    Without a document, the file was looked at already.
    """
    if document is not None:
        for text in declaration_problems(declared):
            yield f"with version {document.version} of the cluster's document, {text}"


def open_bandits(
    config: NodeConfig,
    disk: Disk,
    clock: Callable[[], float],
    words: Callable[[], int],
    number: Callable[[str], int] = agent_number,
    *,
    stepwise: bool = False,
) -> Bandits:
    """Open the journal of an agent, and take what is declared.

    `stepwise` refuses to purge an arm that was chosen until now, unless the document says so.
    """
    bandits = open_kept(config, disk, clock, words, number)
    document = _document(config, bandits.journal)
    declared = _by(document, config)
    problems = [*_contradicted(document, declared), *journal_problems(bandits, declared)]
    if stepwise and not (document and document.bandits):
        problems += purge_problems(bandits, declared)
    if problems:
        raise InputError("\n".join(problems))
    declare(bandits, declared.values(), write=False)
    bandits.begin()
    return bandits


def open_kept(
    config: NodeConfig,
    disk: Disk,
    clock: Callable[[], float],
    words: Callable[[], int],
    number: Callable[[str], int] = agent_number,
) -> Bandits:
    """Open the journal of an agent as it is; nothing is written.

    `words` returns 64 random bits: the identity of a new journal, and a nonce per bandit.
    """
    cluster, word = config.cluster, words() or 1
    identity = journal_identity(config)
    origin = {"word": word, "number": entry_number(number(config.id), word >> 16)}
    journal = Journal(disk, identity, origin)

    def make(which: int, told: Declared, chapter: Chapter, nonce: int) -> Replica:
        bandit = from_journal(cluster, told.name, which, told.shared)
        return Replica(
            chapter,
            partial(make_agent, bandit, journal.origin),
            [number(name) for name in config.neighbors],
            Tickets(config.max_open_tickets, config.ticket_lifetime, journal.origin["word"]),
            bandit.scale,
            clock(),
            nonce,
            told,
        )

    return Bandits(journal, make, words)


def declare(bandits: Bandits, declared: Iterable[BanditConfig], *, write: bool) -> None:
    """Have replicas take declarations, as far as they are new, and the journal too."""
    news = [
        Declaration(
            bandit.number,
            Declared(bandit.name, bandit.shared, {arm.number: arm.name for arm in bandit.arms}),
            bandit.purged_numbers,
        )
        for bandit in declared
    ]
    bandits.declare(news, write=write)
    for number in bandits.replicas.keys() - {one.number for one in news}:
        bandits.active[number] = set()


def journal_problems(bandits: Bandits, declared: Declarations) -> Iterator[str]:
    """Yield a sentence for every declaration that contradicts what was learned."""
    for bandit in declared.values():
        where = bandit.where
        for number, replica in bandits.replicas.items():
            known = replica.declared
            if number != bandit.number:
                if known.name == bandit.name and number not in _numbers(declared):
                    yield (
                        f"{where} has the number {bandit.number}, and what was learned has "
                        f"{number}; state number = {number}, or give it another name"
                    )
                continue
            yield from _revived(bandit, replica)
            yield from _moved(bandit, replica)
            for key in sorted(known.shared.keys() | bandit.shared.keys()):
                before, now = known.shared.get(key), bandit.shared.get(key)
                if before != now:
                    yield (
                        f"{where} {key} is {now!r}, and what was learned is of {before!r}; leave "
                        "it, or give the bandit another name"
                    )


def _revived(bandit: BanditConfig, replica: Replica) -> Iterator[str]:
    for arm in bandit.arms:
        if arm.number in replica.purged:
            yield (
                f"{bandit.where} arm {arm.name} has the id {arm.id!r}, which was purged "
                "and cannot come back; give it another id: "
                f'{{ name = "{arm.name}", id = "{arm.id}-2" }}'
            )


def _moved(bandit: BanditConfig, replica: Replica) -> Iterator[str]:
    known = list(replica.arms.values())
    if not bandit.can_widen and [arm.number for arm in bandit.arms] != list(replica.arms):
        yield (
            f"{bandit.where} has the arms {[arm.name for arm in bandit.arms]}, and what was "
            f"learned is of {known}; with policy {bandit.policy} arms cannot change: leave them, "
            "choose one on flooded-totals, tree-sums or ledger-sums, or give the bandit another "
            "name"
        )


def purge_problems(bandits: Bandits, declared: Declarations) -> Iterator[str]:
    """Yield a sentence for every arm that would be purged while it is chosen.

    Whoever changes an agent is asked to remove an arm first, since a purge cannot be undone. What
    neighbours hand on is taken without: an agent that was away may hear of both at once.
    """
    for bandit in declared.values():
        active = bandits.active.get(bandit.number, ())
        for gone in bandit.purged:
            if Arm(gone, gone).number in active:
                yield (
                    f"{bandit.where} purges {gone!r}, which is still an arm of it; a "
                    "purge cannot be undone: leave the arm out first, have the agent take that, "
                    "and purge it with a later change"
                )


def _numbers(declared: Declarations) -> set[int]:
    return {bandit.number for bandit in declared.values()}


def all_bandits(config: NodeConfig, bandits: Bandits, declared: Declarations) -> list[BanditConfig]:
    """Return what is declared, and the bandits that the journal knows besides, as retired."""
    known = [
        from_journal(config.cluster, replica.declared.name, number, replica.declared.shared)
        for number, replica in bandits.replicas.items()
        if number not in _numbers(declared)
    ]
    return [*declared.values(), *known]


def make_node(
    config: NodeConfig,
    bandits: Bandits,
    notary: Notary,
    now: float,
    number: Callable[[str], int] = agent_number,
) -> Node:
    """Return the protocol of an opened agent."""

    def terms(bandit: BanditConfig, replica: Replica) -> Terms:
        return make_terms(config, bandit, notary if signs(replica) else None, number)

    documents = DocumentStore(config.cluster.name, config.document.operators, bandits.journal)
    start = bandits.incarnation or int(now)
    settings = node_settings(config, start, number, documents)
    found = all_bandits(config, bandits, in_force(config, bandits.journal))
    settings = replace(settings, max_message_bytes=room_for(found, bandits))
    node = Node(settings, bandits, found, terms, now)
    documents.subscribe("places", Places(config, node.move))
    return node


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
    node = make_node(config, bandits, notary, clock(), number)
    node.revoke(revoked.names, clock())
    return Shell(node, transport, clock, revoked, notary)


def room_for(found: Iterable[BanditConfig], bandits: Bandits) -> int:
    """Return the bytes for which a receiver must have room, also of arms yet to come.

    A neighbour may be told of many arms before this agent is. What it says of them is not believed
    until then, but must not end the link.
    """
    needed = [0]
    for bandit in found:
        known = len(bandits.replicas[bandit.number].arms) + MOST_UNNAMED
        plain = BanditConfig("", 0, bandit.cluster, policy=bandit.policy, features=bandit.features)
        room = _room(plain, known)
        if bandit.can_widen:
            # A column beside a proof, with its arm's id, takes up to twice as much as in an entry.
            room = max(room, min(LARGE, 2 * _room(plain, MAX_ARMS)))
        needed.append(room)
    return SPARE_BYTES + max(needed)


_room = lru_cache(maxsize=1000)(
    BanditConfig.max_message_bytes
)  # bandits are many, and their policies few


def take_problems(service: ServedAgent, declared: Declarations) -> Iterator[str]:
    """Yield a sentence for everything that keeps a running agent from taking declarations."""
    yield from declaration_problems(declared)
    yield from journal_problems(service.node.bandits, declared)


def take_file(service: ServedAgent, declared: Declarations) -> None:
    """Have a running agent go by other sections of its own file, as far as the document lets it.

    Documents without bandits go back to these from then on. Where the document declares some, the
    sections may differ by their tokens alone, which are each node's own.

    Raises
    ------
    InputError
        One sentence per problem, one per line; nothing has changed.
    UnavailableError
        The journal cannot be written; to take them again is harmless.
    """
    document = service.node.settings.documents.document
    before, after = service.config, replace(service.config, bandits=declared)
    if document is None or not document.bandits:
        _take_sections(service, document, _by(document, after))
    elif _without_tokens(before) != _without_tokens(after):
        raise InputError(
            f"sections [bandits.NAME] changed, but version {document.version} of the cluster's "
            "document declares the bandits; change that, and undo this"
        )
    service.config = after


def _take_sections(service: ServedAgent, document: Document | None, found: Declarations) -> None:
    problems = [*_contradicted(document, found), *purge_problems(service.node.bandits, found)]
    if problems:
        raise InputError("\n".join(problems))
    take(service, found)


def _without_tokens(config: NodeConfig) -> dict[str, BanditConfig]:
    return {name: replace(each, token_file=None) for name, each in config.bandits.items()}


def take(service: ServedAgent, declared: Declarations) -> None:
    """Have a running agent go by other declarations: all of them, or none with every reason.

    What is no longer declared is retired: nothing of it is chosen, and late rewards count.

    Raises
    ------
    InputError
        One sentence per problem, one per line; nothing has changed.
    UnavailableError
        The journal cannot be written; to take them again is harmless.
    """
    config, node = service.config, service.node
    if problems := list(take_problems(service, declared)):
        raise InputError("\n".join(problems))
    try:
        declare(node.bandits, declared.values(), write=True)
        found = all_bandits(config, node.bandits, declared)
        service.declare(found)
        node.make_room(room_for(found, node.bandits))
        node.sessions.take(found)
    except DiskError as error:  # before the first of them has changed, or when it relinks
        raise UnavailableError(f"{error}; hand in the declarations again") from error


class RuledBandits(DocumentSubscriber):
    """Has an agent go by the bandits that a document declares.

    A document that declares none leaves those of the agent's own file.
    """

    def __init__(self, service: ServedAgent) -> None:
        self.service = service

    def problems(self, document: Document) -> Iterator[str]:
        """Yield a sentence for every declaration that cannot be taken, the file's included."""
        config = self.service.config
        yield from declared_problems(document, config)
        with suppress(InputError):  # of which everything was said
            yield from journal_problems(self.service.node.bandits, declared_by(document, config))

    def submission_problems(self, document: Document) -> Iterator[str]:
        """Yield a sentence for every arm that would be purged while it is chosen."""
        with suppress(InputError):  # `problems` tells
            bandits = self.service.node.bandits
            yield from purge_problems(bandits, declared_by(document, self.service.config))

    def apply(self, document: Document) -> None:
        """Go by the bandits of a document."""
        try:
            take(self.service, declared_by(document, self.service.config))
        except UnavailableError as error:
            raise DiskError(str(error)) from error


class Places(DocumentSubscriber):
    """Acts on documents, for one agent's configuration.

    Parameters
    ----------
    config : NodeConfig
        What the agent's own file says.
    move : callable
        Has a neighbour dialled at another address.
    """

    def __init__(self, config: NodeConfig, move: Callable[[str, Address], None]) -> None:
        self.config, self.move = config, move

    def problems(self, document: Document) -> Iterable[str]:
        """Return a sentence for everything that this agent cannot do."""
        return member_problems(document, self.config)

    def apply(self, document: Document) -> None:
        """Dial neighbours where the document says that they are."""
        for name, place in self.config.neighbors.items():
            self.move(name, document.members.get(name, place))
