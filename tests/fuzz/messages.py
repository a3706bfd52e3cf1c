"""Messages: what a neighbour with a certificate says once it has been greeted.

The first byte of an input picks a policy. The rest spells messages: raw bytes, any vectors, and
edits of what an honest neighbour would have sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import networkx as nx
import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.notary import pack
from coopbandits.fleet.protocol import frames
from coopbandits.fleet.protocol.entries import EntrySigner, write_proofs
from coopbandits.fleet.protocol.frames import Fields, Stamp
from coopbandits.fleet.protocol.gossip import Session
from tests.torture.world import World

from ..fleet.bandits import only
from .target import Check, Spelling, Target

VICTIM, LIAR = 0, 1
POLICIES = ("flood-ts", "tree-ts", "gossip-ts", "dec-ts", "dducb")
TOLD: dict[str, dict[str, Any]] = {
    "dec-ts": {"num_agents": 2},
    "dducb": {"num_agents": 2, "lambda_bound": 0.6},
}
VALUES = (
    0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 10.0, 100.0, 1e4, 1e6, 1e15, 2.0**52, 2.0**52 + 1, 2.0**53,
    2.0**52 + 4096, 2.0**52 + 4097,
    2.0**63, 1e150, 1e151, 1e300, 1.7e308, 5e-324, 1e-300, 1e-12, -0.0, -1e300, np.inf, -np.inf,
    np.nan,
)  # fmt: skip


def seeds() -> list[bytes]:
    said = (
        (0, 4, 0x6261, 0x6463),  # no frame
        (1, 1, 6, *range(6)),  # a vector of six values
        (2, 1, 0),  # what an honest agent says
        (2, 1, 2, 2, 17, 3, 17, 2, 3, 1, 1, 4),  # that with values changed, twice
        (3, 1, 0, 4, 0x6261, 0x6463, 2, 0x6665),  # that with fields beside it
    )
    return [
        b"".join(word.to_bytes(2, "little") for word in (policy, *words))
        for policy in range(len(POLICIES))
        for words in said
    ]


class Listening:
    """Tries inputs on agents of their own, two of them."""

    def world(self, policy: str) -> World:
        told = TOLD.get(policy, {})
        bandit = only(policy, max_agents=20, max_pulls_per_second=10.0, **told)
        world = World(bandit, nx.path_graph(2))
        for agent in world.graph:
            world.pull(agent, agent, 0.5)
        for _ in range(2):
            world.step()
        return world

    def __call__(self, data: bytes) -> None:
        how = Spelling(data)
        world = self.world(POLICIES[how.number(256 * len(POLICIES)) % len(POLICIES)])
        while not how.is_over:
            for message in said(world, how):
                world.shells[VICTIM].received(f"n{LIAR}", message)
                world._break()
            world.step()
        self.require_unharmed(world)

    def require_unharmed(self, world: World) -> None:
        assert world.replica(VICTIM).own_counts.sum() == 1, "its own pulls have changed"
        assert np.isfinite(world.totals(VICTIM)).all(), "not finite"
        bound = world.cluster.most_agents * 10.0 * (world.now - world.cluster.epoch + 60)
        assert abs(world.totals(VICTIM)).max() <= 1.5 * bound, "beyond what can have happened"
        assert world.pull(VICTIM, 7, 0.5) is not None
        before = world.totals(VICTIM)
        world.crash(VICTIM)
        world.restart(VICTIM)
        assert world.replica(VICTIM).own_counts.sum() == 2
        assert np.allclose(world.totals(VICTIM), before, rtol=1e-9), "a restart changes it"
        for _ in range(2):
            world.step()


def said(world: World, how: Spelling) -> list[bytes]:
    """Return frames with a right stamp, or no frames at all."""
    op = how.number(1 << 16) % 4
    if op == 0:
        return [how.piece(how.number(300))]
    session, start = world.session(LIAR), world.node(LIAR).settings.incarnation
    round_ = session.replica.rounds + how.number(4)
    stamp = Stamp(2, world.cluster.epoch, round_, start, session.bandit.number)
    if op == 1:
        values: Vector | None = np.array([value(how) for _ in range(how.number(60))])
    else:
        values = honest(world)
        for _ in range(how.number(5)):
            if values is not None and len(values):
                values[how.number(len(values))] = value(how)
    if op == 3:
        fields = Fields(how.piece(how.number(200)), how.piece(how.number(200)))
        return [frames.encode_data(stamp, values, fields)]
    return [frames.encode_data(stamp, values, signed(session, values))]


def signed(session: Session, values: Vector | None) -> Fields | None:
    """Return the liar's proofs of all that is told, where entries are proven."""
    entries = session.entries
    if entries is None or values is None:
        return None
    try:
        rows = entries.machine.rows(values)
    except InputError:
        return None
    form = entries.signer.form
    by = EntrySigner(entries.signer.notary, lambda entry, left: form(entry, left) or entry)
    certificates = pack([author.certificate for author in by.notary.authors.values()])
    return write_proofs([by.sign(row.tobytes()) for row in rows], certificates)


def honest(world: World) -> Vector | None:
    found = world.replica(LIAR).agent.outgoing(VICTIM)
    return None if found is None else found.copy()


def value(how: Spelling) -> float:
    at = how.number(1 << 16) % (len(VALUES) + 2)
    return float(VALUES[at]) if at < len(VALUES) else float(how.number(1 << 20))


@contextmanager
def opened() -> Iterator[Check]:
    yield Listening()


MESSAGES = Target(
    "messages",
    "whatever a neighbour says, own pulls stay, totals stay within what can have happened, the "
    "agent chooses, and its journal opens to the same state",
    seeds,
    opened,
)
