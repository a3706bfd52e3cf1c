"""What a neighbour can do with announcements and calls, and what it cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from msgspec import structs
from msgspec.msgpack import Decoder, encode

from coopbandits.fleet.identity.certs import init_authority, issue, request, sign_requests
from coopbandits.fleet.identity.notary import (
    FINGERPRINT,
    MAX_CERTIFICATE,
    Author,
    Notary,
    pack,
    unpack,
)
from coopbandits.fleet.protocol import frames
from coopbandits.fleet.protocol.calls import (
    MAX_HOPS,
    MAX_PLAIN,
    NO_ROUTE,
    RELAY_BURST,
    Answer,
    Call,
)
from coopbandits.fleet.protocol.frames import encode_answer, encode_call, encode_routes
from coopbandits.fleet.protocol.routes import FALSE_BURST, READ_BURST, Announcement, News
from coopbandits.fleet.service import OwnerAwayError, Receipt
from tests.fleet.bandits import CLUSTER
from tests.fleet.service.test_forwarding import Fleet
from tests.torture.process import name as name_of

KIND = 3
"""Where a frame tells its kind."""

HEADER = frames.HEADER_BYTES


class Relayed(Fleet):
    """A path of three agents that have found each other; the one in the middle may lie."""

    def __init__(self, **more: Any) -> None:
        super().__init__(3, **more)
        self.submit(2, self.choose(0).ticket)
        self.posted.clear()

    def frames(self, sender: int, kind: int) -> list[bytes]:
        """Return the bodies that an agent has sent."""
        return [
            data[HEADER:] for one, _, data in self.posted if one == sender and data[KIND] == kind
        ]

    def say(self, to: int, data: bytes) -> None:
        """Let the agent in the middle send bytes."""
        self.shells[to].received("n1", data)

    def announce(self, to: int, *announcements: Announcement) -> None:
        body = encode(News(list(announcements)))
        self.say(to, encode_routes(self.node(1)._stamp(), body))

    def announced(self, agent: int) -> Announcement:
        own = self.node(agent).routes._own
        assert own is not None
        return own


@pytest.fixture
def fleet() -> Relayed:
    return Relayed()


@pytest.mark.parametrize(
    "change", [{"version": 1 << 60}, {"left": True}, {"wants": False}, {"name": "n7"}]
)
def test_nobody_announces_another_agent(fleet: Relayed, change: dict[str, Any]) -> None:
    routes = fleet.node(0).routes
    before = dict(routes.members)
    true = fleet.announced(2)
    version = {"version": true.version + 1}
    fleet.announce(0, structs.replace(true, **(version | change)))
    assert fleet.node(0).refusals["forged"] == 1
    assert routes.members == before
    assert [ends[:2] for ends in fleet.broken] == [(0, 1)], "the link ends"


def test_what_an_honest_neighbour_may_believe_and_this_agent_does_not_ends_no_link(
    tmp_path: Path,
) -> None:
    """Another id of a key that is believed under one, and certificates of another authority."""
    init_authority(tmp_path)
    issue(tmp_path, ["n0", "n1", "n2"])
    request("n2", tmp_path, ["n6"])
    sign_requests(tmp_path, [tmp_path / "n2.csr"], also=["n6"], force=True)
    elsewhere = tmp_path / "elsewhere"
    init_authority(elsewhere)
    issue(elsewhere, ["n7"])
    fleet = Relayed(certificates=tmp_path)
    node, version = fleet.node(0), fleet.announced(2).version + 1

    def announced(name: str, notary: Notary) -> bytes:
        plain = Announcement(name, version, True, False, b"")
        signed = structs.replace(plain, proof=notary.sign(plain.form))
        own = notary.authors[notary.fingerprint].certificate
        return encode_routes(fleet.node(1)._stamp(), encode(News([signed], pack([own]))))

    fleet.say(0, announced("n6", fleet.node(2).settings.notary))
    assert not node.refusals
    three = elsewhere / "ca.pem", elsewhere / "n7.pem", elsewhere / "n7-key.pem"
    stranger = announced("n7", Notary("n7", three, ("shop", 0), 4))
    fleet.say(0, stranger)
    assert node.refusals == {"routes": 1}
    looked_at = []
    learn = node.settings.notary.learn

    def looked(certificate: bytes) -> bytes:
        looked_at.append(certificate)
        return learn(certificate)

    node.settings.notary.learn = looked  # type: ignore[method-assign]
    for _ in range(200):
        fleet.say(0, stranger)
    assert len(looked_at) < FALSE_BURST, "each takes time"
    assert node.routes.present() == ["n0", "n1", "n2"]
    assert node.peers["n1"].met
    assert not fleet.broken


def test_an_old_announcement_brings_nobody_back(fleet: Relayed) -> None:
    old = fleet.announced(2)
    fleet.shells[2].leave()
    fleet.deliver()
    assert fleet.node(0).routes.present() == ["n0", "n1"]
    fleet.announce(0, old)
    assert fleet.node(0).routes.present() == ["n0", "n1"]


def test_members_are_bounded() -> None:
    cluster = replace(CLUSTER, max_agents=3)
    fleet = Fleet(5, cluster=cluster)
    assert isinstance(fleet.submit(1, fleet.choose(0).ticket), Receipt)
    fleet.beats(10)
    assert all(len(fleet.node(agent).routes.present()) <= 3 for agent in fleet.graph)


def test_an_agent_whose_clock_went_back_is_heard_again(fleet: Relayed) -> None:
    routes = fleet.node(2).routes
    before = fleet.announced(2).version
    fleet.now -= 500.0
    fleet.crash(2)
    fleet.restart(2)
    fleet.of(2).node.routes.want()
    fleet.beats(10)
    assert routes is not fleet.node(2).routes
    member = fleet.node(0).routes.members["n2"]
    assert member.announcement.version > before


def test_whatever_a_relay_does_to_a_call_nothing_is_counted_and_nobody_is_fooled(
    fleet: Relayed,
) -> None:
    choice = fleet.choose(0)
    waiting = fleet.send(2, choice.ticket)
    (sent,) = fleet.frames(2, frames.CALL)
    assert choice.ticket.encode() in sent, "the virtual notary hides nothing; the real one does"
    call = Decoder(Call).decode(sent)
    stamp, served = fleet.node(1)._stamp(), fleet.node(0).calls.served
    flipped = bytes([call.sealed[20] ^ 1])
    for changed in (
        structs.replace(call, sealed=call.sealed[:20] + flipped + call.sealed[21:]),
        structs.replace(call, origin="n1"),
        structs.replace(call, sealed=b""),
    ):
        fleet.say(0, encode_call(stamp, encode(changed)))
    assert fleet.node(0).calls.served == served
    for answer in (
        Answer("n0", "n2", MAX_HOPS, call.tag, "", b"it was counted"),
        Answer("n0", "n2", MAX_HOPS, call.tag, "", call.sealed),
        Answer("n0", "n2", MAX_HOPS, b"another", NO_ROUTE),
    ):
        fleet.say(2, encode_answer(stamp, encode(answer)))
    assert not waiting
    assert fleet.answer(waiting) == Receipt(choice.ticket, choice.arm, 1.0, duplicate=False)
    assert fleet.rewards() == [2, 0, 0]


def test_a_relay_that_drops_everything_is_an_agent_that_is_away(fleet: Relayed) -> None:
    ticket = fleet.choose(0).ticket
    fleet.node(1).calls.heard_call = lambda link, body: None  # type: ignore[method-assign]
    assert isinstance(fleet.submit(2, ticket), OwnerAwayError)
    assert fleet.rewards() == [1, 0, 0]


def test_a_route_that_leads_in_a_circle_ends(fleet: Relayed) -> None:
    choice = fleet.choose(0)
    for agent, hop in ((1, "n2"), (2, "n1")):
        fleet.node(agent).routes.members["n0"].hops = [hop]
    fleet.cut_link(0, 1)
    waiting = fleet.send(2, choice.ticket)
    fleet.deliver(10_000)
    assert not fleet.queue
    assert isinstance(fleet.answer(waiting), OwnerAwayError)


def test_calls_and_announcements_without_end_are_not_worked_on(fleet: Relayed) -> None:
    stamp = fleet.node(1)._stamp()
    call = encode_call(stamp, encode(Call("n2", "n9", 3, b"sealed")))
    for _ in range(int(RELAY_BURST) + 500):
        fleet.say(0, call)
    assert fleet.node(0).calls.relayed["dropped"] >= RELAY_BURST + 500
    answers = fleet.frames(0, frames.ANSWER)
    assert len(answers) <= RELAY_BURST
    digest = encode(News(digest=bytes(16 * 3000)))
    for _ in range(5):
        fleet.say(0, encode_routes(stamp, digest))
    assert fleet.node(0).refusals["routes"] == 5 - READ_BURST // 3000
    assert fleet.node(0).peers["n1"].met


def test_what_a_large_fleet_tells_when_a_link_comes_up_is_read() -> None:
    fleet = Relayed(cluster=replace(CLUSTER, max_agents=6000))
    stamp, digest = fleet.node(1)._stamp(), encode(News(digest=bytes(16 * 3000)))
    for _ in range(5):  # twice as many agents as one message lists, and what was asked for
        fleet.say(0, encode_routes(stamp, digest))
    assert not fleet.node(0).refusals
    for _ in range(2):
        fleet.say(0, encode_routes(stamp, digest))
    assert fleet.node(0).refusals["routes"]


def test_long_certificates_are_sent_in_several_messages(fleet: Relayed) -> None:
    """A body has 64 KiB, and a certificate up to 4."""
    node, sent = fleet.node(0), list[bytes]()
    node.send_routes = lambda name, body: sent.append(body)  # type: ignore[method-assign]
    key, announcements = generate_private_key(SECP256R1()).public_key(), []
    for at in range(10):
        fingerprint = bytes([at]) * FINGERPRINT
        own, *more = (bytes([at, k]) * (MAX_CERTIFICATE // 2) for k in range(5))
        author = Author(frozenset({f"n{at}"}), key, b"", 0.0, own, tuple(more))
        node.settings.notary.authors[fingerprint] = author
        announcements.append(Announcement(f"n{at}", 1, True, False, fingerprint))
    node.routes._send("n1", announcements)
    assert all(len(body) < frames.MAX_BODY for body in sent)
    messages = [Decoder(News).decode(body) for body in sent]
    assert [each for news in messages for each in news.announcements] == announcements
    found = [each for news in messages for each in unpack(news.certificates)]
    assert len(found) == len(set(found)) == 50


def test_an_error_fits_into_an_answer() -> None:
    """Whatever it quotes: a longer answer would be refused on its way."""
    arms = [{"name": f"{k:080}", "frozen": k > 0} for k in range(195)]
    fleet = Fleet(2, arms=arms, sticky_seconds=60.0)
    frozen = [f"{k:080}" for k in range(1, 195)]
    call = encode((1, fleet.bandit.number, bytes(8), bytes(8), frozen))
    assert len(call) < MAX_PLAIN
    answer = fleet.of(0).forwarding.serve("n1", call)
    assert b"may be chosen now" not in answer, "it is cut"
    assert len(answer) < 1000


@pytest.mark.parametrize("body", [b"", b"\x80\x80", b"\x92\xa1a", encode({"digest": b"1"})])
def test_bodies_that_cannot_be_read_change_nothing(fleet: Relayed, body: bytes) -> None:
    node, stamp = fleet.node(0), fleet.node(1)._stamp()
    before = dict(node.routes.members)
    for written in (encode_routes, encode_call, encode_answer):
        fleet.say(0, written(stamp, body))
    assert node.refusals["call"] == 2
    assert node.refusals["routes"] == 1
    assert node.routes.members == before
    assert node.peers["n1"].met


def test_calls_are_sealed_and_go_on_with_a_renewed_certificate(tmp_path: Path) -> None:
    init_authority(tmp_path)
    issue(tmp_path, ["n0", "n1", "n2"])
    fleet = Relayed(certificates=tmp_path)
    choice = fleet.choose(0)
    assert isinstance(fleet.submit(2, choice.ticket), Receipt)
    passed = [data for _, _, data in fleet.posted if data[KIND] in (frames.CALL, frames.ANSWER)]
    assert len(passed) == 4
    assert not any(choice.ticket.encode() in data or b"arm" in data for data in passed)
    before = fleet.node(2).routes.fingerprint_of("n0")
    for old in ("n0.pem", "n0-key.pem"):
        (tmp_path / old).unlink()
    issue(tmp_path, ["n0"])
    fleet.beats(3)
    assert fleet.node(2).routes.fingerprint_of("n0") != before
    assert isinstance(fleet.submit(2, fleet.choose(0).ticket), Receipt)


def test_agents_of_a_large_fleet_find_each_other() -> None:
    fleet = Fleet(12, nx.cycle_graph(12), sticky_seconds=60.0)
    fleet.beats(15)
    everyone = sorted(name_of(agent) for agent in range(12))
    assert all(fleet.node(agent).routes.present() == everyone for agent in fleet.graph)
    choice = fleet.choose(0)
    assert isinstance(fleet.submit(6, choice.ticket), Receipt)
