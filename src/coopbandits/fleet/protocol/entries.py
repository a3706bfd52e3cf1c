"""Entries on the wire: who may say what of whom, for aggregations whose messages have authors.

*An agent's own word counts.* An entry is believed if its author has signed it; agents that pass it
on cannot add or remove anything.

*Acknowledgements belong to a memory.* An agent tells in HELLO which memory it has (`memory`), and
which of the neighbour's messages it has heard. Where that does not fit what was acknowledged, all
is sent again. After a start an agent has heard nothing yet, whatever its journal says: a memory
that is rolled back by its own pulls alone has heard as much as before, and only its own later entry
can tell it. An agent that finds its memory to be older than what it has told before goes on under a
new number: what it told stays as it was.

What this changes in the agent's state goes through messages, as orders (see
`core.aggregate.entries`), and so into the journal.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.entries import (
    FORGET,
    GENERATIONS,
    HEADER,
    Attributed,
    Rows,
    author_of,
    entry_number,
    is_possible,
    order,
    told_in,
    with_rows,
)
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.notary import FINGERPRINT, Signing
from coopbandits.fleet.protocol.frames import Fields, Greeting
from coopbandits.fleet.protocol.orders import Orders
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.proofs import ProofBook, Proven, write_proofs
from coopbandits.fleet.storage.replica import Replica

PATIENCE = 2.0
"""Seconds for which new pulls are held back, after a start, until all neighbours have spoken."""

REMEMBERED = 4096
"""How many own signed versions are remembered, to recognise those of a former life."""

log = logging.getLogger(__name__)


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
        assert signing.notary is not None  # noqa: S101  made wherever messages have authors
        self.author, self.interval = signing.author, signing.interval
        self.notary = signing.notary
        self.book = ProofBook(self.notary, signing.number_of, signing.interval)
        self.book.restore(replica, self.machine)
        self.notary.holders.add(self)
        self.orders = Orders()
        self.revoked: frozenset[int] = frozenset()
        self.published: Proven | None = None
        self.published_at = 0  # the first message with it
        self.published_of = 0  # how many rewards were counted by then
        self.signed_at = -np.inf
        self._first = self._own()  # what the journal held
        self._told = self._first  # what others may know under this number
        self._met_at = np.inf
        self._is_sure = False  # that no later memory than this one has been told of
        self._said: dict[float, bytes | None] = {}  # what was signed, by version
        self._oldest_said = -1.0
        self.renumberings = 0

    def fingerprints(self) -> set[bytes]:
        """Return that of the certificate behind the own entry; it may have been renewed since."""
        return set() if self.published is None else {self.published.proof[:FINGERPRINT]}

    def _own(self) -> Vector:
        own = self.machine.entry(self.machine.number)
        assert own is not None  # noqa: S101  a machine always has it
        return own.copy()

    @property
    def machine(self) -> Attributed:
        """The agent's machine."""
        # Who makes an exchange has asked the agent for it; the replica may have another one since.
        machine: Attributed = self.replica.agent.machine  # type: ignore[attr-defined]  # has one
        return machine

    def go_on_from(self, before: EntryExchange) -> None:
        """Take over how often this life has taken another number; an order for it is lost."""
        self.renumberings = before.renumberings - before.orders.renumbers

    # Greetings

    @property
    def memory(self) -> int:
        """Which memory this agent has; another one if it is lost, or older than what was told."""
        word: int = self.replica.journal.origin["word"]
        return word ^ self.machine.number

    def begin(self) -> dict[int, Vector]:
        """Return the messages that end the first round: nothing was heard since this start."""
        machine = self.machine
        return {j: np.array([0.0, machine.arrived_at(j)]) for j in self.peers}

    def met(self, peer: Peer, greeting: Greeting, pending: Vector | None) -> Vector | None:
        """Compare what a neighbour says to have heard; return the message that takes effect.

        `pending` is what it said over an earlier link and has not taken effect yet.
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

    def last_heard(self, peer: Peer, pending: Vector | None) -> float:
        """Return the number of a neighbour's message up to which nothing was left out."""
        return self.machine.heard_from(peer.number) if pending is None else pending.item(0)

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
        told = told_in(values, self.machine)
        for number, rounds, _ in told:
            if not is_possible(number, rounds):  # nobody honest says or passes on such a thing
                raise InputError(f"a message about agent {number:g} and {rounds:g} rounds")
        rows = self.machine.rows(values)
        proofs = self.book.read(fields, len(told), peer.number, now)
        verdicts = [
            self._check(peer, number, Proven(bytes(row), version, proof), now)
            for row, (number, _, version), proof in zip(rows, told, proofs, strict=True)
        ]
        refused = ""
        for at, (number, _, _) in enumerate(told if self.revoked else ()):
            if author_of(number) in self.revoked:
                verdicts[at], refused = False, f"an entry of a revoked agent, number {number:.0f}"
        if not all(verdicts):
            believed = [verdict is True for verdict in verdicts]
            values = with_rows(values, rows[believed])
        return Sifted(values, None in verdicts, refused)

    def _check(self, peer: Peer, number: float, told: Proven, now: float) -> bool | None:
        """Return whether an entry is signed and new; None if it cannot be checked yet."""
        version, book = told.version, self.book
        known, is_own = book.known.get(number), number == self.machine.number
        if is_own and not self._is_foreign(book.notary.signed(told.entry, told.proof), version):
            return False
        if not is_own and known is not None and not book.replaces(told, known):
            return known.entry == told.entry
        verdict = book.check(number, told.entry, told.proof, now)
        if not verdict:
            return verdict
        if is_own:
            last = self.published  # stays under this number, to be proven, unless it is outranked
            book.add(number, told if last is None or told.outranks(last) else last)
            self._renumber(peer, told, f"it has told of {version:g} pulls")
            return None  # the next time it is no longer the own one
        book.add(number, told)
        row = np.frombuffer(told.entry)
        is_rival = known is None or known.version == version
        if is_rival and self.machine.entry(number) is not None:
            # What is held without a proof gives way (it was made under another authority, or before
            # the bandit had a section); the same with a proof is news to pass on. So does what
            # another life of the author has told, of as many other pulls.
            self._order(peer, order(FORGET, number, row[HEADER:]))
            self.claims.forget(number)
        return True

    def _is_foreign(self, signed: bytes | None, version: float) -> bool:
        """Return whether this life of the agent has not signed such a version of its entry."""
        (base,) = self.machine.versions(self._first[None])
        return version > max(base, self._oldest_said) and self._said.get(version) != signed

    # Orders

    def _order(self, peer: Peer, row: Vector) -> None:
        self.orders.add(self.machine, peer.number, row)

    def _renumber(self, peer: Peer, other: Proven, why: str) -> None:
        """Count under a new number from now on; what was told under the old one stays.

        If that is what another life has told, all pulls of this one are counted anew.
        """
        if self.orders.renumbers:
            return
        old = self.machine.number
        seed = f"{old} {self.replica.incarnation} {self.renumberings}".encode()
        step = 1 + int.from_bytes(blake2b(seed, digest_size=4).digest(), "big") % (GENERATIONS - 1)
        while entry_number(self.author, old + step) in self.machine.held():
            step += 1
        number = entry_number(self.author, old + step)
        log.warning(
            "this memory is older than what was told (%s): counting anew as %d", why, number
        )
        (version,) = self.machine.versions(self._told[None])
        left = self._told
        if other.outranks(Proven(self._told.tobytes(), version, b"")):
            left = self._first
        self._order(peer, self.machine.renumbering(number, left))
        self.renumberings += 1

    def revoke(self, authors: frozenset[int], inbox: dict[int, Vector]) -> None:
        """Believe nothing of these authors any more, and forget what was believed."""
        self.revoked = authors
        for j, values in inbox.items():
            rows = self.machine.rows(values)
            kept = [author_of(number) not in authors for number in rows[:, 0].tolist()]
            inbox[j] = with_rows(values, rows[kept])
        if not self.peers:
            return
        peer = next(iter(self.peers.values()))
        for number in self.machine.held():
            if number != self.machine.number and author_of(number) in authors:
                held = self.machine.entry(number)
                assert held is not None  # noqa: S101  among those held
                self._order(peer, order(FORGET, number, held[HEADER:]))

    def let_go(self, number: int) -> None:
        """Let another neighbour's message carry the orders in that of one who has gone."""
        if number in self.orders:
            self.orders.hand_over(self.machine, number, next(iter(self.peers), None))

    def with_orders(self, inbox: Mapping[int, Vector]) -> dict[int, Vector]:
        """Return the messages that end this round, with the orders in front."""
        messages = {j: self._without_rivals(each) for j, each in inbox.items()}
        return self.orders.in_front(self.machine, messages)

    def _without_rivals(self, message: Vector) -> Vector:
        """Leave out what was believed in this round before the entry that takes its place came."""
        forgotten, rows = self.orders.forgotten, self.machine.rows(message)
        kept = [
            number not in forgotten or self._has_last_word(number, row)
            for number, row in zip(rows[:, 0].tolist(), rows, strict=True)
        ]
        return message if all(kept) else with_rows(message, rows[kept])

    def _has_last_word(self, number: float, row: Vector) -> bool:
        known = self.book.known.get(number)
        return known is not None and known.entry == row.tobytes()

    def settle(self) -> bool:
        """Note that the round has ended and is in the journal; return whether to greet again."""
        self.book.settle()
        if not self.orders:
            return False
        again = self.orders.renumbers
        for number in self.orders.forgotten:
            if self.machine.entry(number) is None:
                self.claims.forget(number)
        self.orders = Orders()
        if again:
            self._first, self._said, self._oldest_said = 0.0 * self._first, {}, -1.0
            self._told, self.published, self._is_sure = self._first, None, True
        return again

    # What is sent

    @property
    def has_told_all(self) -> bool:
        """Whether nothing is held back that is to be told without another reward."""
        if not self._is_sure or self.orders:
            return False
        return self.published is not None and self.published.entry == self._own().tobytes()

    def publish(self, now: float) -> None:
        """Sign what is told of the own pulls from this round on, as often as is allowed."""
        may_tell = self._is_sure or self._may_tell(now)
        if now >= self.signed_at + 0.99 * self.interval:
            self._sign(self._own() if may_tell else self._first, now)

    def _sign(self, own: Vector, now: float) -> None:
        entry = own.tobytes()
        if self.published is None or self.published.entry != entry:
            (version,) = self.machine.versions(own[None])
            self.published = Proven(entry, version, self.notary.sign(entry))
            self.published_at, self.signed_at = self.replica.rounds + 1, now
            self.published_of = 0 if own is self._first else self.replica.observed
            self._said[version], self._told = self.notary.signed(entry, b""), own
            if len(self._said) > REMEMBERED:
                self._oldest_said = next(iter(self._said))
                del self._said[self._oldest_said]

    @property
    def is_told(self) -> bool:
        """Whether linked neighbours have acknowledged all own pulls."""
        if self.published is None or self.published.entry != self._own().tobytes():
            return False
        linked = (peer for peer in self.peers.values() if peer.met)
        return all(peer.acked >= self.published_at for peer in linked)

    def _may_tell(self, now: float) -> bool:
        """Return whether to tell of pulls since the start.

        Neighbours may know of a later memory of this agent than its journal has. Then these pulls
        belong under another number, and should not be told under this one before that is known.
        """
        met = [peer for peer in self.peers.values() if peer.met]
        if met:
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
        told: list[Proven] = []
        if values.size > HEADER:
            told = self.book.of(self._fitting(values), self.machine.number)
        if missing and self.published is not None:
            told.append(self.published)
        if not told:
            return values[:HEADER], None
        entries = np.frombuffer(b"".join(each.entry for each in told))
        fields = write_proofs([each.proof for each in told], self.book.new_to(peer, told))
        return np.concatenate([values[:HEADER], entries]), fields

    def _fitting(self, values: Vector) -> Rows:
        """Return as many entries of a message as there is room for beside the own one.

        There may be more entries than agents, one more for every memory that was lost. The rest
        comes later.
        """
        rows, room = self.machine.rows(values), max(1, self.claims.max_agents - 1)
        if len(rows) <= room:
            return rows
        rows = np.roll(rows, -self.replica.rounds * room, axis=0)  # all get their turn
        self.machine.postpone(rows[room:, 0])
        return rows[:room]
