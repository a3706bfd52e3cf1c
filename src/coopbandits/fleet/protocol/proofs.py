"""Proofs of entries: those that were checked, kept and passed on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from coopbandits.core.aggregate.claims import MAX_NUMBERS
from coopbandits.core.aggregate.entries import AUTHORS, Attributed, Rows, author_of
from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.notary import FINGERPRINT, PROOF, Notary, pack, unpack
from coopbandits.fleet.protocol.frames import Fields
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.storage.replica import Replica

BURST = 32.0
"""How many versions of one author are checked at once, beyond the rate at which it may publish; and
how many false certificates of one neighbour, beyond one a second."""


class ForgedError(InputError):
    """A message that an honest neighbour cannot have sent."""


class Proven(NamedTuple):
    """An entry whose author has signed it."""

    entry: bytes
    version: float
    proof: bytes

    def outranks(self, other: Proven) -> bool:
        """Return whether it takes the place of another entry of the same number.

        Two lives of an agent may tell of as many pulls, and not the same: everybody has to take the
        same one of them.
        """
        if self.version != other.version or self.entry == other.entry:
            return self.version > other.version
        return bool(np.frombuffer(self.entry).tolist() > np.frombuffer(other.entry).tolist())


def read_proofs(fields: Fields, count: int) -> list[bytes]:
    """Return the proofs of so many entries, each with its remainder."""
    left = fields.remainders or [b""] * count
    if len(fields.proofs) != PROOF * count or len(left) != count:
        raise ForgedError(
            f"{len(fields.proofs)} bytes of proofs and {len(left)} remainders for {count} entries"
        )
    return [fields.proofs[at * PROOF : (at + 1) * PROOF] + left[at] for at in range(count)]


def write_proofs(proofs: Sequence[bytes], certificates: bytes) -> Fields:
    """Return what stands beside entries with these proofs."""
    left = [proof[PROOF:] for proof in proofs]
    plain = b"".join(proof[:PROOF] for proof in proofs)
    return Fields(plain, certificates, left if any(left) else [])


class ProofBook:
    """The newest proven entry of every number.

    Parameters
    ----------
    notary : Notary
        Checks signatures.
    number_of : callable
        Returns the number of any name.
    interval : float
        Seconds between two versions that an author may sign.
    """

    def __init__(self, notary: Notary, number_of: Callable[[str], int], interval: float) -> None:
        self.notary, self.number_of, self.interval = notary, number_of, interval
        self.known: dict[float, Proven] = {}
        self._numbers: dict[float, set[float]] = {}  # of what is known, by author
        self._fresh: dict[int, bytes] = {}  # proofs that are not in the journal yet
        self._budgets: dict[int, tuple[float, float]] = {}
        self._patience: dict[int, tuple[float, float]] = {}  # with false certificates, by sender
        notary.holders.add(self)

    def fingerprints(self) -> set[bytes]:
        """Return those of the certificates behind all that is known."""
        return {told.proof[:FINGERPRINT] for told in self.known.values()}

    def restore(self, replica: Replica, machine: Attributed) -> None:
        """Check again what the journal has kept; what no longer holds is not passed on."""
        for number in [each for each in replica.proofs if machine.entry(each) is None]:
            del replica.proofs[number]  # of what was never believed
        replica.certificates = self._needed(replica)
        behind = {self.notary.fingerprint_of(each): each for each in replica.certificates}
        for number, proof in replica.proofs.items():
            # One by one: where there is little room, what is behind nothing yet is dropped.
            with suppress(InputError, KeyError):  # of an authority of before, or none at all
                self.notary.learn(behind[proof[:FINGERPRINT]])
            author, held = self.author(proof), machine.entry(number)
            if author is None or held is None:
                continue
            if self.notary.holds(held.tobytes(), proof):
                (version,) = machine.versions(held[None])
                self._keep(number, author, Proven(held.tobytes(), version, proof))

    def _needed(self, replica: Replica) -> list[bytes]:
        """Return the certificates behind the proofs that the journal has."""
        needed = {proof[:FINGERPRINT] for proof in replica.proofs.values()}
        return [each for each in replica.certificates if self.notary.fingerprint_of(each) in needed]

    def fresh(self, replica: Replica) -> tuple[dict[int, bytes], list[bytes]]:
        """Return proofs by number, and certificates, that the journal does not have yet."""
        if not self._fresh:
            return self._fresh, []
        if len(replica.certificates) > 2 * len(replica.proofs):  # with those from before renewals
            replica.certificates = self._needed(replica)
        prints = {proof[:FINGERPRINT] for proof in self._fresh.values()}
        found = [self.notary.authors[each].certificate for each in sorted(prints)]
        return self._fresh, [each for each in found if each not in replica.certificates]

    def settle(self) -> None:
        """Note that the journal has them."""
        self._fresh = {}

    def read(self, fields: Fields, count: int, sender: int, now: float) -> list[bytes]:
        """Return the proofs of so many entries, and keep the certificates sent with them.

        Raises
        ------
        ForgedError
            The sender has sent too many that nobody has signed: to check each takes time.
        InputError
            One of them cannot be used.
        """
        proofs = read_proofs(fields, count)
        certificates = unpack(fields.certificates)
        if not certificates:
            return proofs
        left, since = self._patience.get(sender, (BURST, now))
        left = min(BURST, left + max(0.0, now - since))
        if left < 1.0:
            raise ForgedError("more certificates that cannot be used than are looked at")
        self._patience[sender] = left - 1.0, now  # unless all are good
        for certificate in certificates:
            self.notary.learn(certificate)
        self._patience[sender] = left, now
        return proofs

    def replaces(self, told: Proven, known: Proven) -> bool:
        """Return whether an entry takes the place of one that is known.

        Of the same that was signed, the one from which less is left out: who passes it on may have
        left out arms that were not known here then.
        """
        if told.version == known.version and told.entry != known.entry:
            signed = self.notary.signed(told.entry, told.proof)
            if signed is not None and signed == self.notary.signed(known.entry, known.proof):
                return len(told.proof) < len(known.proof)
        return told.outranks(known)

    def author(self, proof: bytes) -> int | None:
        """Return the number of who has signed; None where the certificate is not known."""
        name = self.notary.author(proof)
        return None if name is None else self.number_of(name) % AUTHORS

    def check(self, number: float, entry: bytes, proof: bytes, now: float) -> bool | None:
        """Return whether the author of an entry has signed it; None if it is to be tried later.

        Raises
        ------
        ForgedError
            It has not. An honest neighbour has checked what it passes on.
        """
        author = self.author(proof)
        if author is None:
            raise ForgedError("an entry signed with a certificate that was never sent")
        if author_of(number) != author:
            raise ForgedError(f"an entry of agent {number:.0f}, signed by another")
        if number not in self.known and len(self._numbers.get(author, ())) >= MAX_NUMBERS:
            return False
        left, since = self._budgets.get(author, (BURST, now))
        left = min(BURST, left + 2.0 * (now - since) / self.interval)
        self._budgets[author] = left - 1.0 if left >= 1.0 else left, now
        if left >= 1.0 and not self.notary.holds(entry, proof):
            raise ForgedError(f"an entry of agent {number:.0f} that it has not signed")
        return True if left >= 1.0 else None

    def add(self, number: float, told: Proven) -> None:
        """Keep an entry that was checked."""
        author = self.author(told.proof)
        assert author is not None  # noqa: S101  it was checked
        self._keep(number, author, told)
        self._fresh[int(number)] = told.proof

    def _keep(self, number: float, author: int, told: Proven) -> None:
        self.known[number] = told
        self._numbers.setdefault(author, set()).add(number)

    def of(self, rows: Rows, own: float) -> list[Proven]:
        """Return those of some entries that can be proven, but for the own one."""
        found = []
        for row, number in zip(rows, rows[:, 0].tolist(), strict=True):
            known = self.known.get(number) if number != own else None
            if known is not None and known.entry == row.tobytes():
                found.append(known)
        return found

    def new_to(self, peer: Peer, told: list[Proven]) -> bytes:
        """Return the certificates behind some entries that a neighbour has not been sent yet."""
        authors = self.notary.authors
        prints = {each.proof[:FINGERPRINT] for each in told} - peer.certificates
        peer.certificates |= prints
        return pack([authors[each].certificate for each in sorted(prints) if each in authors])
