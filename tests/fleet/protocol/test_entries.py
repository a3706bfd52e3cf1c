"""Liars with a certificate: what they say of others is not believed, and their own is bounded."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from coopbandits.core.aggregate.claims import MAX_NUMBERS
from coopbandits.core.aggregate.entries import FORGET, HEADER, RENUMBER, Attributed, entry_number
from coopbandits.core.contract import Vector
from coopbandits.fleet.identity.certs import init_authority, issue, renew
from coopbandits.fleet.identity.notary import Notary, pack
from coopbandits.fleet.process.assemble import make_notary
from coopbandits.fleet.protocol.entries import BURST, EntryExchange, EntrySigner, signed_form
from coopbandits.fleet.protocol.frames import Fields, Stamp, encode_data
from tests.torture.world import World

from ..bandits import only

BANDIT = only(name="test", max_pulls_per_second=10.0, max_agents=10)
MOST = 10.0 * (1000.0 + 60.0)
LIAR, VICTIM = 1, 0
"""Agents on a path 0 – 1 – 2 – 3, so that the liar passes on what 0 and the others say."""


def fleet(certificates: Path, graph: nx.Graph[int] | None = None) -> World:
    world = World(BANDIT, graph or nx.path_graph(4), certificates=certificates)
    for _ in range(5):
        world.step()
    return world


def machine(world: World, agent: int) -> Attributed:
    found = world.replica(agent).agent.machine  # type: ignore[attr-defined]  # flooded totals
    assert isinstance(found, Attributed)
    return found


def exchange(world: World, agent: int) -> EntryExchange:
    entries = world.session(agent).entries
    assert entries is not None
    return entries


def stamp_of(world: World, sender: int, round_: int) -> Stamp:
    start = world.node(sender).settings.incarnation
    return Stamp(2, BANDIT.cluster.epoch, round_, start, BANDIT.number)


def row(number: float, worst: float, best: float = 0.0, rounds: float = 5.0) -> list[float]:
    """Return an entry of pulls of arm 0, which paid nothing, and of arm 1, which paid all."""
    return [number, rounds, 0.0, best, worst, best]


def notary_of(world: World, agent: int) -> EntrySigner:
    """Return what signs entries with the certificate that an agent has by now.

    A liar signs also what has no form in which it could be signed.
    """
    form = signed_form(world.replica(agent), BANDIT.number)
    notary = make_notary(world.config(agent))
    return EntrySigner(notary, lambda entry, left: form(entry, left) or entry)


def tell(
    world: World, receiver: int, *rows: list[float], sender: int = LIAR, signer: int | None = LIAR
) -> None:
    """Let an agent send entries, signed by any of the agents, or by none."""
    replica = world.replica(sender)
    replica.rounds += 1  # so that its next message is newer
    rounds = replica.rounds
    values = np.array([float(rounds), 0.0, *(value for each in rows for value in each)])
    fields = None
    if signer is not None:
        by = notary_of(world, signer)
        proofs = b"".join(by.sign(np.array(each).tobytes()) for each in rows)
        fields = Fields(proofs, pack([each.certificate for each in by.notary.authors.values()]))
    stamp = stamp_of(world, sender, rounds)
    world.shells[receiver].received(f"n{sender}", encode_data(stamp, values, fields))


def number(world: World, agent: int) -> int:
    return machine(world, agent).number


def known(world: World, agent: int, of: float) -> Vector | None:
    return machine(world, agent).entry(of)


def pulls_known(world: World, agent: int, of: float) -> float:
    found = known(world, agent, of)
    return float(found[HEADER + 2 :].sum()) if found is not None else 0.0


def settle(world: World, steps: int = 40) -> None:
    world.heal()
    for _ in range(steps):
        world.step()


def test_one_lie_does_not_silence_honest_neighbours(certificates: Path) -> None:
    """A lie about one agent to each victim, and all of them still learn from everybody."""
    world = fleet(certificates, nx.complete_graph(4))
    for victim in (0, 2, 3):
        for about in (0, 2, 3):
            tell(world, victim, row(number(world, about), MOST * 0.9))
    settle(world, 5)
    for word in range(8):
        for agent in world.graph:
            world.pull(agent, word * 77, 1.0 if word % 2 else 0.25)
        world.step()
    settle(world)
    for agent in world.graph:
        for about in world.graph:
            assert pulls_known(world, agent, number(world, about)) == 8
        np.testing.assert_allclose(world.totals(agent), world.acknowledged)


def test_nobody_speaks_for_others(certificates: Path) -> None:
    world = fleet(certificates)
    world.pull(VICTIM, 1, 1.0)
    settle(world)
    about = number(world, VICTIM)
    before = [machine(world, agent).held() for agent in world.graph]
    for signer in (LIAR, None):
        tell(world, 2, row(about, 500.0), signer=signer)
        assert world.node(2).refusals["forged"] > 0
        settle(world)
    assert [machine(world, agent).held() for agent in world.graph] == before


@pytest.mark.parametrize("spoil", ["entry", "signature", "certificate", "missing", "no more"])
def test_whatever_is_changed_in_a_signed_message_it_is_refused(
    spoil: str, certificates: Path
) -> None:
    world = fleet(certificates)
    by = notary_of(world, LIAR)
    said = np.array(row(number(world, LIAR), 3.0, 2.0))
    proof, papers = (
        by.sign(said.tobytes()),
        [each.certificate for each in by.notary.authors.values()],
    )
    if spoil == "entry":
        said[4] += 1.0
    elif spoil == "signature":
        proof = proof[:-1] + bytes([proof[-1] ^ 1])
    elif spoil == "certificate":
        papers[0] = papers[0][:-1] + bytes([papers[0][-1] ^ 1])
        proof = bytes(8) + proof[8:]
    elif spoil == "missing":
        proof = b""
    else:
        proof += proof
    stamp = stamp_of(world, LIAR, 10**6)
    data = encode_data(stamp, np.array([9.0, 0.0, *said]), Fields(proof, pack(papers)))
    before = world.replica(2).agent.export_state()
    world.shells[2].received("n1", data)
    refused = world.node(2).refusals
    assert refused["forged"] + refused["impossible"] == 1
    world.now += 1.0
    world.shells[2].tick()
    after = world.replica(2).agent.export_state()
    assert after["aggregation"]["entries"] == before["aggregation"]["entries"]


def test_a_silent_neighbour_does_not_silence_others(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New pulls wait for what neighbours know, but not for ever."""
    world = fleet(certificates)
    world.crash(2)
    world.restart(2)
    world.pull(2, 1, 1.0)
    world.connect()
    monkeypatch.setattr(world.node(LIAR), "tick", lambda now: None)  # it beats, and says nothing
    for _ in range(60):
        world.step()
    assert pulls_known(world, 3, number(world, 2)) == 1


@pytest.mark.parametrize("number_told", [-5.0, 1e300, 2.0**70])
def test_absurd_numbers_of_messages_hurt_nobody_else(
    number_told: float, certificates: Path
) -> None:
    world = fleet(certificates)
    stamp = stamp_of(world, LIAR, world.replica(LIAR).rounds + 1)
    for at in (0, 1):
        values = np.array([1.0, 1.0])
        values[at] = number_told
        world.shells[2].received("n1", encode_data(stamp, values))
        world.now += 1.0
        world.shells[2].tick()
    world.cut_link(LIAR, 2)
    world.pull(0, 1, 1.0)
    world.pull(3, 1, 1.0)
    settle(world)
    for agent in world.graph:
        np.testing.assert_allclose(world.totals(agent), world.acknowledged)


def test_orders_are_given_by_nobody_else(certificates: Path) -> None:
    world = fleet(certificates)
    world.pull(VICTIM, 1, 1.0)
    settle(world)
    before = machine(world, 2).held()
    for order in (FORGET, RENUMBER):
        tell(world, 2, row(number(world, VICTIM), 0.0, rounds=order))
        tell(world, 2, row(number(world, LIAR), 0.0, rounds=order))
    settle(world)
    assert machine(world, 2).held() == before
    assert machine(world, 2).number == number(world, 2)


def test_a_liar_is_believed_within_the_rate_and_no_further(certificates: Path) -> None:
    world = fleet(certificates)
    mine = number(world, LIAR)
    tell(world, 2, row(mine, 2 * MOST))
    world.step()
    assert pulls_known(world, 2, mine) < MOST
    assert world.node(2).refusals["impossible"] == 1
    numbers = [entry_number(LIAR, generation) for generation in range(50)]
    for generation in numbers:
        tell(world, 2, row(generation, 0.2 * MOST))
        world.step()
    total = sum(pulls_known(world, 3, each) for each in {mine, *numbers})
    assert 0.5 * MOST < total <= MOST + 10.0 * (world.now - 1_800_000_000), "all together"


def test_only_certified_authors_count_as_agents(certificates: Path) -> None:
    """Ten agents may be; a liar invents twenty, and newcomers are not shut out."""
    world = fleet(certificates)
    for stranger in range(100, 120):
        tell(world, 2, row(entry_number(stranger, 0), 1.0))
        world.step()
    settle(world)
    assert len(machine(world, 2).held()) == 4
    for victim in (0, 2, 3):
        world.crash(victim)
        world.restart(victim)
    settle(world)
    assert len(machine(world, 3).held()) == 4


def test_proofs_of_an_authors_many_numbers_do_not_pile_up(certificates: Path) -> None:
    """Pulls that are too many to be believed, each time under another number."""
    world = fleet(certificates)
    for lap in range(2):
        for k in range(lap * MAX_NUMBERS, (lap + 2) * MAX_NUMBERS):
            tell(world, 2, row(entry_number(LIAR, k), 2 * MOST))
            world.step(seconds=1.0)
        assert len(world.replica(2).proofs) <= MAX_NUMBERS + 4, f"after {lap} restarts"
        world.crash(2)
        settle(world, 5)


def test_checking_signatures_is_bounded(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever publishes faster than it may is checked at twice that rate, and heard again later."""
    world = fleet(certificates)
    checked = 0
    holds = Notary.holds

    def counted(self: Notary, entry: bytes, proof: bytes) -> bool:
        nonlocal checked
        checked += 1
        return holds(self, entry, proof)

    monkeypatch.setattr(Notary, "holds", counted)
    for pulls in range(1, 200):
        tell(world, 2, row(number(world, LIAR), float(pulls)))
    assert checked <= BURST + 1
    held = known(world, 2, number(world, LIAR))
    assert held is None or held[4] == 0
    world.now += 5.0
    tell(world, 2, row(number(world, LIAR), 199.0))
    world.shells[2].tick()
    assert pulls_known(world, 2, number(world, LIAR)) == 199


def test_the_same_entry_is_checked_once(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = fleet(certificates, nx.complete_graph(4))
    checked: list[bytes] = []
    holds = Notary.holds

    def noted(self: Notary, entry: bytes, proof: bytes) -> bool:
        checked.append(self.node.encode() + entry)
        return holds(self, entry, proof)

    monkeypatch.setattr(Notary, "holds", noted)
    for word in range(5):
        for agent in world.graph:
            world.pull(agent, word, 0.5)
        settle(world, 10)
    assert len(checked) == len(set(checked)) > 4 * 3 * 4


def test_authors_sign_no_more_often_than_they_may(certificates: Path) -> None:
    world = fleet(certificates)
    signed: set[bytes] = set()
    for word in range(100):
        world.pull(0, word, 0.5)
        world.step()
        published = exchange(world, 0).published
        assert published is not None
        signed.add(published.proof)
    assert 15 <= len(signed) <= 22, "5 seconds, 4 a second"
    settle(world)
    np.testing.assert_allclose(world.totals(3), world.acknowledged)


def test_a_certificate_is_sent_once_per_author_and_link(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(BANDIT, nx.path_graph(4), certificates=certificates)
    sent: list[tuple[int, int, int]] = []
    post = world.post

    def noted(sender: int, receiver: int, data: bytes) -> bool:
        for author in range(4):
            found = (certificates / f"n{author}.pem").read_text()
            if data.count(der(found)):
                sent.append((sender, receiver, author))
        return post(sender, receiver, data)

    monkeypatch.setattr(world, "post", noted)
    for word in range(40):
        world.pull(word % 4, word, 0.5)
        world.step()
    assert len(sent) == len(set(sent))
    assert {(1, 2, 0), (2, 3, 0), (2, 1, 3)} <= set(sent)


def der(pem: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem)


def test_a_renewed_certificate_or_key_changes_nothing(certificates: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(certificates, tmp_path / "certificates")
    world = fleet(folder)
    world.pull(0, 1, 0.5)
    settle(world)
    renew(folder, everything=True)
    world.pull(0, 2, 0.5)
    settle(world)
    issue(folder, ["n0"], force=True)
    world.pull(0, 3, 0.5)
    settle(world)
    for agent in world.graph:
        np.testing.assert_allclose(world.totals(agent), world.acknowledged)
        assert not world.node(agent).refusals


def test_another_authority_changes_nothing(certificates: Path, tmp_path: Path) -> None:
    """What is held without a proof that holds is proven again by its author."""
    world = fleet(certificates)
    for word in range(6):
        for agent in world.graph:
            world.pull(agent, word, 0.5)
        world.step()
    settle(world)
    init_authority(tmp_path)
    issue(tmp_path, [f"n{agent}" for agent in world.graph])
    world.certificates = tmp_path
    for agent in world.graph:
        world.crash(agent)
    settle(world)
    for agent in world.graph:
        world.pull(agent, 9, 0.5)
    settle(world)
    assert len(exchange(world, 3).book.known) == 3, "all others are proven again"
    for agent in world.graph:
        np.testing.assert_allclose(world.totals(agent), world.acknowledged)
    assert not world.node(3).refusals


def test_a_message_without_a_header_is_refused_while_a_former_start_is_acknowledged(
    certificates: Path,
) -> None:
    world = fleet(certificates)
    settle(world)
    peer, refused = world.session(VICTIM).peers[LIAR], world.node(VICTIM).refusals["impossible"]
    peer.former = 7
    stamp = stamp_of(world, LIAR, peer.heard_round + 1)
    world.shells[VICTIM].received(f"n{LIAR}", encode_data(stamp, np.zeros(1)))
    assert world.node(VICTIM).refusals["impossible"] == refused + 1
    assert peer.met
