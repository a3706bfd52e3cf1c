"""Changes of an agent's bandits: what its file or the cluster's document declares, in force.

Bandits are declared in the agent's own file and in the cluster's documents. What a document says of
a bandit counts for every agent that has seen it, until a later one says otherwise: of the file's
section only the token counts then. A document retires the bandits that it names, and no others.
Every change is checked against what was learned before anything is written, and applied completely
or not at all.

A bandit that is no longer declared is *retired*: it makes no more choices, its late rewards still
count, and it stays in the journal. Arms that are left out are treated the same way; only a *purge*
forgets an arm, and cannot be undone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.config.bandits import MAX_ARMS, Arm, BanditConfig, from_journal
from coopbandits.fleet.config.consistency import declaration_problems, era_problems
from coopbandits.fleet.document.content import Document, declared_by, declared_problems
from coopbandits.fleet.document.store import DocumentStore, DocumentSubscriber
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.protocol.arms import MOST_UNNAMED
from coopbandits.fleet.service import UnavailableError
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.records import Declared
from coopbandits.fleet.storage.replica import Bandits, Declaration

log = logging.getLogger(__name__)

Declarations = Mapping[str, BanditConfig]

LARGE = 1 << 26
"""Bytes reserved at most for messages about arms that are unknown here."""

SPARE_BYTES = 1 << 16
"""Bytes of a message besides its values."""


# What is declared


def adopted_document(config: NodeConfig, journal: Journal) -> Document | None:
    """Return the cluster's document in a journal."""
    return DocumentStore(config.cluster.name, config.document.operators, journal).document


def in_force(
    config: NodeConfig, document: Document | None, bandits: Bandits | None = None
) -> Declarations:
    """Return the bandits of the documents, and those of the agent's file besides.

    Those that state no policy keep the one that the journal of `bandits` has.
    """
    found = declared_by(document, config) if document else config.bandits
    return found if bandits is None else keep_policies(bandits, found)


def keep_policies(bandits: Bandits, declared: Declarations) -> Declarations:
    """Return declarations; those that state no policy have the policy and era in the journal."""
    return {name: _with_kept(bandits, bandit) for name, bandit in declared.items()}


def _with_kept(bandits: Bandits, bandit: BanditConfig) -> BanditConfig:
    replica = bandits.replicas.get(bandit.number)
    if replica is None or not bandit.is_implied:
        return bandit
    shared = replica.declared.shared
    return replace(bandit, policy=shared["policy"], era=shared.get("era", 0))


def log_kept_policies(bandits: Bandits, declared: Declarations) -> None:
    """Log every bandit that keeps another policy than its file would imply for a new one."""
    for bandit in declared.values():
        kept = _with_kept(bandits, bandit)
        if kept.policy != bandit.policy and not kept.era:
            log.warning(
                LogEvent(
                    "bandit keeps the policy with which it has learned; to migrate, state the one "
                    "that a new bandit would have, with era = 1",
                    bandit=bandit.name,
                    policy=kept.policy,
                    new=bandit.policy,
                )
            )


def only_in_file(declared: Declarations, document: Document | None) -> Declarations:
    """Return the declarations that come from the agent's file, and from no document."""
    documented = document.sections.keys() if document else ()
    return {name: bandit for name, bandit in declared.items() if name not in documented}


def all_bandits(config: NodeConfig, bandits: Bandits, declared: Declarations) -> list[BanditConfig]:
    """Return the declared bandits, and those that the journal knows besides, as retired."""
    numbers = {bandit.number for bandit in declared.values()}
    retired = [
        from_journal(config.cluster, replica.declared.name, number, replica.declared.shared)
        for number, replica in bandits.replicas.items()
        if number not in numbers
    ]
    return [*declared.values(), *retired]


def room_for(declared: Iterable[BanditConfig], bandits: Bandits) -> int:
    """Return the size of the largest message that a receiver must accept, in bytes.

    A neighbour may learn of new arms before this agent does. Its messages about them are not
    believed until then, but they must not end the link.
    """
    needed = [0]
    for bandit in declared:
        known = len(bandits.replicas[bandit.number].arms) + MOST_UNNAMED
        plain = BanditConfig(
            "",
            0,
            bandit.cluster,
            policy=bandit.policy,
            era=bandit.era,
            half_life=bandit.half_life,
            features=bandit.features,
        )
        room = _message_bytes(plain, known)
        if bandit.can_widen:
            # A column beside a proof, with its arm's id, takes up to twice as much as in an entry.
            room = max(room, min(LARGE, 2 * _message_bytes(plain, MAX_ARMS)))
        needed.append(room)
    return SPARE_BYTES + max(needed)


_message_bytes = lru_cache(maxsize=1000)(
    BanditConfig.max_message_bytes
)  # many bandits, few policies


# What cannot be


def document_problems(document: Document | None, declared: Declarations) -> Iterator[str]:
    """Yield a sentence for every bandit whose file and document contradict each other.

    Without a document there is nothing to check: the file alone was checked when it was read.
    """
    if document is not None:
        for text in declaration_problems(declared):
            yield f"with version {document.version} of the cluster's document, {text}"


def journal_problems(bandits: Bandits, declared: Declarations) -> Iterator[str]:
    """Yield a sentence for every declaration that contradicts what was learned."""
    numbers = {bandit.number for bandit in declared.values()}
    for bandit in declared.values():
        where = bandit.where
        for number, replica in bandits.replicas.items():
            known = replica.declared
            if number != bandit.number:
                if known.name == bandit.name and number not in numbers:
                    yield (
                        f"{where} has the number {bandit.number}, but its state has number "
                        f"{number}; set number = {number}, or give it another name"
                    )
                continue
            for arm in bandit.arms:
                if arm.number in replica.purged:
                    yield (
                        f"{where} arm {arm.name} has the id {arm.id!r}, which was purged "
                        "and cannot come back; give it another id: "
                        f'{{ name = "{arm.name}", id = "{arm.id}-2" }}'
                    )
            if not bandit.can_widen and [arm.number for arm in bandit.arms] != list(replica.arms):
                yield (
                    f"{where} has the arms {[arm.name for arm in bandit.arms]}, but its state has "
                    f"{list(replica.arms.values())}; with policy {bandit.policy} arms cannot "
                    "change: leave them, choose a policy on flooded-totals, tree-sums or "
                    "ledger-sums, or give the bandit another name"
                )
            shared = known.shared
            yield from era_problems(
                from_journal(bandit.cluster, bandit.name, number, shared), bandit
            )
            for key in sorted((known.shared.keys() | bandit.shared.keys()) - {"policy", "era"}):
                before, now = known.shared.get(key), bandit.shared.get(key)
                if before != now:
                    yield (
                        f"{where} {key} is {now!r}, but its state was learned with {before!r}; "
                        "restore that value, or give the bandit another name"
                    )


def purge_problems(bandits: Bandits, declared: Declarations) -> Iterator[str]:
    """Yield a sentence for every arm that would be purged while it is still chosen.

    A purge cannot be undone, so an operator has to remove an arm with one change and purge it with
    a later one. Documents that come from neighbours are exempt: an agent that was away may receive
    both changes at once.
    """
    for bandit in declared.values():
        active = bandits.active.get(bandit.number, ())
        for gone in bandit.purged:
            if Arm(gone, gone).number in active:
                yield (
                    f"{bandit.where} purges {gone!r}, which is still one of its arms; a purge "
                    "cannot be undone: apply a change without the arm first, and purge it with a "
                    "later one"
                )


# Changes


def declare(bandits: Bandits, declared: Iterable[BanditConfig], *, write: bool) -> None:
    """Apply declarations to replicas and, with `write`, append what is new to the journal."""
    declarations = [
        Declaration(
            bandit.number,
            Declared(bandit.name, bandit.shared, {arm.number: arm.name for arm in bandit.arms}),
            bandit.purged_numbers,
        )
        for bandit in declared
    ]
    bandits.declare(declarations, write=write)
    for number in bandits.replicas.keys() - {each.number for each in declarations}:
        bandits.active[number] = set()


def take(service: ServedAgent, declared: Declarations) -> None:
    """Change the bandits of a running agent; those that are no longer declared are retired.

    Raises
    ------
    InputError
        One sentence per problem, one per line; nothing has changed.
    UnavailableError
        The journal cannot be written; the call can be repeated.
    """
    config, node = service.config, service.node
    problems = [*declaration_problems(declared), *journal_problems(node.bandits, declared)]
    if problems:
        raise InputError("\n".join(problems))
    eras = {number: replica.era for number, replica in node.bandits.replicas.items()}
    try:
        declare(node.bandits, declared.values(), write=True)
        found = all_bandits(config, node.bandits, declared)
        service.declare(found)
        node.make_room(room_for(found, node.bandits))
        node.sessions.take(found)
    except DiskError as error:  # before the first of them has changed, or when it relinks
        raise UnavailableError(f"{error}; repeat the change once the disk is well") from error
    for bandit in declared.values():
        if bandit.era > eras.get(bandit.number, bandit.era):
            text = f"bandit {bandit.name} entered era {bandit.era} with policy {bandit.policy}"
            log.info(
                LogEvent(
                    "bandit entered an era",
                    bandit=bandit.name,
                    era=bandit.era,
                    policy=bandit.policy,
                )
            )
            node.events.note("era", text, bandit.name)


def take_file(service: ServedAgent, declared: Declarations) -> None:
    """Change the bandits of a running agent to those of its changed file.

    Bandits that the file no longer has are retired, unless a document declares them. Of a section
    for a bandit that a document declares or retires, the token alone may change, which is each
    node's own; the section may also be removed, or brought to what is in force.

    Raises
    ------
    InputError
        One sentence per problem, one per line; nothing has changed.
    UnavailableError
        The journal cannot be written; the call can be repeated.
    """
    document = service.node.settings.documents.document
    before, after = service.config, replace(service.config, bandits=declared)
    problems = list(_overruled(before, after, document)) if document else []
    if not problems:
        found = in_force(after, document, service.node.bandits)
        problems += document_problems(document, found)
        problems += purge_problems(service.node.bandits, only_in_file(found, document))
    if problems:
        raise InputError("\n".join(problems))
    take(service, found)
    service.config = after


def _overruled(before: NodeConfig, after: NodeConfig, document: Document) -> Iterator[str]:
    """Yield a sentence for every changed section of a file that a document keeps from counting."""
    ruling = declared_by(document, after)
    for name, bandit in after.bandits.items():
        old = before.bandits.get(name)
        if old is not None and replace(old, token_file=None) == replace(bandit, token_file=None):
            continue
        if name in document.stopped:
            yield (
                f"{bandit.where} changed, but version {document.stopped[name]} of the cluster's "
                "document retired the bandit; declare it in a document instead, and undo this"
            )
        elif name in document.sections:
            there = ruling[name]
            if replace(bandit, cluster=there.cluster, token_file=there.token_file) != there:
                yield (
                    f"{bandit.where} changed, but version {document.sections[name].version} of the "
                    "cluster's document declares the bandit; change the document instead, and undo "
                    "this"
                )


class DocumentBandits(DocumentSubscriber):
    """Changes an agent's bandits to those of a document, and of its file besides."""

    def __init__(self, service: ServedAgent) -> None:
        self.service = service

    def problems(self, document: Document) -> Iterator[str]:
        """Yield a sentence for every declaration that cannot be applied, the file's included."""
        config = self.service.config
        yield from declared_problems(document, config)
        with suppress(InputError):  # an invalid document, already reported in full
            bandits = self.service.node.bandits
            yield from journal_problems(bandits, in_force(config, document, bandits))

    def submission_problems(self, document: Document) -> Iterator[str]:
        """Yield a sentence for every arm that would be purged while it is still chosen."""
        with suppress(InputError):  # reported by `problems`
            bandits = self.service.node.bandits
            yield from purge_problems(bandits, in_force(self.service.config, document, bandits))

    def apply(self, document: Document) -> None:
        """Apply the document's declarations; report which bandits it retired."""
        service = self.service
        before = [state.name for state in service.bandits() if not state.retired]
        try:
            found = in_force(service.config, document, service.node.bandits)
            take(service, found)
        except UnavailableError as error:
            raise DiskError(str(error)) from error
        for name in before:
            if name not in found:
                version = document.stopped.get(name, document.version)
                text = f"cluster document version {version} retired bandit {name}"
                log.info(
                    LogEvent("cluster document retired a bandit", bandit=name, version=version)
                )
                service.node.events.note("retired", text, name)
