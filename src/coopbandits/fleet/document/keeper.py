"""Keeps the cluster's document at one agent: the highest valid version, in the journal.

A document is checked in full before anything happens: its signature, the cluster's name, its
version, and all that stands in it, by everybody who has to act on it. Then it is written to the
journal, and then it takes effect. So after a crash an agent has either the old one or the new one.

Two documents of one version with different contents mean that an operator made a mistake, or that
a key was stolen. Nobody can say which of them is right, so the first one stays, is not handed on
any more, and an alarm is raised until a higher version comes.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.document.content import Document, read_document
from coopbandits.fleet.document.seal import MAX_CHAIN, Head, Key, Seal, Signed, Trust
from coopbandits.fleet.identity.operators import key_text
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.records import Adopted

log = logging.getLogger(__name__)


class Taker(ABC):
    """Acts on documents."""

    def problems(self, document: Document) -> Iterable[str]:
        """Return a sentence for everything in a document that cannot be done; nothing has changed.

        Ask no more than the agent's own file: what one agent refuses and another takes splits them.
        """
        del document
        return ()

    def hasty(self, document: Document) -> Iterable[str]:
        """Return a sentence for everything that an operator should do in more than one step.

        Only whoever hands a document over is told: agents that were away hear of all steps at once.
        """
        del document
        return ()

    @abstractmethod
    def take(self, document: Document) -> None:
        """Do what a document says, with which nobody had a problem.

        Raises
        ------
        DiskError
            It has to be stored first and could not be; this is called again later.
        """


class Kept(msgspec.Struct, frozen=True):
    """What the journal holds: the document, and whom to believe.

    Attributes
    ----------
    signed : Signed
        The document, with the seals behind it.
    before, keys : tuple of bytes
        The keys that were trusted when it came, and those since.
    roots : tuple of bytes
        The keys in the agent's own file, at that time.
    dropped : tuple of bytes
        The keys that were trusted once, until a document named others.
    rival : Seal or None
        Another document of the same version.
    """

    signed: Signed
    before: tuple[Key, ...]
    keys: tuple[Key, ...]
    roots: tuple[Key, ...]
    dropped: tuple[Key, ...]
    rival: Seal | None = None


class Belief(NamedTuple):
    """What is believed of a seal: what it says, and who was trusted for its version."""

    head: Head
    trust: Trust


class RivalError(InputError):
    """Another document of the same version, signed by a key that was trusted for it."""


class Keeper:
    """The document of one agent.

    Parameters
    ----------
    cluster : str
        The cluster's name.
    roots : iterable of bytes
        Public keys of the operators whom the agent's own file names.
    journal : Journal
        Where the document is kept.

    Raises
    ------
    InputError
        The document in the journal cannot be used by this version.
    """

    def __init__(self, cluster: str, roots: Iterable[bytes], journal: Journal) -> None:
        self.cluster, self.roots, self.journal = cluster, tuple(sorted(roots)), journal
        self.takers: dict[str, Taker] = {}
        self._due: set[str] = set()
        self.kept: Kept | None = None
        self.head: Head | None = None
        self.document: Document | None = None
        if journal.adopted is not None:
            self._open(journal.adopted.document)

    def _open(self, stored: bytes) -> None:
        try:
            kept = msgspec.msgpack.decode(stored, type=Kept)
            self.head = kept.signed.seal.open()
            self.document = _read(kept.signed, self.head)
        except (InputError, msgspec.MsgspecError) as error:
            raise InputError(
                f"the cluster's document in the journal cannot be used: {error}; install the "
                "version that wrote it, or a later one"
            ) from None
        self.kept = kept if kept.roots == self.roots else self._with_roots(kept)

    def _with_roots(self, kept: Kept) -> Kept:
        """Return whom to believe since the agent's own file names others.

        Whoever writes it decides whom the agent believes. But a file that names a new key beside
        an old one, which a document has dropped, was written to add the new one.
        """
        dropped = [key for key in self.roots if key in kept.dropped]
        if dropped:
            log.warning(
                "the cluster's document no longer trusts %s, which this agent's file names: it "
                "counts again once a document names it; remove it from the file",
                ", ".join(map(key_text, dropped)),
            )
        keys = tuple(key for key in self.roots if key not in dropped)
        if dropped and not keys:
            keys = kept.keys
        return msgspec.structs.replace(kept, roots=self.roots, before=keys, keys=keys)

    # What is known

    @property
    def takes_part(self) -> bool:
        """Whether there is a document, or there are operators who could sign one."""
        return self.kept is not None or bool(self.roots)

    @property
    def version(self) -> int:
        """The version of the document; 0 where there is none."""
        return self.document.version if self.document else 0

    @property
    def digest(self) -> bytes:
        """The SHA-256 of its content."""
        return self.head.digest if self.head else b""

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The public keys that are trusted."""
        return self.kept.keys if self.kept else self.roots

    @property
    def alarm(self) -> str:
        """Why the document is not handed on; empty if it is."""
        if self.kept is None or self.kept.rival is None:
            return ""
        other = self.kept.rival.open().digest.hex()[:12]
        return (
            f"two documents have version {self.version}: {self.digest.hex()[:12]} here, and "
            f"{other}; sign one with a higher version, and find out who signed both"
        )

    # Whom to believe

    def weigh(self, seal: Seal, chain: Iterable[Seal]) -> Belief | None:
        """Return what is believed of a newer document; None for the one that is here.

        Raises
        ------
        RivalError
            It is another document of the same version; the alarm is raised.
        InputError
            It is older, of another cluster, or not signed by anybody who is trusted.
        """
        head = seal.open()
        if head.cluster != self.cluster:
            raise InputError(
                f"the document is of cluster {head.cluster!r}, and this agent of {self.cluster!r}"
            )
        if head.version < self.version:
            raise InputError(
                f"the document has version {head.version}, and this agent has {self.version} "
                "already; to go back, sign the old content with a higher version"
            )
        if head.version == self.version:
            if head.digest != self.digest:
                self._compete(seal, head)
            return None
        trust = self._trust().follow(chain, self.cluster, head.version)
        if not seal.signed_by(trust.keys):
            raise InputError(_distrust(head, seal, trust.keys))
        return Belief(head, trust)

    def _trust(self) -> Trust:
        if self.kept is None:
            return Trust(frozenset(self.roots))
        signed, followed = self.kept.signed, self.kept.signed.chain
        if self.head and self.head.operators:
            followed = (*followed, signed.seal)
        return Trust(frozenset(self.kept.keys), self.version, followed)

    def _compete(self, seal: Seal, head: Head) -> None:
        assert self.kept is not None  # noqa: S101  there is a version
        if not seal.signed_by(self.kept.before):
            raise InputError(_distrust(head, seal, frozenset(self.kept.before)))
        if self.kept.rival is None:
            self._write(msgspec.structs.replace(self.kept, rival=seal))
            log.error("%s", self.alarm)
        raise RivalError(self.alarm)

    # Taking documents

    def adopt(self, signed: Signed, *, handed_over: bool = False) -> bool:
        """Check a document in full, store it, and let it take effect.

        Returns False if it is here already. `handed_over` tells that it comes from an operator and
        not from a neighbour.

        Raises
        ------
        InputError
            It cannot be taken; a sentence for each reason, and nothing has changed.
        DiskError
            It could not be stored.
        """
        belief = self.weigh(signed.seal, signed.chain)
        if belief is None:
            return False
        document = _read(signed, belief.head)
        problems = list(self._problems(document, signed.seal))
        if handed_over:
            problems += [text for each in self.takers.values() for text in each.hasty(document)]
        if problems:
            raise InputError("\n".join(problems))
        self._store(document, signed, belief)
        for name in list(self.takers):
            self._act(name, document)
        return True

    def act(self) -> None:
        """Let the document take effect with those where it has not, since a disk was in trouble."""
        for name in list(self._due):
            assert self.document is not None  # noqa: S101  something is due
            self._act(name, self.document)

    def _act(self, name: str, document: Document) -> None:
        try:
            self.takers[name].take(document)
        except DiskError as error:  # it is in the journal, and will be tried again
            if name not in self._due:
                log.warning("document version %d waits for the disk: %s", document.version, error)
            self._due.add(name)
        else:
            self._due.discard(name)

    def _problems(self, document: Document, seal: Seal) -> Iterator[str]:
        if document.operators and not seal.signed_by(document.operators):
            yield (
                f"document version {document.version} names new operators, but none of them has "
                "signed it; sign it with a new key too, so that nobody is locked out"
            )
        for taker in self.takers.values():
            yield from taker.problems(document)

    def _store(self, document: Document, signed: Signed, belief: Belief) -> None:
        trust = belief.trust
        chain = trust.followed[-MAX_CHAIN:]
        once = {*self.roots, *self.keys, *trust.keys, *(self.kept.dropped if self.kept else ())}
        once.update(key for seal in trust.followed for key in seal.open().operators)
        keys = tuple(sorted(document.operators or trust.keys))
        kept = Kept(
            Signed(signed.seal, signed.content, chain),
            before=tuple(sorted(trust.keys)),
            keys=keys,
            roots=self.roots,
            dropped=tuple(sorted(once.difference(keys))),
        )
        self._write(kept)
        self.head, self.document = belief.head, document
        log.info("cluster document version %d is in force", document.version)
        if self.roots and not set(self.roots) & set(kept.keys):
            log.warning(
                "none of the operators in this agent's file is trusted any more; list %s there, or "
                "an agent that loses its journal believes the old keys",
                ", ".join(map(key_text, kept.keys)),
            )

    def _write(self, kept: Kept) -> None:
        self.journal.adopt(Adopted(msgspec.msgpack.encode(kept)))
        self.kept = kept

    def join(self, name: str, taker: Taker) -> None:
        """Let somebody act on documents from now on, and on the present one at once."""
        self.takers[name] = taker
        if self.document is not None:
            self._act(name, self.document)


def _read(signed: Signed, head: Head) -> Document:
    """Return the document that a seal is about; refuse another content."""
    content = signed.content
    if len(content) != head.size or sha256(content).digest() != head.digest:
        raise InputError("the document is not the one that was signed; hand over both files anew")
    document = read_document(content)
    said = document.name, document.version, document.operators
    if said != (head.cluster, head.version, head.operators):
        raise InputError("the document says something else than its signed head; sign it anew")
    if document.content != content:
        raise InputError("the document is not in its canonical form; sign it anew")
    return document


def _distrust(head: Head, seal: Seal, keys: frozenset[bytes]) -> str:
    signers = ", ".join(key_text(key)[:20] for key, _ in seal.signatures) or "nobody"
    known = ", ".join(key_text(key)[:20] for key in sorted(keys)) or "none"
    return (
        f"document version {head.version} is signed by {signers}, and the operators trusted here "
        f"are {known}; sign it with one of their keys"
    )
