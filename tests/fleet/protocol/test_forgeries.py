"""What relays and authors do to signed entries: what nobody has signed is not believed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import networkx as nx
import numpy as np
import pytest

from coopbandits.core import ArmSums
from coopbandits.core.aggregate.entries import AUTHORED, HEADER, entry_number
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.fleet.config.bandits import MAX_ARMS, Arm
from coopbandits.fleet.identity.certs import issue
from coopbandits.fleet.identity.notary import PROOF, pack
from coopbandits.fleet.process.assemble import make_notary
from coopbandits.fleet.protocol.entries import (
    BURST,
    EntryExchange,
    EntrySigner,
    ForgedError,
    Proven,
    signed_form,
)
from coopbandits.fleet.protocol.frames import (
    Fields,
    Greeting,
    Stamp,
    encode_data,
    encode_greeting,
)
from coopbandits.fleet.protocol.gossip import Session
from coopbandits.fleet.protocol.peers import SessionPeer
from coopbandits.fleet.storage.disk import MemoryDisk
from coopbandits.fleet.storage.purging import PURGED, signed_columns
from tests.torture.world import World

from ..bandits import BUTTON, Many, bandit, both, only
from ..bandits import CLUSTER as SHOP
from .test_entries import (
    BANDIT,
    LIAR,
    VICTIM,
    exchange,
    machine,
    number,
    row,
    settle,
    tell,
)

HONEST = 2

Change = Callable[[Session, Vector], tuple[Vector, bytes]]
"""Returns an entry as a relay has changed it, and what it puts behind the proof."""


@pytest.mark.parametrize("strange", [-1e300, 1e300, 2.0 * AUTHORED, AUTHORED - 1.0, LIAR, -1.0])
def test_an_entry_of_no_possible_number_changes_nothing(strange: float, certificates: Path) -> None:
    world = World(BANDIT, nx.path_graph(3), certificates=certificates)
    settle(world, 5)
    tell(world, VICTIM, row(strange, 1.0))
    assert world.node(VICTIM).refusals == {"impossible": 1}
    settle(world, 5)
    world.crash(VICTIM)
    world.restart(VICTIM)
    settle(world)
    assert strange not in machine(world, VICTIM).held()


# Several bandits: entries are signed by the ids of arms


def shop(certificates: Path, **button: object) -> Many:
    declared = both(SHOP, **{"policy": "flood-ts", "arms": ["red", "green", "blue"]} | button)
    world = Many(nx.complete_graph(3), SHOP, certificates=certificates, declared=declared)
    world.steps(60)
    return world


def entries(world: Many, agent: int) -> EntryExchange:
    found = world.session(agent).entries
    assert found is not None
    return found


def pull(world: Many, arm: str) -> None:
    choice = world.of(VICTIM).bandit("button").choose([arm])
    world.reward(VICTIM, "button", choice.ticket, 0.7)


def purge_red(world: Many) -> None:
    """Retire it first: only what is retired can be purged."""
    for more in ({}, {"purged": ["red"]}):
        declared = both(SHOP, policy="flood-ts", arms=["green", "blue"], **more)
        for agent in world.graph:
            world.take(agent, declared)
        world.steps(40)


def send_back(world: Many, change: Change) -> None:
    """Let a relay tell an author its own entry, changed, with the proof that it has."""
    here, there = world.session(LIAR), world.session(VICTIM)
    known = entries(world, LIAR).book.known[float(entries(world, VICTIM).machine.number)]
    entry, left = change(here, np.frombuffer(known.entry).copy())
    round_ = there.peers[LIAR].heard_round + 1
    here.replica.rounds += 2  # so that its next message is newer
    notary = entries(world, LIAR).signer.notary
    fields = Fields(
        known.proof[:PROOF],
        pack([each.certificate for each in notary.authors.values()]),
        [left] if left else [],
    )
    stamp = Stamp(
        len(here.arms), SHOP.epoch, round_, world.node(LIAR).settings.incarnation,
        here.bandit.number,
    )  # fmt: skip
    data = encode_data(stamp, np.concatenate([[float(round_), 0.0], entry]), fields)
    world.shells[VICTIM].received(f"n{LIAR}", data)


def with_signed_zeros(here: Session, entry: Vector) -> tuple[Vector, bytes]:
    del here
    entry[HEADER:][entry[HEADER:] == 0.0] = -0.0
    return entry, b""


def with_other_squares(here: Session, entry: Vector) -> tuple[Vector, bytes]:
    arms = len(here.arms)
    entry[HEADER + 2 * arms : HEADER + 3 * arms] += 1.0
    return entry, b""


def with_another_lump(here: Session, entry: Vector) -> tuple[Vector, bytes]:
    """Change the sum of what was purged by what rounding may do, and prove it by the right one."""
    at = list(here.replica.arms).index(PURGED)
    right = here.replica.agent.machine.registers.by_arm(entry[HEADER:])[:, at].tobytes()  # type: ignore[attr-defined]  # made of parts
    entry[HEADER + at] *= 1.0 + 3e-10
    return entry, msgspec.msgpack.encode({PURGED: right})


@pytest.mark.parametrize(
    ("policy", "change"),
    [("flood-ts", with_signed_zeros), ("flood-ts:spread=estimate", with_other_squares)],
)
def test_an_author_knows_its_entry_whatever_a_relay_has_done_to_it(
    policy: str, change: Change, certificates: Path
) -> None:
    world = shop(certificates, policy=policy)
    pull(world, "red")
    world.steps(40)
    before = entries(world, VICTIM).machine.number
    for _ in range(3):
        send_back(world, change)
        world.steps(20)
        pull(world, "red")
        world.steps(20)
    assert entries(world, VICTIM).machine.number == before
    assert world.node(VICTIM).refusals["forged"] == 3
    assert world.learned(HONEST)["button", "red"] == world.counts["button", "red"] == 4


def test_a_proof_holds_for_one_bandit(certificates: Path) -> None:
    """Also where another one has the same arms and settings."""
    declared = {name: bandit(name, BUTTON) for name in ("one", "two")}
    world = Many(nx.path_graph(2), certificates=certificates, declared=declared)
    notary, entry = make_notary(world.config(0)), np.array(row(1.0, 3.0)).tobytes()
    one, two = (
        EntrySigner(notary, signed_form(world.node(0).bandits.replicas[each.number], each.number))
        for each in declared.values()
    )
    proof = one.sign(entry)
    assert one.holds(entry, proof)
    assert not two.holds(entry, proof)


def test_an_author_knows_its_entry_where_arms_are_purged(certificates: Path) -> None:
    world = shop(certificates)
    for _ in range(3):
        pull(world, "red")
        world.steps(10)
    purge_red(world)
    pull(world, "green")
    world.steps(40)
    before = entries(world, VICTIM).machine.number
    send_back(world, with_another_lump)
    world.steps(40)
    assert entries(world, VICTIM).machine.number == before
    assert sum(world.learned(HONEST).values()) == sum(world.counts.values()) == 4


def test_what_one_neighbour_greets_and_tells_in_a_round_does_not_pile_up(
    certificates: Path,
) -> None:
    world = shop(certificates)
    pull(world, "red")
    world.steps(40)
    here, peer = world.session(LIAR), f"n{LIAR}"
    told = list(entries(world, LIAR).book.known.values())
    values = np.concatenate([np.frombuffer(each.entry) for each in told])
    fields = Fields(b"".join(each.proof for each in told), b"")
    arms = b"".join(arm.to_bytes(8, "big") for arm in here.arms)
    for turn in range(20):
        then, now = (
            Stamp(
                len(here.arms), SHOP.epoch, 1000 + turn + later,
                world.node(LIAR).settings.incarnation, here.bandit.number,
            )
            for later in (0, 1)
        )  # fmt: skip
        greeting = Greeting(here.bandit.name, here.bandit.digest, arms, 1000 + turn)
        message = np.concatenate([[1001.0 + turn, 0.0], values])
        world.shells[VICTIM].received(peer, encode_greeting(then, greeting))
        world.shells[VICTIM].received(peer, encode_data(now, message, fields))
    waiting = sum(map(len, entries(world, VICTIM).orders.rows.values()))
    assert waiting <= len(told)


# Registers of sites


@pytest.mark.parametrize("strange", [np.nan, np.inf, 1.79e308, 1e149, -1.0])
def test_an_author_cannot_tell_of_sites_what_cannot_be(strange: float, certificates: Path) -> None:
    declared = replace(BANDIT, policy="flood-ts:spread=estimate")
    world = World(declared, nx.path_graph(3), certificates=certificates)
    settle(world, 5)
    mine = float(number(world, LIAR))

    def entry(pulls: float) -> list[float]:
        squares = [pulls * pulls] * 2
        return [mine, 5.0, 0.0, pulls, pulls, pulls, *squares, pulls, pulls, 2.0]

    places = range(HEADER + 4, len(entry(1.0)))
    for pulls, at in enumerate(places, start=1):
        told = entry(float(pulls))
        told[at] = strange
        tell(world, VICTIM, told)
    assert sum(world.node(VICTIM).refusals.values()) == len(places)
    settle(world, 3)
    assert machine(world, VICTIM).held().get(mine, 0.0) == 0.0
    tell(world, VICTIM, entry(9.0))
    settle(world, 3)
    assert machine(world, VICTIM).held()[mine] == 18.0


# More entries than agents, and more certificates


def test_more_entries_than_fit_into_a_message_are_told_in_turn(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An author may have many numbers; after it has gone, others still tell each other all."""
    declared = only(name="test", max_pulls_per_second=10.0, max_agents=4)
    world = World(declared, nx.path_graph(4), certificates=certificates)
    settle(world)
    for generation in range(12):
        tell(world, 1, row(entry_number(0, generation + 7), 1.0), sender=0, signer=0)
        settle(world, 8)
    world.cut_link(0, 1)
    most = declared.cluster.most_agents * (HEADER + 4)
    assert len(machine(world, 2).held()) > declared.cluster.most_agents
    world.crash(3)
    world.disks[3] = MemoryDisk()
    world.restart(3)
    sizes, sender = [], exchange(world, 2)
    usual = sender.outgoing

    def weighed(peer: SessionPeer, values: Vector) -> tuple[Vector, Fields | None]:
        found = usual(peer, values)
        sizes.append(found[0].size)
        return found

    monkeypatch.setattr(sender, "outgoing", weighed)
    for _ in range(60):
        world.step()
    assert machine(world, 3).held().items() >= machine(world, 2).held().items()
    assert max(sizes) <= HEADER + most


def test_certificates_of_before_make_room_for_renewed_ones(
    certificates: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "certificates"
    shutil.copytree(certificates, folder)
    declared = only(name="test", max_pulls_per_second=10.0, max_agents=4)
    world = World(declared, nx.complete_graph(4), certificates=folder)
    settle(world)
    for turn in range(4):
        for agent in world.graph:
            world.pull(agent, turn * 77 + agent, 0.5)
        settle(world, 20)
        issue(folder, [f"n{agent}" for agent in world.graph], force=True)
    for agent in world.graph:
        world.crash(agent)
        world.restart(agent)
    settle(world)
    for agent in world.graph:
        assert world.totals(agent)[2:].sum() == world.acknowledged[2:].sum() == 16
        assert not world.node(agent).refusals
        assert len(exchange(world, agent).signer.notary.authors) <= 2 * declared.cluster.most_agents


def test_what_a_dead_agent_told_is_proven_however_often_others_renew(
    certificates: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "certificates"
    shutil.copytree(certificates, folder)
    declared = only(name="test", max_pulls_per_second=10.0, max_agents=4)
    world = World(declared, nx.complete_graph(4), certificates=folder)
    world.pull(3, 5, 1.0)
    settle(world)
    gone = float(number(world, 3))
    world.crash(3)
    for turn in range(12):
        issue(folder, ["n0"], force=True)
        world.pull(0, turn, 0.5)
        for _ in range(20):
            world.step()
    latest = make_notary(world.config(0)).fingerprint
    assert exchange(world, 0).signer.notary.fingerprint == latest, "that of the last renewal"
    replica = world.replica(2)
    assert len(replica.certificates) <= 2 * len(replica.proofs) + 1
    world.crash(2)
    world.restart(2)
    book = exchange(world, 2).book
    assert book is not None
    assert {gone, float(number(world, 0))} <= book.known.keys()
    np.testing.assert_allclose(world.totals(2), world.acknowledged)


def test_of_the_same_that_was_signed_the_one_from_which_less_is_left_out_stays(
    certificates: Path,
) -> None:
    """A relay may leave out arms that the receiver does not know yet, and only until it does."""
    world = shop(certificates)
    for arm in ("red", "blue", "blue"):
        pull(world, arm)
        world.steps(10)
    purge_red(world)
    book, here = entries(world, HONEST).book, world.session(HONEST)
    assert book is not None
    true = book.known[float(entries(world, VICTIM).machine.number)]
    arms, hidden = list(here.replica.arms), np.frombuffer(true.entry).copy()
    columns = here.replica.agent.machine.registers.by_arm(hidden[HEADER:])  # type: ignore[attr-defined]  # made of parts
    blue, lump = (arms.index(arm) for arm in (Arm("blue", "blue").number, PURGED))
    assert columns[1, blue] == 2.0
    left = msgspec.msgpack.decode(true.proof[PROOF:]) if true.proof[PROOF:] else {}
    left = left or {PURGED: columns[:, lump].tobytes()}
    left[arms[blue]] = columns[:, blue].tobytes()
    columns[:, lump] += columns[:, blue]
    columns[:, blue] = 0.0
    proof = true.proof[:PROOF] + msgspec.msgpack.encode(dict(sorted(left.items())))
    told = Proven(hidden.tobytes(), true.version, proof)
    assert book.signer.holds(told.entry, told.proof)
    assert told.outranks(true) != true.outranks(told)
    assert book.replaces(true, told)
    assert not book.replaces(told, true)


def test_what_follows_a_proof_is_of_arms_that_were_pulled_and_not_of_too_many() -> None:
    registers, arms = ArmSums().registers(2), [7, PURGED]
    pulls = MAX_ARMS + 2.0
    entry = np.array([1.0, 1.0, 0.0, 0.0, 0.0, pulls])

    def signed(*columns: Vector) -> object:
        told = {100 + at: column.tobytes() for at, column in enumerate(columns)}
        return signed_columns(registers, arms, entry, msgspec.msgpack.encode(told))

    assert signed(np.array([0.0, pulls]))
    assert signed(np.array([0.0, pulls]), np.zeros(2)) is None
    few = [np.array([0.0, 1.0])] * (MAX_ARMS - 1)
    assert signed(*few, np.array([0.0, 3.0]))
    assert signed(*few, np.array([0.0, 1.0]), np.array([0.0, 2.0])) is None


def test_few_false_certificates_of_one_neighbour_are_looked_at(
    certificates: Path,
) -> None:
    world = World(BANDIT, nx.path_graph(2), certificates=certificates)
    book = exchange(world, 0).book
    assert book is not None
    strange = Fields(certificates=pack([b"no certificate"]))
    good = Fields(certificates=pack([each.certificate for each in book.notary.authors.values()]))
    for _ in range(int(BURST)):
        book.read(good, 0, 1, 0.0)
        with pytest.raises(InputError, match="cannot be read"):
            book.read(strange, 0, 1, 0.0)
    for fields in (strange, good):
        with pytest.raises(ForgedError, match="looked at"):
            book.read(fields, 0, 1, 0.0)
    assert book.read(Fields(), 0, 1, 0.0) == book.read(good, 0, 2, 0.0) == []
    assert book.read(good, 0, 1, 2.0) == []
