"""Arms that agents have in different orders, or do not all have.

The core knows arms by their places, and every agent has an order of its own: new arms are added
behind those that it has. A greeting gives the order, and vectors are brought into the receiver's
order as they arrive. An entry is signed in a form that is the same in every order. What a neighbour
says of arms that were purged here is added up (`fleet.storage.purging`).

What is heard of an arm that is not declared here can be passed on once the arm has a place, without
a name. Anybody may make up arms, so places are bounded: a few are for arms that a neighbour just
lists, most for those with pulls. Where they run out, arms without pulls give theirs up: nothing is
known of those, so leaving them out loses nothing. A message with pulls for which there is no place
is not acknowledged, so it comes again. So no pull is lost, and no neighbour is rejected for the
arms that it lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from coopbandits.core.aggregate.entries import HEADER, Attributed, with_rows
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.notary import PROOF, Notary
from coopbandits.fleet.protocol.frames import ARM_BYTES, Fields
from coopbandits.fleet.protocol.proofs import read_proofs, write_proofs
from coopbandits.fleet.storage.purging import (
    PURGED,
    pulled_columns,
    remainder,
    signed_columns,
    take_back,
)

if TYPE_CHECKING:
    from weakref import WeakSet

    from coopbandits.core.cooperative import CooperativeAgent
    from coopbandits.fleet.identity.notary import Author, ProofHolder
    from coopbandits.fleet.storage.replica import Replica


def pack_arms(arms: Iterable[int]) -> bytes:
    """Return the ids of arms one after the other."""
    return b"".join(arm.to_bytes(ARM_BYTES, "big") for arm in arms)


def unpack_arms(data: bytes) -> list[int]:
    """Undo `pack_arms`."""
    parts = range(0, len(data), ARM_BYTES)
    return [int.from_bytes(data[at : at + ARM_BYTES], "big") for at in parts]


Form = Callable[[bytes, bytes], bytes | None]
"""Turns an entry, and what follows its proof, into what was signed; None for what nobody signs."""


class Order(NamedTuple):
    """The arms of a neighbour's vectors.

    Attributes
    ----------
    arms : sequence of int
        Their ids.
    places : sequence of int
        Where they are among the own ones; empty where both are the same.
    twin : CooperativeAgent or None
        An agent with as many arms, where they are not.
    gone : frozenset of int
        Ids of those that were purged here.
    """

    arms: Sequence[int]
    places: Sequence[int]
    twin: CooperativeAgent | None
    gone: frozenset[int] = frozenset()


def order_of(replica: Replica, theirs: Sequence[int]) -> Order:
    """Return how a neighbour's arms lie among the own ones; those without a place are as purged."""
    own = list(replica.arms)
    if list(theirs) == own:
        return Order(own, (), None)
    place = {arm: at for at, arm in enumerate(own)}
    gone = frozenset(arm for arm in theirs if arm not in place)
    twin = cast("CooperativeAgent", replica.make_agent((), {}, len(theirs)))
    return Order(theirs, [place[PURGED if arm in gone else arm] for arm in theirs], twin, gone)


def in_own_order(
    replica: Replica, order: Order, values: Vector, fields: Fields
) -> tuple[Vector, Fields]:
    """Return a neighbour's vector with arms in the own order, and what stands beside it."""
    agent = cast("CooperativeAgent", replica.agent)
    if order.twin is not None:
        if order.gone and fields.proofs and isinstance(agent.machine, Attributed):
            fields = _with_remainders(order, values, fields)
        values = agent.translated(values, order.twin, order.places)
    if fields.remainders and isinstance(agent.machine, Attributed):
        return _taken_back(agent, list(replica.arms), values, fields)
    return values, fields


def _taken_back(
    agent: CooperativeAgent, arms: list[int], values: Vector, fields: Fields
) -> tuple[Vector, Fields]:
    """Return entries with what others have purged from them, of arms that are known here."""
    machine = cast("Attributed", agent.machine)
    try:
        rows = machine.rows(values)
        proofs = read_proofs(fields, len(rows))
    except InputError:
        return values, fields  # of no such form, which is told when they are read
    told = [
        take_back(agent.machine.registers, arms, row, proof[PROOF:])
        for row, proof in zip(rows, proofs, strict=True)
    ]
    proofs = [proof[:PROOF] + left for proof, (_, left) in zip(proofs, told, strict=True)]
    entries = np.array([row for row, _ in told])
    return with_rows(values, entries), write_proofs(proofs, fields.certificates)


def _with_remainders(order: Order, values: Vector, fields: Fields) -> Fields:
    """Return fields by which entries can be proven without the arms that were purged here."""
    machine = cast("Attributed", cast("CooperativeAgent", order.twin).machine)
    try:
        rows = machine.rows(values)
        proofs = read_proofs(fields, len(rows))
    except InputError:
        return fields  # of no such form, which is told when they are read
    registers = cast("CooperativeAgent", order.twin).machine.registers
    told = [
        proof[:PROOF] + remainder(registers, order.arms, order.gone, row, proof[PROOF:])
        for row, proof in zip(rows, proofs, strict=True)
    ]
    return write_proofs(told, fields.certificates)


def signed_form(replica: Replica, bandit: int) -> Form:
    """Return what turns an entry into what is signed: pulled arms by their ids, in that order."""
    arms = list(replica.arms)
    registers = cast("CooperativeAgent", replica.agent).machine.registers
    begin = b"bandit" + bandit.to_bytes(4, "big")

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


class ArmNotary(Notary):
    """An agent's notary for the entries of one bandit."""

    def __init__(self, notary: Notary, form: Form) -> None:
        self.notary, self.form = notary, form

    @property
    def authors(self) -> dict[bytes, Author]:  # type: ignore[override]  # those of all bandits
        """Everybody certified."""
        return self.notary.authors

    @property
    def holders(self) -> WeakSet[ProofHolder]:  # type: ignore[override]  # those of all bandits
        """Who needs certificates."""
        return self.notary.holders

    def refresh(self) -> None:
        """Read the files again if they have changed."""
        self.notary.refresh()

    def fingerprint_of(self, certificate: bytes) -> bytes:
        """Return what proofs name a certificate by."""
        return self.notary.fingerprint_of(certificate)

    def learn(self, certificate: bytes) -> bytes:
        """Keep an author's certificate."""
        return self.notary.learn(certificate)

    def sign(self, entry: bytes) -> bytes:
        """Return the proof of an own entry."""
        form = self.form(entry, b"")
        assert form is not None  # noqa: S101  nothing was purged from it since
        return self.notary.sign(form)

    def author(self, proof: bytes) -> str | None:
        """Return who a proof says has signed."""
        return self.notary.author(proof)

    def signed(self, entry: bytes, proof: bytes) -> bytes | None:
        """Return what the author of a proof signs of an entry; None for what nobody signs."""
        return self.form(entry, proof[PROOF:])

    def holds(self, entry: bytes, proof: bytes) -> bool:
        """Return whether the author of a proof signed an entry."""
        form = self.form(entry, proof[PROOF:])
        return form is not None and self.notary.holds(form, proof[:PROOF])


Matter = Callable[[Sequence[int]], bool]
"""Returns whether it matters where some arms are."""

MOST_UNNAMED = 100
"""So many arms of one bandit are taken from neighbours without being declared here."""

MOST_LISTED = 20
"""While there are fewer, arms are taken before anybody tells of pulls."""


def room_for(replica: Replica, most: int) -> int:
    """Return how many more arms may have a place; one is for all that have none."""
    unnamed = sum(not name for arm, name in replica.arms.items() if arm != PURGED)
    return max(0, most - 1 - unnamed)


def idle_arms(replica: Replica) -> list[int]:
    """Return the arms without a name of which nothing is known, and which could do without."""
    unnamed = [arm for arm, name in replica.arms.items() if not name and arm != PURGED]
    before = cast("CooperativeAgent", replica.agent)
    state, places = before.export_state(), {arm: at for at, arm in enumerate(replica.arms)}
    wide = _wider(replica, before.view.num_arms + len(unnamed), list(before.view.neighbor_weights))

    def matter(arms: Sequence[int]) -> bool:
        same, moved = _two_orders(places, arms)
        there = wide.rearranged(state, before, same)
        return bool(there != wide.rearranged(state, before, moved))

    pulled = set(_those_that(matter, unnamed, len(unnamed)))
    return [arm for arm in unnamed if arm not in pulled]


def _wider(replica: Replica, num_arms: int, neighbors: Sequence[int] = ()) -> CooperativeAgent:
    return cast("CooperativeAgent", replica.make_agent(neighbors, replica.degrees, num_arms))


def _two_orders(places: dict[int, int], arms: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return places for all arms, and the same with some of them moved to empty places behind.

    Only a machine knows where the registers of an arm are. If nothing is in them, it does not
    matter which of the two places they are at.
    """
    same = list(range(len(places)))
    moved = same.copy()
    for at, arm in enumerate(arms):
        moved[places[arm]] = len(places) + at
    return same, moved


def _those_that(matter: Matter, arms: Sequence[int], most: int) -> list[int]:
    """Return those that matter, and about as many as are asked for; most of them do not."""
    if not arms or most <= 0 or not matter(arms):
        return []
    if len(arms) == 1:
        return list(arms)
    half = len(arms) // 2
    found = _those_that(matter, arms[:half], most)
    return found + _those_that(matter, arms[half:], most - len(found))


class Strange:
    """What one neighbour says of arms that have no place here.

    Parameters
    ----------
    replica : Replica
        The own state.
    order : Order
        The neighbour's arms.
    """

    def __init__(self, replica: Replica, order: Order) -> None:
        self.order = order
        self.arms = [arm for arm in order.arms if arm in order.gone - replica.purged]
        self._twin = cast("CooperativeAgent", order.twin)
        self._machine: Any = self._twin.machine if self.arms else None
        self._wide: CooperativeAgent | None = None
        if self.arms and not isinstance(self._machine, Attributed):
            self._wide = _wider(replica, 2 * len(order.arms))

    def pulled(self, values: Vector, arms: Sequence[int]) -> list[int]:
        """Return the arms, `MOST_UNNAMED` at most, of which a message tells pulls."""
        if not self.arms or not arms:
            return []
        wide = self._wide
        if wide is None:
            told = set().union(*map(self._pulled_in, self._rows(values)))
            return [arm for arm in arms if arm in told][:MOST_UNNAMED]
        places = {arm: at for at, arm in enumerate(self.order.arms)}

        def matter(arms: Sequence[int]) -> bool:
            same, moved = _two_orders(places, arms)
            there = wide.translated(values, self._twin, same)
            return there.tobytes() != wide.translated(values, self._twin, moved).tobytes()

        return _those_that(matter, arms, MOST_UNNAMED)

    def _rows(self, values: Vector) -> list[Vector]:
        try:
            return list(self._machine.rows(values))
        except InputError:
            return []  # of no such form, which is told when it is read

    def _pulled_in(self, row: Vector) -> set[int]:
        return set(pulled_columns(self._machine.registers, self.order.arms, row))

    def left(self, values: Vector, fields: Fields) -> tuple[Vector, Fields] | None:
        """Return a message without what tells of pulls of these arms; None if all of it does.

        The pulls of one author are told together, and so left out together.
        """
        if self._wide is not None:
            return None
        rows = self._rows(values)
        strange = set(self.arms)
        kept = [at for at, row in enumerate(rows) if not self._pulled_in(row) & strange]
        try:
            proofs = read_proofs(fields, len(rows))
        except InputError:
            return values, fields  # which is told when it is read
        fields = write_proofs([proofs[at] for at in kept], fields.certificates)
        return with_rows(values, np.array([rows[at] for at in kept])), fields
