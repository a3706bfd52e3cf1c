"""Arms that agents have in different orders, or do not all have.

The core knows arms by their places, and every agent has an order of its own: new arms are added
behind those that it has. A greeting gives the order, and vectors are brought into the receiver's
order as they arrive. An entry is signed in a form that is the same in every order
(`entries.signed_form`). What a neighbour says of arms that were purged here is added up
(`fleet.storage.purging`).

What is heard of an arm that is not declared here can be passed on once the arm has a place, without
a name; such an arm is not chosen. A liar may make up arms, so places are bounded: a few are for
arms that a neighbour just lists, most for those with pulls. Where they run out, arms without pulls
give theirs up: nothing is known of those, so leaving them out loses nothing. A message with pulls
for which there is no place is not acknowledged, so it comes again. So no pull is lost, and no
neighbour is rejected for the arms that it lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from coopbandits.core.aggregate.entries import Attributed, with_rows
from coopbandits.core.contract import FleetAgent, State, Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.notary import PROOF
from coopbandits.fleet.protocol.entries import read_proofs, write_proofs
from coopbandits.fleet.protocol.frames import ARM_BYTES, Fields
from coopbandits.fleet.storage.purging import PURGED, pulled_columns, remainder, take_back

if TYPE_CHECKING:
    from coopbandits.core.cooperative import CooperativeAgent
    from coopbandits.fleet.storage.eras import Gossiped

MOST_UNNAMED = 100
"""Most arms of one bandit that are added from neighbours without being declared here."""

MOST_LISTED = 20
"""Up to this number of them, arms are added before a neighbour tells of pulls."""


def pack_arms(arms: Iterable[int]) -> bytes:
    """Return the ids of arms one after the other."""
    return b"".join(arm.to_bytes(ARM_BYTES, "big") for arm in arms)


def unpack_arms(data: bytes) -> list[int]:
    """Undo `pack_arms`."""
    parts = range(0, len(data), ARM_BYTES)
    return [int.from_bytes(data[at : at + ARM_BYTES], "big") for at in parts]


class PeerArms:
    """The arms of one neighbour's vectors, and where they are among the replica's.

    Parameters
    ----------
    replica : Gossiped
        The own state.
    ids : sequence of int
        The neighbour's arms, in the order of its vectors.

    Attributes
    ----------
    twin : CooperativeAgent or None
        An agent with as many arms, if the two orders differ.
    foreign : list of int
        The arms that have no place here.
    """

    def __init__(self, replica: Gossiped, ids: Sequence[int]) -> None:
        self.replica, self.ids = replica, ids
        self.twin: CooperativeAgent | None = None
        self.foreign: list[int] = []
        self._wide: CooperativeAgent | None = None
        own = list(replica.arms)
        if list(ids) == own:
            return
        place = {arm: at for at, arm in enumerate(own)}
        self._gone = frozenset(arm for arm in ids if arm not in place)
        # Arms without a place are added up as purged ones are, once their pulls are left out.
        self._places = [place[PURGED if arm in self._gone else arm] for arm in ids]
        self.foreign = [arm for arm in ids if arm in self._gone - replica.purged]
        self.twin = twin = _cooperative(replica.make_agent((), {}, len(ids)))
        if self.foreign and not isinstance(twin.machine, Attributed):
            self._wide = _cooperative(replica.make_agent((), replica.degrees, 2 * len(ids)))

    def in_own_order(self, values: Vector, fields: Fields) -> tuple[Vector, Fields]:
        """Return a neighbour's vector with arms in the replica's order, and what stands beside."""
        agent = _cooperative(self.replica.agent)
        attributed = isinstance(agent.machine, Attributed)
        if self.twin is not None:
            if self._gone and fields.proofs and attributed:
                fields = self._with_remainders(self.twin, values, fields)
            values = agent.translated(values, self.twin, self._places)
        if fields.remainders and attributed and (found := _read_entries(agent, values, fields)):
            # Others may have purged arms that are known here: take their registers back.
            arms, registers = list(self.replica.arms), agent.machine.registers
            whole = [take_back(registers, arms, row, proof[PROOF:]) for row, proof in found]
            proofs = [
                proof[:PROOF] + left for (_, proof), (_, left) in zip(found, whole, strict=True)
            ]
            fields = write_proofs(proofs, fields.certificates)
            values = with_rows(values, np.array([row for row, _ in whole]))
        return values, fields

    def _with_remainders(self, twin: CooperativeAgent, values: Vector, fields: Fields) -> Fields:
        """Return fields by which entries can be proven without the arms that have no place here."""
        found, registers = _read_entries(twin, values, fields), twin.machine.registers
        if found is None:
            return fields
        proofs = [
            proof[:PROOF] + remainder(registers, self.ids, self._gone, row, proof[PROOF:])
            for row, proof in found
        ]
        return write_proofs(proofs, fields.certificates)

    def pulled(self, values: Vector, arms: Sequence[int]) -> list[int]:
        """Return the arms, `MOST_UNNAMED` at most, of which a message tells pulls."""
        twin, wide = self.twin, self._wide
        if twin is None or not self.foreign or not arms:
            return []
        if wide is None:
            try:
                rows = cast("Attributed", twin.machine).rows(values)
            except InputError:
                return []  # of another form: rejected when it is checked
            pulled = set().union(*(self._pulled_in(twin, row) for row in rows))
            return [arm for arm in arms if arm in pulled][:MOST_UNNAMED]
        places = {arm: at for at, arm in enumerate(self.ids)}

        def matter(arms: Sequence[int]) -> bool:
            same, moved = _two_orders(places, arms)
            there = wide.translated(values, twin, same)
            return there.tobytes() != wide.translated(values, twin, moved).tobytes()

        return _those_that(matter, arms, MOST_UNNAMED)

    def without_foreign(self, values: Vector, fields: Fields) -> tuple[Vector, Fields] | None:
        """Return a message without pulls of foreign arms; None if it cannot be split.

        The pulls of one author are told together, and so left out together.
        """
        twin, foreign = self.twin, set(self.foreign)
        if twin is None or self._wide is not None:
            return None
        found = _read_entries(twin, values, fields)
        if found is None:
            return values, fields
        kept = [(row, proof) for row, proof in found if not self._pulled_in(twin, row) & foreign]
        fields = write_proofs([proof for _, proof in kept], fields.certificates)
        return with_rows(values, np.array([row for row, _ in kept])), fields

    def _pulled_in(self, twin: CooperativeAgent, row: Vector) -> set[int]:
        return set(pulled_columns(twin.machine.registers, self.ids, row))


def _read_entries(
    agent: CooperativeAgent, values: Vector, fields: Fields
) -> list[tuple[Vector, bytes]] | None:
    """Return a message's entries with their proofs; None if they have another form.

    Such a message is left as it is: it is rejected when its entries are checked.
    """
    try:
        rows = cast("Attributed", agent.machine).rows(values)
        return list(zip(rows, read_proofs(fields, len(rows)), strict=True))
    except InputError:
        return None


def room_for(replica: Gossiped, most: int) -> int:
    """Return how many more arms may have a place; one is for all that have none."""
    unnamed = sum(not name for arm, name in replica.arms.items() if arm != PURGED)
    return max(0, most - 1 - unnamed)


def idle_arms(replica: Gossiped) -> list[int]:
    """Return the arms without a name that have no pulls, so that others may take their places."""
    unnamed = [arm for arm, name in replica.arms.items() if not name and arm != PURGED]
    places, pulled = {arm: at for at, arm in enumerate(replica.arms)}, set[int]()
    for agent, make in replica.holders:
        before = _cooperative(agent)
        state, neighbors = before.export_state(), list(before.view.neighbor_weights)
        wide = _cooperative(make(neighbors, replica.degrees, len(places) + len(unnamed)))

        def matter(
            arms: Sequence[int],
            before: CooperativeAgent = before,
            state: State = state,
            wide: CooperativeAgent = wide,
        ) -> bool:
            same, moved = _two_orders(places, arms)
            there = wide.rearranged(state, before, same)
            return bool(there != wide.rearranged(state, before, moved))

        pulled |= set(_those_that(matter, unnamed, len(unnamed)))
    return [arm for arm in unnamed if arm not in pulled]


def _cooperative(agent: FleetAgent) -> CooperativeAgent:
    return cast("CooperativeAgent", agent)  # only their arms can change: config.eligibility


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


def _those_that(
    matter: Callable[[Sequence[int]], bool], arms: Sequence[int], most: int
) -> list[int]:
    """Return the arms whose place matters, about `most` of them, by bisection: most do not."""
    if not arms or most <= 0 or not matter(arms):
        return []
    if len(arms) == 1:
        return list(arms)
    half = len(arms) // 2
    found = _those_that(matter, arms[:half], most)
    return found + _those_that(matter, arms[half:], most - len(found))
