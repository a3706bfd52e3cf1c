"""Entries on the wire: who may say what about whom, where messages have authors.

*An agent's own word counts.* An entry is believed if its author has signed it; agents that pass it
on cannot add or remove anything. A proof travels beside each entry: whose certificate, and a
signature (`identity.notary`).

*Acknowledgements belong to a memory.* A greeting says which memory an agent has (`memory`), and
which of the neighbour's messages it has heard. Where that does not fit what was acknowledged, all
is sent again. After a start an agent has heard nothing yet, whatever its journal says: a memory
that is rolled back by its own pulls alone has heard as much as before, and only its own later entry
reveals it. An agent that finds its journal to be older than what it has published continues under a
new number: what it published stays as it was.

What this changes in the agent's state goes through messages, as orders (see
`core.aggregate.entries`), and so into the journal.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.claims import MAX_NUMBERS
from coopbandits.core.aggregate.entries import (
    AUTHORS,
    FORGET,
    GENERATIONS,
    HEADER,
    RENUMBER,
    Attributed,
    Rows,
    Told,
    author_of,
    entry_number,
    is_possible,
    order,
    told_in,
    with_rows,
)
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.chains import MAX_INTERMEDIATES
from coopbandits.fleet.identity.notary import (
    FINGERPRINT,
    PROOF,
    Author,
    Notary,
    is_intermediate,
    pack,
    unpack,
)
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.protocol.frames import ARM_BYTES, BASE, Fields, Greeting
from coopbandits.fleet.protocol.peers import SessionPeer
from coopbandits.fleet.ratelimit import RateLimitedLog
from coopbandits.fleet.storage.eras import Gossiped, Live
from coopbandits.fleet.storage.purging import pulled_columns, signed_columns

if TYPE_CHECKING:
    from coopbandits.core.cooperative import CooperativeAgent

PATIENCE = 2.0
"""Seconds for which new pulls are held back, after a start, until all neighbours have spoken."""

REMEMBERED = 4096
"""How many own signed versions are remembered, to recognise those of a former life."""

BURST = 32.0
"""How many versions of one author are checked at once, beyond the rate at which it may publish; and
how many false certificates of one neighbour, beyond one a second."""

log = logging.getLogger(__name__)


class ForgedError(InputError):
    """A message that an honest neighbour cannot have sent."""


# What is signed

Form = Callable[[bytes, bytes], bytes | None]
"""Turns an entry, and what follows its proof, into what its author signs; None if it signs no such
entry."""


def signed_form(replica: Gossiped, bandit: int) -> Form:
    """Return the form in which entries are signed: pulled arms by their ids, in that order."""
    arms = list(replica.arms)
    registers = cast("CooperativeAgent", replica.agent).machine.registers
    begin = b"bandit" + (bandit % BASE).to_bytes(4, "big")  # an entry may become one of a base

    def form(entry: bytes, left: bytes) -> bytes | None:
        row = np.frombuffer(entry)
        if not registers.follows(row[HEADER:]):
            return None
        parts = [begin, entry[: 8 * HEADER]]
        if left:
            signed = signed_columns(registers, arms, row, left)
        else:
            signed = pulled_columns(registers, arms, row)
        if signed is None:
            return None
        for arm, told in sorted(signed.items()):
            parts += arm.to_bytes(ARM_BYTES, "big"), told
        return b"".join([*parts, registers.of_no_arm(row[HEADER:]).tobytes()])

    return form


class EntrySigner(NamedTuple):
    """Signs and checks entries in the form of one bandit.

    Attributes
    ----------
    notary : Notary
        The agent's keys and all certificates.
    form : callable
        The form in which entries are signed.
    """

    notary: Notary
    form: Form

    def sign(self, entry: bytes) -> bytes:
        """Return the proof of an own entry."""
        form = self.form(entry, b"")
        assert form is not None  # noqa: S101  nothing was purged from it since
        return self.notary.sign(form)

    def signed(self, entry: bytes, proof: bytes) -> bytes | None:
        """Return what the author of a proof signs of an entry; None if it signs no such entry."""
        return self.form(entry, proof[PROOF:])

    def holds(self, entry: bytes, proof: bytes) -> bool:
        """Return whether the author of a proof signed an entry."""
        form = self.form(entry, proof[PROOF:])
        return form is not None and self.notary.holds(form, proof[:PROOF])


class Signing(NamedTuple):
    """How an agent's entries are signed.

    Attributes
    ----------
    author : int
        The number of the agent's own name.
    number_of : callable
        Returns the number of any name.
    notary : Notary
        Signs and checks.
    interval : float
        Seconds between two versions that an author signs.
    """

    author: int
    number_of: Callable[[str], int]
    notary: Notary
    interval: float


def read_proofs(fields: Fields, count: int) -> list[bytes]:
    """Return the proofs of `count` entries, each followed by its remainder."""
    left = fields.remainders or [b""] * count
    if len(fields.proofs) != PROOF * count or len(left) != count:
        raise ForgedError(
            f"{len(fields.proofs)} bytes of proofs and {len(left)} remainders for {count} entries"
        )
    return [fields.proofs[at * PROOF : (at + 1) * PROOF] + left[at] for at in range(count)]


def write_proofs(proofs: Sequence[bytes], certificates: bytes) -> Fields:
    """Return the fields beside entries with these proofs."""
    left = [proof[PROOF:] for proof in proofs]
    plain = b"".join([proof[:PROOF] for proof in proofs])
    return Fields(plain, certificates, left if any(left) else [])


class Proven(NamedTuple):
    """An entry whose author has signed it."""

    entry: bytes
    version: float
    proof: bytes

    def outranks(self, other: Proven) -> bool:
        """Return whether it takes the place of another entry of the same number.

        Two lives of an agent may have made as many pulls, but not the same: all agents have to
        choose the same one of them.
        """
        if self.version != other.version or self.entry == other.entry:
            return self.version > other.version
        return bool(np.frombuffer(self.entry).tolist() > np.frombuffer(other.entry).tolist())


class ProofBook:
    """The newest proven entry of every number: those that were checked, kept and passed on.

    Parameters
    ----------
    signer : EntrySigner
        Checks signatures.
    number_of : callable
        Returns the number of any name.
    interval : float
        Seconds between two versions that an author may sign.

    Attributes
    ----------
    unsaved : dict of int to bytes
        Proofs that are not in the journal yet, by number.
    """

    def __init__(
        self, signer: EntrySigner, number_of: Callable[[str], int], interval: float
    ) -> None:
        self.signer, self.notary = signer, signer.notary
        self.number_of, self.interval = number_of, interval
        self.known: dict[float, Proven] = {}
        self.unsaved: dict[int, bytes] = {}
        self._numbers: dict[float, set[float]] = {}  # of what is known, by author
        self._budgets: dict[int, tuple[float, float]] = {}
        self._patience: dict[int, tuple[float, float]] = {}  # with false certificates, by sender
        self._second_names = RateLimitedLog(log, "second ids of one key")
        self.notary.holders.add(self)

    def fingerprints(self) -> set[bytes]:
        """Return those of the certificates behind all that is known."""
        return {known.proof[:FINGERPRINT] for known in self.known.values()}

    def restore(self, replica: Gossiped, machine: Attributed) -> None:
        """Check again what the journal has kept; what no longer holds is not passed on."""
        for number in [each for each in replica.proofs if machine.entry(each) is None]:
            del replica.proofs[number]  # of what was never believed
        replica.certificates = self._needed(replica)
        behind = {self.notary.fingerprint_of(each): each for each in replica.certificates}
        for certificate in filter(is_intermediate, replica.certificates):
            with suppress(InputError):
                self.notary.learn(certificate)
        for number, proof in replica.proofs.items():
            # One by one: where there is little room, what is behind nothing yet is dropped.
            with suppress(InputError, KeyError):  # of a former authority, or none at all
                self.notary.learn(behind[proof[:FINGERPRINT]])
            holder, held = self.notary.author(proof), machine.entry(number)
            name = self._name(holder, number) if holder else None
            if holder is None or name is None or held is None:
                continue
            if not self.notary.is_bound(holder, name) and self.signer.holds(held.tobytes(), proof):
                self.notary.bind(holder, name)
                (version,) = machine.versions(held[None])
                self.add(number, Proven(held.tobytes(), version, proof))
        self.unsaved = {}

    def _needed(self, replica: Gossiped) -> list[bytes]:
        """Return the certificates behind the proofs that the journal has."""
        needed = {proof[:FINGERPRINT] for proof in replica.proofs.values()}
        return [
            each
            for each in replica.certificates
            if self.notary.fingerprint_of(each) in needed or is_intermediate(each)
        ]

    def fresh(self, replica: Gossiped) -> tuple[dict[int, bytes], list[bytes]]:
        """Return proofs by number, and certificates, that the journal does not have yet."""
        if not self.unsaved:
            return self.unsaved, []
        if len(replica.certificates) > 2 * len(replica.proofs):  # with those from before renewals
            replica.certificates = self._needed(replica)
        prints = {proof[:FINGERPRINT] for proof in self.unsaved.values()}
        found = self._certificates(prints)
        return self.unsaved, [each for each in found if each not in replica.certificates]

    def _certificates(self, prints: Iterable[bytes]) -> list[bytes]:
        """Return certificates by their fingerprints, those of their issuers first."""
        authors = self.notary.authors
        found = [authors[each] for each in sorted(prints) if each in authors]
        issuers = [each for author in found for each in author.intermediates]
        return [*dict.fromkeys(issuers), *(author.certificate for author in found)]

    def read(self, fields: Fields, count: int, sender: int, now: float) -> list[bytes]:
        """Return the proofs of `count` entries, and keep the certificates sent with them.

        Raises
        ------
        ForgedError
            The sender has sent too many false certificates: checking each takes time.
        InputError
            One of them cannot be used.
        """
        proofs = read_proofs(fields, count)
        if not fields.certificates:
            return proofs
        certificates = unpack(fields.certificates)
        left, since = self._patience.get(sender, (BURST, now))
        left = min(BURST, left + max(0.0, now - since))
        if left < 1.0:
            raise ForgedError("more certificates that cannot be used than are looked at")
        self._patience[sender] = left - 1.0, now  # unless all are good
        useless = 0
        for certificate in certificates:
            useless += not self.notary.knows(self.notary.learn(certificate))
            if useless > MAX_INTERMEDIATES:
                raise InputError(f"{useless} intermediate certificates that cannot be used")
        if not useless:
            self._patience[sender] = left, now
        return proofs

    def replaces(self, new: Proven, known: Proven) -> bool:
        """Return whether an entry takes the place of one that is known.

        Of the same signed entry, the one with less left out: an agent that passes it on may have
        left out arms that were not known here then. Of the same in all, the one whose certificate
        expires later, so that it can still be proven when an authority is no longer trusted.
        """
        if new.version == known.version and new.entry == known.entry:
            if new.proof == known.proof:  # almost always, so nothing is looked up
                return False
            return self._ends(new.proof) > self._ends(known.proof)
        if new.version == known.version:
            signed = self.signer.signed(new.entry, new.proof)
            if signed is not None and signed == self.signer.signed(known.entry, known.proof):
                return len(new.proof) < len(known.proof)
        return new.outranks(known)

    def _ends(self, proof: bytes) -> float:
        """Return when the certificate of a proof expires; -inf where it is not trusted."""
        author = self.notary.author(proof)
        return -math.inf if author is None else author.ends

    def _name(self, author: Author, number: float) -> str | None:
        """Return the id of an author that an entry's number stands for; None if it has no such."""
        for name in author.names:
            if self.number_of(name) % AUTHORS == author_of(number):
                return name
        return None

    def numbers_behind(self, proof: bytes) -> frozenset[int]:
        """Return the numbers of all ids in the certificate of a proof."""
        author = self.notary.author(proof)
        names = author.names if author else ()
        return frozenset(self.number_of(name) % AUTHORS for name in names)

    def check(self, number: float, new: Proven, now: float) -> bool | None:
        """Return whether to believe an entry, by its signature.

        False for one number too many of its author, and for another id of a key that is believed
        under one; None if the author publishes too often, and the entry is to be tried later.

        Raises
        ------
        ForgedError
            The author has not signed it. An honest neighbour has checked what it passes on.
        """
        holder, author = self.notary.author(new.proof), int(author_of(number))
        if holder is None:
            raise ForgedError("an entry signed with a certificate that was never sent")
        name = self._name(holder, number)
        if name is None:
            raise ForgedError(f"an entry of agent {number:.0f}, signed by another")
        if self.notary.is_bound(holder, name):
            self._second_names.warning(
                now, LogEvent("entry not believed", peer=name, reason="its key is another agent's")
            )
            return False
        if number not in self.known and len(self._numbers.get(author, ())) >= MAX_NUMBERS:
            return False
        left, since = self._budgets.get(author, (BURST, now))
        left = min(BURST, left + 2.0 * (now - since) / self.interval)
        self._budgets[author] = left - 1.0 if left >= 1.0 else left, now
        if left < 1.0:
            return None
        if not self.signer.holds(new.entry, new.proof):
            raise ForgedError(f"an entry of agent {number:.0f} that it has not signed")
        self.notary.bind(holder, name)
        return True

    def add(self, number: float, known: Proven) -> None:
        """Keep an entry that was checked."""
        self.known[number] = known
        self._numbers.setdefault(int(author_of(number)), set()).add(number)
        self.unsaved[int(number)] = known.proof

    def of(self, rows: Rows, own: float) -> list[Proven]:
        """Return those of some entries that can be proven, except the own one."""
        found = []
        for row, number in zip(rows, rows[:, 0].tolist(), strict=True):
            known = self.known.get(number) if number != own else None
            if known is None or known.entry != row.tobytes():
                continue
            if self.notary.author(known.proof) is not None:  # an authority may have been dropped
                found.append(known)
        return found

    def new_to(self, peer: SessionPeer, sent: list[Proven]) -> bytes:
        """Return the certificates behind some entries that a neighbour has not been sent yet."""
        prints = {each.proof[:FINGERPRINT] for each in sent} - peer.certificates
        if not prints:
            return b""
        found = self._certificates(prints)
        known = {self.notary.fingerprint_of(each): each for each in found}
        new = [each for key, each in known.items() if key not in peer.certificates]
        peer.certificates |= known.keys()
        return pack(new)


# Orders


class Orders:
    """Rows that take effect at the end of a round, by the neighbour whose message carries them.

    Orders, and entries that a neighbour sent over an earlier link. They stand in front of a
    neighbour's message, since messages are what the journal keeps. A neighbour may greet and send
    again and again within one round, so of every entry the latest version is kept, and of every
    order one.
    """

    def __init__(self) -> None:
        # By number and rounds, which count as 0 in entries.
        self.rows: dict[int, dict[tuple[float, float], Vector]] = {}

    def add(self, machine: Attributed, neighbor: int, row: Vector) -> None:
        """Let a neighbour's message carry one more row."""
        rows = self.rows.setdefault(neighbor, {})
        key = row.item(0), min(row.item(1), 0.0)
        if row[1] >= 0.0 and key in rows:
            (older,), (newer,) = machine.versions(rows[key][None]), machine.versions(row[None])
            row = row if newer >= older else rows[key]
        rows[key] = row

    @property
    def forgotten(self) -> set[float]:
        """The numbers of entries that are to be forgotten."""
        return {number for rows in self.rows.values() for number, what in rows if what == FORGET}

    @property
    def renumbers(self) -> bool:
        """Whether the agent is to count under another number."""
        return any(what <= RENUMBER for rows in self.rows.values() for _, what in rows)


class Checked(NamedTuple):
    """What is left of a message.

    Attributes
    ----------
    values : Vector
        The message without entries that are not believed.
    later : bool
        Whether an entry was left out that may be believed later.
    refused : str
        Why an entry was left out that never will be; "" for none.
    """

    values: Vector
    later: bool
    refused: str


class EntryExchange:
    """What one agent knows of a bandit's entries, beyond its state.

    Parameters
    ----------
    replica : Gossiped
        The agent.
    bandit : int
        The bandit's number.
    claims : Claims
        What was believed so far.
    peers : mapping
        The neighbours by number.
    signing : Signing
        How entries are signed.
    """

    def __init__(
        self,
        replica: Gossiped,
        bandit: int,
        claims: Claims,
        peers: Mapping[int, SessionPeer],
        signing: Signing,
    ) -> None:
        self.replica, self.claims, self.peers = replica, claims, peers
        self.author, self.interval = signing.author, signing.interval
        self.arms = list(replica.arms)
        self.registers = cast("CooperativeAgent", replica.agent).machine.registers
        self.signer = EntrySigner(signing.notary, signed_form(replica, bandit))
        self.book = ProofBook(self.signer, signing.number_of, signing.interval)
        self.book.restore(replica, self.machine)
        signing.notary.holders.add(self)
        self.orders = Orders()
        self.revoked: frozenset[int] = frozenset()
        self.published: Proven | None = None
        self.published_at = 0  # the first message with it
        self.published_of = 0  # how many rewards were counted by then
        self.signed_at = -np.inf
        self.renumberings = 0
        self._restored = self._own()  # what the journal held
        self._last_signed = self._restored  # what others may know under this number
        self._met_at = np.inf
        self._is_latest = False  # whether no neighbour knows of a later memory than this one
        self._signed: dict[float, bytes | None] = {}  # what was signed, by version
        self._oldest_signed = -1.0

    def fingerprints(self) -> set[bytes]:
        """Return that of the certificate behind the own entry; it may have been renewed since."""
        return set() if self.published is None else {self.published.proof[:FINGERPRINT]}

    def _own(self) -> Vector:
        machine = self.machine
        own = machine.entry(machine.number)
        assert own is not None  # noqa: S101  a machine always has it
        return own.copy()

    @property
    def machine(self) -> Attributed:
        """The agent's machine; another one whenever its neighbours have changed."""
        # An exchange is only made where there is one (`Terms.signing`).
        machine: Attributed = self.replica.agent.machine  # type: ignore[attr-defined]
        return machine

    def inherit(self, before: EntryExchange) -> None:
        """Continue after an exchange about other arms; an order for another number is lost."""
        self.renumberings = before.renumberings - before.orders.renumbers

    def enter_era(self, before: EntryExchange | None, carried: Live | None) -> None:
        """Continue, in another era, what an exchange knew of the own entry.

        `carried` is what the live part of the last era had when this process started: the own entry
        that its journal held has this as well, and a later life may have published both.
        """
        if before is not None and not set(before.arms) <= set(self.arms):
            return  # arms were purged, and what was signed before has another form by now
        restored = 0.0 * self._restored
        restored[:HEADER] = self._restored[:HEADER]
        if before is not None:
            restored, self._last_signed = map(self._moved(before), before.carrying)
            self._signed, self._oldest_signed = before._signed, before._oldest_signed
            self._met_at, self._is_latest = before._met_at, before._is_latest
            self.renumberings, self.signed_at = before.renumberings, before.signed_at
        if carried is not None:
            restored[HEADER : HEADER + carried.totals.size] += carried.totals
            if self.registers.size > carried.totals.size:
                restored[-1] += carried.pulls
        self._restored = restored
        if before is None or before.published is None:
            self._last_signed = restored

    @property
    def carrying(self) -> tuple[Vector, Vector]:
        """The own entry that the journal held, and the one that others may know."""
        return self._restored, self._last_signed

    def _moved(self, before: EntryExchange) -> Callable[[Vector], Vector]:
        """Return a function that brings a row of another exchange into this order of arms."""
        places = [self.arms.index(arm) for arm in before.arms]

        def moved(row: Vector) -> Vector:
            values = self.registers.moved(row[HEADER:], before.registers, places)
            return np.concatenate([row[:HEADER], values])

        return moved

    # Greetings

    @property
    def memory(self) -> int:
        """Which memory this agent has; another one if it is lost, or older than what was sent."""
        word: int = self.replica.journal.origin["word"]
        return word ^ self.machine.number

    def begin(self) -> dict[int, Vector]:
        """Return the messages that end the first round: nothing was heard since this start."""
        machine = self.machine
        return {j: np.array([0.0, machine.arrived_at(j)]) for j in self.peers}

    def met(self, peer: SessionPeer, greeting: Greeting, pending: Vector | None) -> Vector | None:
        """Compare what a neighbour has heard with what it acknowledged; resend all if it is less.

        `pending` is what it sent over an earlier link and has not taken effect yet. Returns the
        message that takes effect instead.
        """
        machine, changed = self.machine, peer.memory != greeting.memory
        peer.memory = greeting.memory
        arrived, (memory, start, number) = machine.arrived_at(peer.number), greeting.heard
        is_former = memory == self.memory and start != self.replica.incarnation
        peer.former = number if is_former and number > arrived else 0
        if not changed and number >= arrived:
            return pending
        if pending is not None:
            for row in machine.rows(pending):
                self._order(peer, row)
        return np.array([0.0 if changed else self.last_heard(peer, pending), 0.0])

    def last_heard(self, peer: SessionPeer, pending: Vector | None) -> float:
        """Return the number of a neighbour's message up to which nothing was left out."""
        return self.machine.heard_from(peer.number) if pending is None else pending.item(0)

    # What arrives

    def check(
        self,
        peer: SessionPeer,
        values: Vector,
        told: list[Told] | None,
        fields: Fields,
        now: float,
    ) -> Checked:
        """Return what is believed of a message, by who has signed its entries.

        `told` is what its entries tell, where that was read already.

        Raises
        ------
        ForgedError
            An entry was not signed by its author.
        InputError
            The message has another form.
        """
        machine = self.machine
        told = told_in(values, machine) if told is None else told
        for number, rounds, _ in told:
            if not is_possible(number, rounds):  # no honest agent sends or passes on such an entry
                raise InputError(f"a message about agent {number:g} and {rounds:g} rounds")
        rows = values[HEADER:].reshape(len(told), -1)
        proofs, own = self.book.read(fields, len(told), peer.number, now), machine.number
        verdicts = [
            self._check(peer, number, number == own, Proven(bytes(row), version, proof), now)
            for row, (number, _, version), proof in zip(rows, told, proofs, strict=True)
        ]
        refused = ""
        for at, (number, _, _) in enumerate(told if self.revoked else ()):
            # A certificate is revoked with any of its ids: its holder must not go on under another.
            if self.revoked & {author_of(number), *self.book.numbers_behind(proofs[at])}:
                verdicts[at], refused = False, f"an entry of a revoked agent, number {number:.0f}"
        if not all(verdicts):
            believed = [verdict is True for verdict in verdicts]
            values = with_rows(values, rows[believed])
        return Checked(values, None in verdicts, refused)

    def _check(
        self, peer: SessionPeer, number: float, is_own: bool, new: Proven, now: float
    ) -> bool | None:
        """Return whether an entry is signed and new; None if it cannot be checked yet."""
        version, book = new.version, self.book
        known = book.known.get(number)
        if is_own and not self._is_foreign(new):
            return False
        if not is_own and known is not None and not book.replaces(new, known):
            return known.entry == new.entry
        verdict = book.check(number, new, now)
        if not verdict:
            return verdict
        if is_own:
            last = self.published  # stays under this number, to be proven, unless it is outranked
            book.add(number, new if last is None or new.outranks(last) else last)
            self._renumber(peer, new)
            return None  # the next time it is no longer the own one
        book.add(number, new)
        is_rival = known is None or known.version == version
        if is_rival and self.machine.entry(number) is not None:
            # What is held without a proof gives way (it was made under another authority, or before
            # the bandit had a section); the same with a proof is news to pass on. So does what
            # another life of the author has told, of as many other pulls.
            row = np.frombuffer(new.entry)
            self._order(peer, order(FORGET, number, row[HEADER:]))
            self.claims.forget(number)
        return True

    def _is_foreign(self, own: Proven) -> bool:
        """Return whether this life of the agent has not signed such a version of its entry."""
        (base,) = self.machine.versions(self._restored[None])
        signed = self.signer.signed(own.entry, own.proof)
        return (
            own.version > max(base, self._oldest_signed) and self._signed.get(own.version) != signed
        )

    def revoke(self, authors: frozenset[int], inbox: dict[int, Vector]) -> None:
        """Stop believing these authors, and forget what was believed."""
        self.revoked, machine = authors, self.machine
        authors |= {
            int(author_of(number))
            for number, known in self.book.known.items()
            if authors & self.book.numbers_behind(known.proof)
        }
        for j, values in inbox.items():
            rows = machine.rows(values)
            kept = [author_of(number) not in authors for number in rows[:, 0].tolist()]
            inbox[j] = with_rows(values, rows[kept])
        if not self.peers:
            return
        peer = next(iter(self.peers.values()))
        for number in machine.held():
            if number != machine.number and author_of(number) in authors:
                held = machine.entry(number)
                assert held is not None  # noqa: S101  among those held
                self._order(peer, order(FORGET, number, held[HEADER:]))

    # Orders

    def _order(self, peer: SessionPeer, row: Vector) -> None:
        self.orders.add(self.machine, peer.number, row)

    def _renumber(self, peer: SessionPeer, other: Proven) -> None:
        """Count under a new number from now on; what was published under the old one stays.

        If that is what another life has published, all pulls of this one are counted under the new
        number.
        """
        if self.orders.renumbers:
            return
        machine = self.machine
        old = machine.number
        seed = f"{old} {self.replica.incarnation} {self.renumberings}".encode()
        step = 1 + int.from_bytes(blake2b(seed, digest_size=4).digest(), "big") % (GENERATIONS - 1)
        while entry_number(self.author, old + step) in machine.held():
            step += 1
        number = entry_number(self.author, old + step)
        log.warning(
            LogEvent(
                "the journal is older than what neighbours hold: continuing under the new entry "
                "number",
                peer=peer.name,
                bandit=self.replica.declared.name,
                pulls=other.version,
                number=number,
            )
        )
        (version,) = machine.versions(self._last_signed[None])
        left = self._last_signed
        if other.outranks(Proven(left.tobytes(), version, b"")):
            left = self._restored
        self._order(peer, machine.renumbering(number, left))
        self.renumberings += 1

    def remove_neighbor(self, number: int) -> None:
        """Let another neighbour's message carry the orders in that of one that has gone."""
        heir = next(iter(self.peers), None)
        for row in self.orders.rows.pop(number, {}).values():
            if heir is not None:
                self.orders.add(self.machine, heir, row)

    def with_orders(self, inbox: Mapping[int, Vector]) -> dict[int, Vector]:
        """Return the messages that end this round, with the orders in front.

        What was believed in this round before the entry that takes its place came is left out.
        """
        machine, forgotten, messages = self.machine, self.orders.forgotten, dict(inbox)
        for j, message in inbox.items():
            rows = machine.rows(message)
            kept = []
            for number, row in zip(rows[:, 0].tolist(), rows, strict=True):
                known = self.book.known.get(number)
                is_latest = known is not None and known.entry == row.tobytes()
                kept.append(number not in forgotten or is_latest)
            if not all(kept):
                messages[j] = with_rows(message, rows[kept])
        for j, orders in self.orders.rows.items():
            told = messages[j] if j in messages else machine.note(j, np.zeros((0, 0)))
            both = [*orders.values(), machine.rows(told).ravel()]
            messages[j] = with_rows(told, np.concatenate(both))
        return messages

    def settle(self) -> bool:
        """Note that the round has ended and is in the journal; return whether to greet again."""
        self.book.unsaved = {}
        if not self.orders.rows:
            return False
        again = self.orders.renumbers
        for number in self.orders.forgotten:
            if self.machine.entry(number) is None:
                self.claims.forget(number)
        self.orders = Orders()
        if again:
            self._restored, self._signed, self._oldest_signed = 0.0 * self._restored, {}, -1.0
            self._last_signed, self.published, self._is_latest = self._restored, None, True
        return again

    # What is sent

    def publish(self, now: float) -> bool:
        """Sign the own entry as it is sent from this round on, as often as is allowed.

        Returns whether nothing is held back that would be sent without another reward.
        """
        may_publish, latest = self._is_latest or self._may_publish(now), self._own()
        own = latest if may_publish else self._restored
        entry, is_due = own.tobytes(), now >= self.signed_at + 0.99 * self.interval
        if is_due and (self.published is None or self.published.entry != entry or self.is_stale):
            (version,) = self.machine.versions(own[None])
            self.published = Proven(entry, version, self.signer.sign(entry))
            self.published_at, self.signed_at = self.replica.rounds + 1, now
            self.published_of = 0 if own is self._restored else self.replica.observed
            self._signed[version] = self.signer.signed(entry, b"")
            self._last_signed = own
            if len(self._signed) > REMEMBERED:
                self._oldest_signed = next(iter(self._signed))
                del self._signed[self._oldest_signed]
        if not may_publish or self.orders.rows or self.is_stale:
            return False
        return self.published is not None and self.published.entry == entry

    @property
    def is_stale(self) -> bool:
        """Whether the own entry is proven by another certificate than the present one."""
        if self.published is None:
            return False
        return self.published.proof[:FINGERPRINT] != self.signer.notary.fingerprint

    def _may_publish(self, now: float) -> bool:
        """Return whether to publish pulls since the start.

        Neighbours may know of a later memory of this agent than its journal has. Then these pulls
        belong under another number, and must not be published under this one before that is known.
        """
        met = [peer for peer in self.peers.values() if peer.met]
        if met:
            self._met_at = min(self._met_at, now)
            late = now >= self._met_at + PATIENCE
            self._is_latest = late or all(peer.has_sent for peer in met)
            self.published_at = self.replica.rounds + 1
        return self._is_latest

    @property
    def is_delivered(self) -> bool:
        """Whether linked neighbours have acknowledged all own pulls."""
        if self.published is None or self.published.entry != self._own().tobytes():
            return False
        linked = (peer for peer in self.peers.values() if peer.met)
        return all(peer.acked >= self.published_at for peer in linked)

    def outgoing(self, peer: SessionPeer, values: Vector) -> tuple[Vector, Fields | None]:
        """Return a message with the own entry until it has arrived, and what proves it."""
        if peer.first_sent == 0:
            peer.first_sent = int(values[0])
        sent: list[Proven] = []
        if values.size > HEADER:
            machine = self.machine
            rows, room = machine.rows(values), max(1, self.claims.max_agents - 1)
            if len(rows) > room:
                # There may be more entries than agents, one more for every memory that was lost.
                # All get their turn; what is left out now is sent later.
                rows = np.roll(rows, -self.replica.rounds * room, axis=0)
                machine.postpone(rows[room:, 0])
                rows = rows[:room]
            sent = self.book.of(rows, machine.number)
        if self.published is not None and peer.acked < max(peer.first_sent, self.published_at):
            sent.append(self.published)
        if not sent:
            return values[:HEADER], None
        entries = np.frombuffer(b"".join([each.entry for each in sent]))
        fields = write_proofs([each.proof for each in sent], self.book.new_to(peer, sent))
        return np.concatenate([values[:HEADER], entries]), fields
