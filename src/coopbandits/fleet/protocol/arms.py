"""Arms that agents have in different orders: vectors and signatures by the ids of arms.

The core knows arms by their places, and every agent has an order of its own: arms are added behind
those that it has, when it is told of them. A greeting tells the order, and vectors are brought into
the own one as they arrive. An entry is signed in a form that is the same in every order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from coopbandits.core.aggregate.entries import HEADER
from coopbandits.core.contract import Vector
from coopbandits.fleet.identity.notary import Notary
from coopbandits.fleet.protocol.frames import ARM_BYTES

if TYPE_CHECKING:
    from coopbandits.core.cooperative import CooperativeAgent
    from coopbandits.fleet.identity.notary import Author
    from coopbandits.fleet.storage.replica import Replica


def pack_arms(arms: Iterable[int]) -> bytes:
    """Return the ids of arms one after the other."""
    return b"".join(arm.to_bytes(ARM_BYTES, "big") for arm in arms)


def unpack_arms(data: bytes) -> list[int]:
    """Undo `pack_arms`."""
    parts = range(0, len(data), ARM_BYTES)
    return [int.from_bytes(data[at : at + ARM_BYTES], "big") for at in parts]


class Order(NamedTuple):
    """The arms of a neighbour's vectors.

    Attributes
    ----------
    num_arms : int
        How many there are.
    places : sequence of int
        Where they are among the own ones; empty where both are the same.
    twin : CooperativeAgent or None
        An agent with as many arms, where they are not.
    """

    num_arms: int
    places: Sequence[int]
    twin: CooperativeAgent | None


def order_of(replica: Replica, theirs: Sequence[int]) -> Order:
    """Return how a neighbour's arms, all of which are known here, lie among the own ones."""
    own = list(replica.arms)
    if list(theirs) == own:
        return Order(len(own), (), None)
    place = {arm: at for at, arm in enumerate(own)}
    twin = cast("CooperativeAgent", replica.make_agent((), {}, len(theirs)))
    return Order(len(theirs), [place[arm] for arm in theirs], twin)


def in_own_order(replica: Replica, order: Order, values: Vector) -> Vector:
    """Return a neighbour's vector with arms in the own order."""
    if order.twin is None:
        return values
    agent = cast("CooperativeAgent", replica.agent)
    return agent.translated(values, order.twin, order.places)


def signed_form(replica: Replica, bandit: int) -> Callable[[bytes], bytes]:
    """Return what turns an entry into what is signed: pulled arms by their ids, in that order."""
    arms = list(replica.arms)
    registers = cast("CooperativeAgent", replica.agent).machine.registers
    ascending = sorted(range(len(arms)), key=lambda at: arms[at])
    begin = b"bandit" + bandit.to_bytes(4, "big")

    def form(entry: bytes) -> bytes:
        row = np.frombuffer(entry)
        columns = registers.by_arm(row[HEADER:])
        parts = [begin, entry[: 8 * HEADER]]
        for at in ascending:
            column = columns[:, at]
            if column.any():
                parts += arms[at].to_bytes(ARM_BYTES, "big"), column.tobytes()
        return b"".join([*parts, registers.of_no_arm(row[HEADER:]).tobytes()])

    return form


class ArmNotary(Notary):
    """An agent's notary for the entries of one bandit."""

    def __init__(self, notary: Notary, form: Callable[[bytes], bytes]) -> None:
        self.notary, self.form = notary, form

    @property
    def authors(self) -> dict[bytes, Author]:  # type: ignore[override]  # those of all bandits
        """Everybody certified."""
        return self.notary.authors

    def refresh(self) -> None:
        """Read the files again if they have changed."""
        self.notary.refresh()

    def learn(self, certificate: bytes) -> bytes:
        """Keep an author's certificate."""
        return self.notary.learn(certificate)

    def sign(self, entry: bytes) -> bytes:
        """Return the proof of an own entry."""
        return self.notary.sign(self.form(entry))

    def author(self, proof: bytes) -> str | None:
        """Return who a proof says has signed."""
        return self.notary.author(proof)

    def holds(self, entry: bytes, proof: bytes) -> bool:
        """Return whether the author of a proof signed an entry."""
        return self.notary.holds(self.form(entry), proof)
