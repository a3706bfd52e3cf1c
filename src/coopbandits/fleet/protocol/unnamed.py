"""Arms that neighbours have and nobody declared here: which of them get a place.

What is heard of an arm can be passed on once the arm has a place, without a name. Anybody may make
up arms, so places are bounded: a few are for arms that a neighbour just lists, most for those of
which it tells pulls, and where they run out, arms without pulls give them up: nothing is known of
those, so leaving them out loses nothing. A message that tells of pulls for which there is no place
is not acknowledged, so it comes again. So no pull is lost, and nobody is refused for the arms that
it lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from coopbandits.core.aggregate.entries import Attributed, with_rows
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.protocol.frames import Fields
from coopbandits.fleet.protocol.proofs import read_proofs, write_proofs
from coopbandits.fleet.storage.purging import PURGED, pulled_columns

if TYPE_CHECKING:
    from coopbandits.core.cooperative import CooperativeAgent
    from coopbandits.fleet.protocol.arms import Order
    from coopbandits.fleet.storage.replica import Replica

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
