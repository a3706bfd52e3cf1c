"""One agent's copy of the cluster's document: the highest valid version, kept in the journal.

A document is checked in full before anything happens: its signature, the cluster's name, its
version, and its content, by every subscriber that has to apply it. Then it is written to the
journal, and then it takes effect. So after a crash an agent has either the old one or the new one.
What earlier documents said of bandits that it does not mention is kept beside it.

Two documents of one version with different contents mean that an operator made a mistake, or that
a key was stolen. An agent cannot decide which of them is right, so it keeps the first one, stops
handing it on, and raises an alarm until a higher version arrives.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.document.content import Document, Section, read_document
from coopbandits.fleet.document.seal import MAX_CHAIN, Head, Key, Seal, Signed, Trust
from coopbandits.fleet.identity.operators import key_text
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.records import Adopted

log = logging.getLogger(__name__)


class DocumentSubscriber(ABC):
    """Applies documents to one part of an agent."""

    def problems(self, document: Document) -> Iterable[str]:
        """Return a sentence for everything in a document that cannot be applied; change nothing.

        The answer may depend on the agent's own file only: a document that one agent rejects and
        another accepts splits the cluster.
        """
        del document
        return ()

    def submission_problems(self, document: Document) -> Iterable[str]:
        """Return a sentence for everything that an operator must do in more than one step.

        Only documents that an operator submits are checked: an agent that was away receives several
        steps as one document.
        """
        del document
        return ()

    @abstractmethod
    def apply(self, document: Document) -> None:
        """Apply a document with which no subscriber had a problem.

        Raises
        ------
        DiskError
            Something had to be stored first and could not be; this is called again later.
        """


class StoredDocument(msgspec.Struct, frozen=True):
    """A document in the journal, and the keys that are trusted.

    Attributes
    ----------
    signed : Signed
        The document, with the chain of seals behind it.
    before, keys : tuple of bytes
        The keys that were trusted when it came, and those since.
    roots : tuple of bytes
        The keys in the agent's own file, at that time.
    dropped : tuple of bytes
        The keys that were trusted once, until a document named others.
    rival : Seal or None
        Another document of the same version.
    sections : dict of str to Section
        Bandits that earlier documents declared, and this one does not mention.
    stopped : dict of str to int
        Retired bandits, and the version that retired each.
    """

    signed: Signed
    before: tuple[Key, ...]
    keys: tuple[Key, ...]
    roots: tuple[Key, ...]
    dropped: tuple[Key, ...]
    rival: Seal | None = None
    sections: dict[str, Section] = {}
    stopped: dict[str, int] = {}


class RivalError(InputError):
    """Another document of the same version, signed by a key that was trusted for it."""


class DocumentStore:
    """The document of one agent.

    Parameters
    ----------
    cluster : str
        The cluster's name.
    roots : iterable of bytes
        Public keys of the operators in the agent's own file.
    journal : Journal
        Where the document is kept.

    Raises
    ------
    InputError
        This version cannot read the document in the journal.
    """

    def __init__(self, cluster: str, roots: Iterable[bytes], journal: Journal) -> None:
        self.cluster, self.roots, self.journal = cluster, tuple(sorted(roots)), journal
        self.subscribers: dict[str, DocumentSubscriber] = {}
        self._pending: set[str] = set()  # subscribers that wait for the disk
        self.stored: StoredDocument | None = None
        self.head: Head | None = None
        self.document: Document | None = None
        if journal.adopted is None:
            return
        try:
            stored = msgspec.msgpack.decode(journal.adopted.document, type=StoredDocument)
            self.head = stored.signed.seal.open()
            document = _read(stored.signed, self.head)
        except (InputError, msgspec.MsgspecError) as error:
            raise InputError(
                f"cannot use the cluster's document in the journal: {error}; install the version "
                "that wrote it, or a later one"
            ) from None
        self.document = replace(
            document, sections={**stored.sections, **document.sections}, stopped=stored.stopped
        )
        self.stored = stored if stored.roots == self.roots else self._with_roots(stored)

    def _with_roots(self, stored: StoredDocument) -> StoredDocument:
        """Return the stored document with the keys to trust since the agent's own file changed.

        The author of that file decides whom the agent trusts. But a file that names a new key
        beside an old one, which a document has dropped, was edited to add the new one.
        """
        dropped = [key for key in self.roots if key in stored.dropped]
        if dropped:
            log.warning(
                LogEvent(
                    "the cluster's document no longer trusts keys that this agent's file names: "
                    "they count again once a document names them; remove them from the file",
                    operators=[key_text(key) for key in dropped],
                )
            )
        keys = tuple(key for key in self.roots if key not in dropped)
        if dropped and not keys:
            keys = stored.keys
        return msgspec.structs.replace(stored, roots=self.roots, before=keys, keys=keys)

    # The present document

    @property
    def enabled(self) -> bool:
        """Whether there is a document, or there are operators who could sign one."""
        return self.stored is not None or bool(self.roots)

    @property
    def version(self) -> int:
        """The version of the document; 0 if there is none."""
        return self.document.version if self.document else 0

    @property
    def digest(self) -> bytes:
        """The SHA-256 of its content; empty if there is none."""
        return self.head.digest if self.head else b""

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The operators' public keys that are trusted."""
        return self.stored.keys if self.stored else self.roots

    @property
    def alarm(self) -> str:
        """The reason not to hand the document on; "" if there is none."""
        if self.stored is None or self.stored.rival is None:
            return ""
        other = self.stored.rival.open().digest.hex()[:12]
        return (
            f"two documents have version {self.version}: {self.digest.hex()[:12]} here, and "
            f"{other}; sign one with a higher version, and find out who signed both"
        )

    # New documents

    def verify(self, seal: Seal, chain: Iterable[Seal]) -> tuple[Head, Trust] | None:
        """Return the head of a newer document, and the trust at it; None for the present document.

        Raises
        ------
        RivalError
            It is another document of the same version; the alarm is raised.
        InputError
            It is older, of another cluster, or no trusted operator has signed it.
        """
        head = seal.open()
        if head.cluster != self.cluster:
            raise InputError(
                f"the document is of cluster {head.cluster!r}, and this agent of {self.cluster!r}; "
                "submit it to an agent of its cluster"
            )
        if head.version < self.version:
            raise InputError(
                f"the document has version {head.version}, and this agent has {self.version} "
                "already; to go back, sign the old content with a higher version"
            )
        if self.stored is None:
            trust = Trust(frozenset(self.roots))
        elif head.version == self.version:
            if head.digest == self.digest:
                return None
            if not seal.signed_by(self.stored.before):
                raise InputError(_distrust(head, seal, frozenset(self.stored.before)))
            if self.stored.rival is None:
                self._write(msgspec.structs.replace(self.stored, rival=seal))
                log.error(LogEvent("two documents have one version", reason=self.alarm))
            raise RivalError(self.alarm)
        else:
            signed, followed = self.stored.signed, self.stored.signed.chain
            if self.head and self.head.operators:
                followed = (*followed, signed.seal)
            trust = Trust(frozenset(self.stored.keys), self.version, followed)
        trust = trust.follow(chain, self.cluster, head.version)
        if not seal.signed_by(trust.keys):
            raise InputError(_distrust(head, seal, trust.keys))
        return head, trust

    def adopt(self, signed: Signed, *, submitted: bool = False) -> bool:
        """Check a document in full, store it, and apply it; return False if it is the present one.

        `submitted` if it comes from an operator and not from a neighbour.

        Raises
        ------
        InputError
            It cannot be adopted; a sentence for each reason, and nothing has changed.
        DiskError
            It could not be stored.
        """
        verified = self.verify(signed.seal, signed.chain)
        if verified is None:
            return False
        head, trust = verified
        document = _read(signed, head).after(self.document)
        problems: list[str] = []
        if document.operators and not signed.seal.signed_by(document.operators):
            problems.append(
                f"document version {document.version} names new operators, but none of them has "
                "signed it; sign it with a new key too, so that operators are not locked out"
            )
        for subscriber in self.subscribers.values():
            problems += subscriber.problems(document)
        if submitted:
            for subscriber in self.subscribers.values():
                problems += subscriber.submission_problems(document)
        if problems:
            raise InputError("\n".join(problems))
        self._store(document, signed, head, trust)
        for name in list(self.subscribers):
            self._apply(name, document)
        return True

    def _store(self, document: Document, signed: Signed, head: Head, trust: Trust) -> None:
        once = {*self.roots, *self.keys, *trust.keys, *(self.stored.dropped if self.stored else ())}
        once.update(key for seal in trust.followed for key in seal.open().operators)
        keys = tuple(sorted(document.operators or trust.keys))
        self._write(
            StoredDocument(
                Signed(signed.seal, signed.content, trust.followed[-MAX_CHAIN:]),
                before=tuple(sorted(trust.keys)),
                keys=keys,
                roots=self.roots,
                dropped=tuple(sorted(once.difference(keys))),
                sections={
                    name: section
                    for name, section in document.sections.items()
                    if name not in document.bandits
                },
                stopped=dict(document.stopped),
            )
        )
        self.head, self.document = head, document
        log.info("cluster document version %d is in force", document.version)
        if self.roots and not set(self.roots) & set(keys):
            log.warning(
                LogEvent(
                    "none of the operators in this agent's file is trusted any more; list the "
                    "present ones there, or an agent that loses its journal trusts the old keys",
                    operators=[key_text(key) for key in keys],
                )
            )

    def _write(self, stored: StoredDocument) -> None:
        self.journal.adopt(Adopted(msgspec.msgpack.encode(stored)))
        self.stored = stored

    def subscribe(self, name: str, subscriber: DocumentSubscriber) -> None:
        """Apply documents to a subscriber from now on, and the present one at once."""
        self.subscribers[name] = subscriber
        if self.document is not None:
            self._apply(name, self.document)

    def retry(self) -> None:
        """Apply the document to the subscribers whose disk failed."""
        for name in list(self._pending):
            assert self.document is not None  # noqa: S101  it is pending
            self._apply(name, self.document)

    def _apply(self, name: str, document: Document) -> None:
        try:
            self.subscribers[name].apply(document)
        except DiskError as error:  # the document is in the journal, so this can be retried
            if name not in self._pending:
                log.warning(
                    LogEvent("document waits for the disk", version=document.version, reason=error)
                )
            self._pending.add(name)
        else:
            self._pending.discard(name)


def _read(signed: Signed, head: Head) -> Document:
    """Return the document of a seal; reject any other content."""
    content = signed.content
    if len(content) != head.size or sha256(content).digest() != head.digest:
        raise InputError("the document is not the one that was signed; submit both files again")
    document = read_document(content)
    if (document.name, document.version, document.operators) != (
        head.cluster,
        head.version,
        head.operators,
    ):
        raise InputError("the document differs from its signed head; sign it again")
    if document.content != content:
        raise InputError("the document is not in its canonical form; sign it again")
    return document


def _distrust(head: Head, seal: Seal, keys: frozenset[bytes]) -> str:
    signers = ", ".join(key_text(key)[:20] for key, _ in seal.signatures) or "nobody"
    known = ", ".join(key_text(key)[:20] for key in sorted(keys)) or "none"
    return (
        f"document version {head.version} is signed by {signers}, and the operators trusted here "
        f"are {known}; sign it with one of their keys"
    )
