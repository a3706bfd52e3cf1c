"""Entries on the wire: who may say what of whom, for aggregations whose messages have authors.

*An agent's own word counts.* With signatures an entry is believed if its author has signed it, and
whoever passes it on can add nothing and take nothing away. Without them an entry is believed of the
author itself over its own link, whatever others say of it, and of others only while there is no
such link.

*Acknowledgements belong to a memory.* An agent tells in HELLO which memory it has (`memory`), and
which of the neighbour's messages it has heard. Where that does not fit what was acknowledged, all
is sent again. An agent that finds its memory to be older than what it has told before, since an
older journal was put back, goes on under a new number: what it told stays as it was.

What this changes in the agent's state goes through messages, as orders (see
`core.aggregate.entries`), and so into the journal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.entries import (
    AUTHORED,
    AUTHORS,
    FORGET,
    GENERATIONS,
    HEADER,
    RENUMBER,
    Attributed,
    Rows,
    author_of,
    entry_number,
    order,
    with_rows,
)
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.notary import FINGERPRINT, PROOF, Notary, pack, unpack
from coopbandits.fleet.protocol.frames import Fields, Hello
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.storage.replica import Replica

BURST = 32.0
"""How many versions of one author are checked at once, beyond the rate at which it may publish."""

PATIENCE = 2.0
"""Seconds for which new pulls are held back, after a start, until all neighbours have spoken."""

REMEMBERED = 4096
"""How many own signed versions are remembered, to recognise those of a former life."""

log = logging.getLogger(__name__)


class ForgedError(InputError):
    """A message that an honest neighbour cannot have sent."""


class Proven(NamedTuple):
    """An entry whose author has signed it."""

    entry: bytes
    version: float
    proof: bytes


class Sifted(NamedTuple):
    """What is left of a message.

    Attributes
    ----------
    values : Vector
        The message without entries that are not believed.
    later : bool
        Whether something was left out that may be believed later.
    refused : str
        Why something was left out that never will be; "" for nothing.
    """

    values: Vector
    later: bool
    refused: str


class Signing(NamedTuple):
    """Who signs an agent's entries.

    Attributes
    ----------
    author : int
        The number of the agent's own name.
    number_of : callable
        Returns the number of any name.
    notary : Notary or None
        Signs and checks; None where entries are not signed.
    interval : float
        Seconds between two versions that an author signs.
    """

    author: int
    number_of: Callable[[str], int]
    notary: Notary | None
    interval: float


class EntryExchange:
    """What one agent knows of entries, beyond its state.

    Parameters
    ----------
    replica : Replica
        The agent.
    claims : Claims
        What was believed so far.
    peers : mapping
        The neighbours by number.
    signing : Signing
        Who signs, and how often.
    """

    def __init__(
        self,
        replica: Replica,
        claims: Claims,
        peers: Mapping[int, Peer],
        signing: Signing,
    ) -> None:
        self.replica, self.claims, self.peers = replica, claims, peers
        self.author, self.number_of = signing.author, signing.number_of
        self.notary, self.interval = signing.notary, signing.interval
        self.orders: dict[int, list[Vector]] = {}
        self.revoked: frozenset[int] = frozenset()
        self.book: dict[float, Proven] = {}
        self.published: Proven | None = None
        self.published_at = 0  # the first message with it
        self.signed_at = -np.inf
        self.began = replica.rounds
        self._first = self._own()  # what the journal held
        self._told = self._first[HEADER:]  # what others may know under this number
        self._met_at = np.inf
        self._is_sure = False  # that no later memory than this one has been told of
        self._said: dict[float, bytes] = {}
        self._oldest_said = -1.0
        self._budgets: dict[str, tuple[float, float]] = {}
        self._renumberings = 0
        self._fresh: dict[int, bytes] = {}  # proofs that are not in the journal yet
        if self.notary is not None:
            self._restore(self.notary)

    def _own(self) -> Vector:
        own = self.machine.entry(self.machine.number)
        assert own is not None  # noqa: S101  a machine always has it
        return own.copy()

    def _restore(self, notary: Notary) -> None:
        """Check again what the journal has kept."""
        for certificate in self.replica.certificates:
            notary.learn(certificate)
        for number, proof in self.replica.proofs.items():
            held = self.machine.entry(number)
            if held is not None and notary.author(proof) and notary.holds(held.tobytes(), proof):
                (version,) = self.machine.versions(held[None])
                self.book[number] = Proven(held.tobytes(), version, proof)

    def fresh(self) -> tuple[dict[int, bytes], list[bytes]]:
        """Return proofs by number, and certificates, that the journal does not have yet."""
        proofs = self._fresh
        if self.notary is None or not proofs:
            return {}, []
        prints = {proof[:FINGERPRINT] for proof in proofs.values()}
        found = [self.notary.authors[each].certificate for each in sorted(prints)]
        return proofs, [each for each in found if each not in self.replica.certificates]

    def _prove(self, row: Vector, version: float, proof: bytes) -> None:
        number = float(row[0])
        self.book[number] = Proven(row.tobytes(), version, proof)
        self._fresh[int(number)] = proof

    @property
    def machine(self) -> Attributed:
        """The agent's machine."""
        machine: Attributed = self.replica.agent.machine  # type: ignore[attr-defined]
        return machine

    # Greetings

    @property
    def memory(self) -> int:
        """Which memory this agent has; another one if it is lost, or older than what was told."""
        word: int = self.replica.journal.origin["word"]
        return word ^ self.machine.number

    def heard(self, peer: Peer) -> tuple[int, int, int]:
        """Return which message of a neighbour was heard last: its memory, start and number."""
        return peer.memory, peer.heard_start, self.machine.heard_from(peer.number)

    def met(self, peer: Peer, hello: Hello, pending: Vector | None) -> Vector | None:
        """Compare what a neighbour says to have heard; return the message that takes effect.

        `pending` is what it said over an earlier link and has not taken effect yet.
        """
        self._require_own(peer, hello.entry)
        self._look_back(peer, hello.heard)
        machine, changed = self.machine, peer.memory != hello.memory
        peer.memory, peer.entry = hello.memory, hello.entry
        if not changed and hello.heard[2] >= machine.arrived_at(peer.number):
            return pending
        if pending is not None:
            self.orders.setdefault(peer.number, []).extend(machine.rows(pending))
        kept = 0.0 if changed else machine.heard_from(peer.number)
        return np.array([kept, 0.0])

    def _require_own(self, peer: Peer, number: int) -> None:
        if number >= AUTHORED and author_of(number) != peer.number % AUTHORS:
            raise InputError(
                f"{peer.name} counts its pulls under {number}, which is another agent's number"
            )

    def _look_back(self, peer: Peer, heard: tuple[int, int, int]) -> None:
        """Notice that a neighbour has heard more of this memory than it knows of itself."""
        memory, start, number = heard
        if (
            self.notary is None  # with signatures nobody's word is needed for it
            and not self._is_sure
            and memory == self.memory
            and start < self.replica.incarnation
            and number > self.began + 1
        ):
            self._renumber(peer, np.inf, f"{peer.name} heard message {number} of it")

    # What arrives

    def sift(self, peer: Peer, values: Vector, fields: Fields, now: float) -> Sifted:
        """Return what is believed of a message by whoever may say it.

        Raises
        ------
        ForgedError
            It was signed by nobody who could.
        InputError
            It has no such form.
        """
        rows = self.machine.rows(values)
        if not len(rows):
            return Sifted(values, later=False, refused="")
        if rows[:, 1].min() < 0.0:  # nobody honest says or passes on such a thing
            raise InputError(f"a message with {rows[:, 1].min():g} rounds")
        if self.notary is None:
            verdicts, proofs = self._check_words(peer, rows), [b""] * len(rows)
        else:
            proofs = self._proofs(self.notary, fields, len(rows))
            verdicts = self._check_proofs(peer, rows, proofs, now)
        refused = ""
        for at, number in enumerate(rows[:, 0].tolist() if self.revoked else ()):
            if self._is_revoked(number, proofs[at]):
                verdicts[at], refused = False, f"an entry of a revoked agent, number {number:.0f}"
        if not all(verdicts):
            values = with_rows(values, rows[[verdict is True for verdict in verdicts]])
        return Sifted(values, None in verdicts, refused)

    def _check_words(self, peer: Peer, rows: Rows) -> list[bool | None]:
        touchy = self._touchy()
        return [
            number not in touchy or self._check_word(peer, rows[at])
            for at, number in enumerate(rows[:, 0].tolist())
        ]

    def _check_proofs(
        self, peer: Peer, rows: Rows, proofs: list[bytes], now: float
    ) -> list[bool | None]:
        versions = self.machine.versions(rows)
        return [
            self._check_signed(peer, rows[at], version, proofs[at], now)
            for at, version in enumerate(versions)
        ]

    def _touchy(self) -> set[float]:
        """Return the numbers of those who can be asked themselves."""
        return {self.machine.number, *(peer.entry for peer in self.peers.values() if peer.met)}

    def _proofs(self, notary: Notary, fields: Fields, count: int) -> list[bytes]:
        if len(fields.proofs) != PROOF * count:
            raise ForgedError(f"{len(fields.proofs)} bytes of proofs for {count} entries")
        for certificate in unpack(fields.certificates):
            notary.learn(certificate)
        return [fields.proofs[at : at + PROOF] for at in range(0, PROOF * count, PROOF)]

    def _check_signed(
        self, peer: Peer, row: Vector, version: float, proof: bytes, now: float
    ) -> bool | None:
        """Return whether an entry is signed and new; None if it cannot be checked yet."""
        number, entry = float(row[0]), row.tobytes()
        known = self.book.get(number)
        if number == self.machine.number:
            if self._is_foreign(entry, version) and self._is_signed(number, entry, proof, now):
                self._prove(row, version, proof)
                self._renumber(peer, version, f"it has told of {version:g} pulls")
                return None  # the next time it is no longer the own one
            return False
        if known is not None and (known.entry == entry or version <= known.version):
            return known.entry == entry
        if not self._is_signed(number, entry, proof, now):
            return None
        self._prove(row, version, proof)
        if known is None and self.machine.entry(number) is not None:
            # What was believed without a proof gives way; the same with one is news to pass on.
            self._order(peer, order(FORGET, number, row[HEADER:]))
            self.claims.forget(number)
        return True

    def _is_foreign(self, entry: bytes, version: float) -> bool:
        """Return whether this life of the agent has not signed such a version of its entry."""
        (base,) = self.machine.versions(self._first[None])
        return version > max(base, self._oldest_said) and self._said.get(version) != entry

    def _is_signed(self, number: float, entry: bytes, proof: bytes, now: float) -> bool:
        """Refuse an entry that its author has not signed; return False if it is to be tried later.

        An honest neighbour has checked what it passes on, so the first bad one ends the link.
        """
        assert self.notary is not None  # noqa: S101
        name = self.notary.author(proof)
        if name is None:
            raise ForgedError("an entry signed with a certificate that was never sent")
        if number >= AUTHORED and author_of(number) != self.number_of(name) % AUTHORS:
            raise ForgedError(f"an entry of agent {number:.0f}, signed by {name}")
        left, since = self._budgets.get(name, (BURST, now))
        left = min(BURST, left + 2.0 * (now - since) / self.interval)
        self._budgets[name] = left - 1.0 if left >= 1.0 else left, now
        if left >= 1.0 and not self.notary.holds(entry, proof):
            raise ForgedError(f"an entry of {name} that it has not signed")
        return left >= 1.0

    def _check_word(self, peer: Peer, row: Vector) -> bool | None:
        """Return whether an entry is believed of a neighbour; None if its author is asked."""
        number = float(row[0])
        (version,) = self.machine.versions(row[None])
        if number == peer.entry and version > self.claims.known(number):
            return True
        held = self.machine.entry(number)
        had = self.machine.versions(held[None])[0] if held is not None else -1.0
        if number == self.machine.number:
            if version > had and not self._is_sure:
                self._renumber(peer, version, f"{peer.name} knows of {version:g} pulls")
            return None if self._is_renumbering else False
        if number == peer.entry:
            if held is not None and held.tobytes() != row.tobytes():
                self._order(peer, order(FORGET, number, row[HEADER:]))
                self.claims.forget(number)
            return True
        return True if version <= had else None

    def _is_revoked(self, number: float, proof: bytes = b"") -> bool:
        if not self.revoked:
            return False
        if number < AUTHORED and self.notary is not None:
            name = self.notary.author(proof)
            return name is not None and self.number_of(name) % AUTHORS in self.revoked
        return author_of(number) in self.revoked

    # Orders

    def _order(self, peer: Peer, row: Vector) -> None:
        self.orders.setdefault(peer.number, []).append(row)

    def _renumber(self, peer: Peer, version: float, why: str) -> None:
        """Count under a new number from now on; what was told under the old one stays.

        If another life has told more, that stays, and all pulls of this one are counted anew.
        Otherwise what this one has told stays.
        """
        if self._is_renumbering:
            return
        old = self.machine.number
        seed = f"{old} {self.replica.incarnation} {self._renumberings}".encode()
        step = 1 + int.from_bytes(blake2b(seed, digest_size=4).digest(), "big") % (GENERATIONS - 1)
        while entry_number(self.author, old + step) in self.machine.held():
            step += 1
        number = entry_number(self.author, old + step)
        log.warning(
            "this memory is older than what was told (%s): counting anew as %d", why, number
        )
        (told,) = self.machine.versions(order(0.0, 0.0, self._told)[None])
        left = self._first[HEADER:] if version > told else self._told
        self._order(peer, order(RENUMBER, number, left))
        self._renumberings += 1

    def revoke(self, authors: frozenset[int], inbox: dict[int, Vector]) -> None:
        """Believe nothing of these authors any more, and forget what was believed."""
        self.revoked = authors
        for j, values in inbox.items():
            rows = self.machine.rows(values)
            proofs = [self._proof(row[0]) for row in rows]
            kept = [not self._is_revoked(row[0], p) for row, p in zip(rows, proofs, strict=True)]
            inbox[j] = with_rows(values, rows[kept])
        if not self.peers:
            return
        peer = next(iter(self.peers.values()))
        for number in self.machine.held():
            if number != self.machine.number and self._is_revoked(number, self._proof(number)):
                held = self.machine.entry(number)
                assert held is not None  # noqa: S101
                self._order(peer, order(FORGET, number, held[HEADER:]))
                self.claims.forget(number)

    def _proof(self, number: float) -> bytes:
        known = self.book.get(number)
        return known.proof if known else b""

    def with_orders(self, inbox: Mapping[int, Vector]) -> dict[int, Vector]:
        """Return the messages that end this round, with the orders in front."""
        messages, machine = dict(inbox), self.machine
        for j, rows in self.orders.items():
            message = messages.get(j)
            if message is None:
                message = machine.note(j, np.zeros((0, 0)))
            messages[j] = with_rows(message, np.concatenate([*rows, machine.rows(message).ravel()]))
        return messages

    def settle(self) -> bool:
        """Note that the round has ended and is in the journal; return whether to greet again."""
        again = self._is_renumbering
        self.orders, self._fresh = {}, {}
        if again:
            self._first, self._said, self._oldest_said = 0.0 * self._first, {}, -1.0
            self._told, self.published, self._is_sure = self._first[HEADER:], None, True
        return again

    @property
    def _is_renumbering(self) -> bool:
        return any(row[1] == RENUMBER for rows in self.orders.values() for row in rows)

    # What is sent

    def publish(self, now: float) -> None:
        """Choose what is told of the own pulls in this round; sign it, as often as is allowed."""
        own = self._own() if self._may_tell(now) else self._first
        if self.notary is None:
            self._told = own[HEADER:]
        elif now >= self.signed_at + 0.99 * self.interval:
            self._sign(self.notary, own, now)

    def _sign(self, notary: Notary, own: Vector, now: float) -> None:
        entry = own.tobytes()
        if self.published is None or self.published.entry != entry:
            (version,) = self.machine.versions(own[None])
            self.published = Proven(entry, version, notary.sign(entry))
            self.published_at, self.signed_at = self.replica.rounds + 1, now
            self._said[version], self._told = entry, own[HEADER:]
            if len(self._said) > REMEMBERED:
                self._oldest_said = next(iter(self._said))
                del self._said[self._oldest_said]

    def _may_tell(self, now: float) -> bool:
        """Return whether to tell of pulls since the start.

        Neighbours may know of a later memory of this agent than its journal has. Then these pulls
        belong under another number, and should not be told under this one before that is known.
        """
        met = [peer for peer in self.peers.values() if peer.met]
        if not self._is_sure and met:
            self._met_at = min(self._met_at, now)
            late = now >= self._met_at + PATIENCE
            self._is_sure = late or all(peer.has_told for peer in met)
            self.published_at = self.replica.rounds + 1
        return self._is_sure

    def outgoing(self, peer: Peer, values: Vector) -> tuple[Vector, Fields | None]:
        """Return a message with the own entry until it has arrived, and what proves it."""
        if peer.first_sent == 0:
            peer.first_sent = int(values[0])
        missing = peer.acked < max(peer.first_sent, self.published_at)
        if self.notary is None:
            return (values if self._is_sure and not missing else self._plain(values)), None
        rows = self.machine.rows(values)
        told = [self.book[n] for n, row in self._passed_on(rows) if self._fits(n, row)]
        if missing and self.published is not None:
            told.append(self.published)
        if not told:
            return values[:HEADER], None
        entries = np.frombuffer(b"".join(each.entry for each in told))
        proofs = b"".join(each.proof for each in told)
        return np.concatenate([values[:HEADER], entries]), Fields(proofs, self._new_to(peer, told))

    def _plain(self, values: Vector) -> Vector:
        """Return a message with the own entry, or without it as long as it may be an older one."""
        rows = self.machine.rows(values)
        others = rows[rows[:, 0] != self.machine.number]
        own = [self._own()] if self._is_sure else []
        return with_rows(values, np.concatenate([*others, *own, []]))

    def _passed_on(self, rows: Vector) -> list[tuple[float, Vector]]:
        return [(float(row[0]), row) for row in rows if row[0] != self.machine.number]

    def _fits(self, number: float, row: Vector) -> bool:
        known = self.book.get(number)
        return known is not None and known.entry == row.tobytes()

    def _new_to(self, peer: Peer, told: list[Proven]) -> bytes:
        """Return the certificates behind some entries that a neighbour has not been sent yet."""
        assert self.notary is not None  # noqa: S101
        authors = self.notary.authors
        prints = {each.proof[:FINGERPRINT] for each in told} - peer.certificates
        peer.certificates |= prints
        return pack([authors[each].certificate for each in sorted(prints) if each in authors])
