"""How a document travels through a fleet on a virtual clock, network and disk."""

from __future__ import annotations

import logging
from itertools import pairwise

import msgspec
import networkx as nx
import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.document.seal import ForgedError, Signed
from coopbandits.fleet.document.spread import FIRST_PAUSE, LONGEST_PAUSE, PIECE, News, Spread
from coopbandits.fleet.local.faults import Dice
from coopbandits.fleet.protocol.frames import (
    DOCUMENT,
    HEADER,
    Hello,
    Stamp,
    encode_document,
)
from tests.torture.process import name
from tests.torture.world import World

from .made import pass_seconds, signed, store, versions, world

LARGE = [f"n{10**55 + number}" for number in range(1700)]
"""Ids that take more than three messages."""


def say(fleet: World, speaker: int, listener: int, news: News | bytes) -> None:
    """Let a neighbour, which may lie, say something about documents."""
    body = news if isinstance(news, bytes) else msgspec.msgpack.encode(news)
    node = fleet.node(speaker)
    stamp = Stamp(2, node.settings.epoch, 0, node.settings.incarnation)
    fleet.shells[listener].received(name(speaker), encode_document(stamp, body))
    fleet._break()


def offer(found: Signed, claim: int = 0) -> News:
    return News(claim, b"", found.seal, found.chain, 0, found.content)


def count_documents(fleet: World) -> list[tuple[int, int]]:
    """Return a list that grows by sender and receiver of every message about documents."""
    seen: list[tuple[int, int]] = []
    post = fleet.post

    def watched(sender: int, receiver: int, data: bytes) -> bool:
        if HEADER.unpack_from(data)[2] == DOCUMENT:
            seen.append((sender, receiver))
        return post(sender, receiver, data)

    fleet.post = watched  # type: ignore[method-assign]  # the test's own instead
    return seen


def test_a_document_handed_to_one_reaches_all_and_is_sent_to_nobody_who_has_it() -> None:
    fleet = world(nx.cycle_graph(6))
    sent = count_documents(fleet)
    pass_seconds(fleet, 1)
    fleet.shells[0].adopt(signed(1))
    pass_seconds(fleet, 1)
    assert versions(fleet) == [1] * 6
    assert len(sent) <= 4 * 6, "a document and an acknowledgement over each link, or two of each"
    sent.clear()
    pass_seconds(fleet, 100)
    assert sent == [], "nothing goes round in circles"


def test_a_large_document_comes_in_pieces() -> None:
    fleet = world(nx.path_graph(3))
    found = signed(1, revoked=LARGE)
    assert len(found.content) > 3 * PIECE
    pass_seconds(fleet, 1)
    fleet.shells[2].adopt(found)
    pass_seconds(fleet, 1)
    assert versions(fleet) == [1] * 3


def test_who_was_away_or_lost_its_memory_is_told_when_it_comes_back() -> None:
    fleet = world(nx.path_graph(3))
    pass_seconds(fleet, 1)
    fleet.crash(2)
    fleet.shells[0].adopt(signed(1))
    pass_seconds(fleet, 1)
    fleet.shells[0].adopt(signed(2, 1, 2, operators=(2,)))
    fleet.shells[0].adopt(signed(3, 2))
    pass_seconds(fleet, 1)
    assert versions(fleet) == [3, 3]
    fleet.restart(2)
    pass_seconds(fleet, 1)
    assert versions(fleet) == [3] * 3, "along the chain of keys"
    fleet.crash(1)
    fleet.restart(1)
    assert versions(fleet) == [3] * 3, "from its own journal"


def test_a_document_that_was_lost_on_its_way_is_sent_again_ever_more_rarely() -> None:
    fleet = world(nx.path_graph(2))
    pass_seconds(fleet, 1)
    post, times = fleet.post, []

    def lossy(sender: int, receiver: int, data: bytes) -> bool:
        if HEADER.unpack_from(data)[2] == DOCUMENT and sender == 0:
            times.append(fleet.now)
            return True
        return post(sender, receiver, data)

    fleet.post = lossy  # type: ignore[method-assign]  # the test's own instead
    fleet.shells[0].adopt(signed(1))
    pass_seconds(fleet, 300)
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses[0] == pytest.approx(FIRST_PAUSE, abs=0.5)
    assert max(pauses) == pytest.approx(LONGEST_PAUSE, abs=0.5)
    fleet.post = post  # type: ignore[method-assign]  # the test's own instead
    pass_seconds(fleet, LONGEST_PAUSE + 1)
    assert versions(fleet) == [1, 1]


def test_an_acknowledgement_that_was_lost_is_given_again() -> None:
    fleet = world(nx.path_graph(2))
    pass_seconds(fleet, 1)
    post = fleet.post

    def lossy(sender: int, receiver: int, data: bytes) -> bool:
        is_lost = HEADER.unpack_from(data)[2] == DOCUMENT and sender == 1
        return True if is_lost else post(sender, receiver, data)

    fleet.post = lossy  # type: ignore[method-assign]  # the test's own instead
    fleet.shells[0].adopt(signed(1))
    pass_seconds(fleet, 1)
    assert versions(fleet) == [1, 1]
    assert fleet.node(0).spread.peers["n1"].version == 0
    fleet.post = post  # type: ignore[method-assign]  # the test's own instead
    pass_seconds(fleet, FIRST_PAUSE)
    assert fleet.node(0).spread.peers["n1"].version == 1
    sent = count_documents(fleet)
    pass_seconds(fleet, LONGEST_PAUSE)
    assert sent == []


def test_who_takes_no_documents_is_sent_none_and_both_talk() -> None:
    """An agent without operators, or of a release whose HELLO has no such field."""
    fleet = world(nx.path_graph(2), roots=())
    sent = count_documents(fleet)
    pass_seconds(fleet, 1)
    assert fleet.node(0).peers["n1"].met
    assert fleet.node(0).spread.greeting() == {}
    with pytest.raises(InputError, match="trusted"):
        fleet.shells[0].adopt(signed(1))
    assert sent == []
    assert Hello("a", "b", "c", 1).document is None


def test_agents_of_different_documents_learn_together() -> None:
    fleet = world(nx.path_graph(2))
    pass_seconds(fleet, 1)
    fleet.post = lambda *_: True  # type: ignore[method-assign]  # the test's own instead
    fleet.shells[0].adopt(signed(1, settings={"rounds_per_second": 5.0}))
    del fleet.post
    fleet.node(1).spread.peers.clear()  # as if it could not take it
    fleet.node(0).spread.peers.clear()
    fleet.pull(0, 5, 1.0)
    pass_seconds(fleet, 2)
    assert versions(fleet) == [1, 0]
    assert fleet.totals(1).sum() == fleet.acknowledged.sum() > 0


# What documents change


def test_revoked_ids_join_those_of_the_file_and_leave_with_the_document() -> None:
    fleet = world(nx.complete_graph(3))
    pass_seconds(fleet, 1)
    fleet.shells[0].adopt(signed(1, revoked=["n2"]))
    pass_seconds(fleet, 1)
    assert not fleet.node(0).peers["n2"].met
    assert not fleet.node(1).peers["n2"].met
    fleet.crash(0)
    fleet.restart(0)
    pass_seconds(fleet, 1)
    assert not fleet.node(0).peers["n2"].met, "after a restart, too"
    fleet.shells[0].adopt(signed(2))
    pass_seconds(fleet, 1)
    assert fleet.node(0).peers["n2"].met
    assert versions(fleet) == [2] * 3


def test_only_members_have_links() -> None:
    fleet = world(nx.complete_graph(3))
    pass_seconds(fleet, 1)
    members = [{"id": f"n{j}", "address": "127.0.0.1:1"} for j in (0, 1)]
    fleet.shells[0].adopt(signed(1, members=members))
    pass_seconds(fleet, 1)
    assert fleet.node(0).peers["n1"].met
    assert not fleet.node(0).peers["n2"].met
    assert "n2 is no member" in fleet.node(0).peers["n2"].reason
    assert fleet.node(0).refusals["revoked"] > 0


def test_pace_and_bounds_change_while_agents_run() -> None:
    fleet = world(nx.path_graph(2), policy="tree-ts", max_pulls_per_second=100.0)
    pass_seconds(fleet, 1)
    change = {"rounds_per_second": 2.0, "max_pulls_per_second": 500.0, "signatures_per_second": 1.0}
    fleet.shells[0].adopt(signed(1, settings=change))
    pass_seconds(fleet, 1)
    rounds = fleet.replica(1).rounds
    for _ in range(40):
        fleet.step(0.1)
    assert fleet.replica(1).rounds - rounds == pytest.approx(8, abs=2)
    (session,) = fleet.node(1).sessions.by_number.values()
    assert (fleet.node(1).period, session.claims.rate) == (0.5, 500.0)
    fleet.shells[0].adopt(signed(2, settings={"max_pulls_per_second": 5.0}))
    pass_seconds(fleet, 1)
    assert (fleet.node(1).period, session.claims.rate) == (0.05, 100.0), (
        "what was believed still is"
    )


# Attacks


def attacked() -> World:
    """Three agents with a document; the last one lies."""
    fleet = world(nx.path_graph(3))
    pass_seconds(fleet, 1)
    fleet.shells[0].adopt(signed(5))
    pass_seconds(fleet, 1)
    return fleet


def test_a_replayed_old_document_changes_nothing() -> None:
    fleet = attacked()
    say(fleet, 2, 1, offer(signed(4, revoked=["n0"])))
    pass_seconds(fleet, 1)
    assert versions(fleet) == [5, 5, 5]
    assert fleet.node(1).peers["n0"].met


def test_a_forged_signature_ends_the_link_and_a_stranger_is_refused() -> None:
    fleet = attacked()
    good, bad = signed(5), signed(6)
    forged = msgspec.structs.replace(bad.seal, signatures=good.seal.signatures)
    say(fleet, 2, 1, offer(Signed(forged, bad.content)))
    assert fleet.node(1).refusals["forged"] == 1
    assert not fleet.node(1).peers["n2"].met
    pass_seconds(fleet, 1)
    say(fleet, 2, 1, offer(signed(6, 9)))
    assert fleet.node(1).refusals["document"] == 1
    assert versions(fleet) == [5, 5, 5]


def test_a_huge_document_is_not_kept_without_a_signature_nor_beyond_its_signed_length() -> None:
    fleet = attacked()
    reader = fleet.node(1).spread.peers["n2"]
    say(fleet, 2, 1, offer(signed(6, 9)))
    assert len(reader.content) == 0, "nothing of a stranger's"
    good = signed(6, revoked=LARGE)
    say(fleet, 2, 1, News(6, b"", good.seal, (), 0, good.content[:PIECE]))
    assert len(reader.content) == PIECE
    for _ in range(20):
        news = News(6, b"", good.seal, (), len(reader.content), bytes(PIECE))
        say(fleet, 2, 1, news)
        assert len(reader.content) <= len(good.content)
    assert versions(fleet) == [5, 5, 5]
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(
            msgspec.msgpack.encode(News(6, b"", good.seal, (), 0, bytes(PIECE + 1))), type=News
        )


def test_a_version_that_cannot_be_is_no_document() -> None:
    fleet = attacked()
    for version in (2**63, 2**53, 0):
        head = msgspec.msgpack.decode(signed(1).seal.head)
        head[2] = version
        seal = msgspec.structs.replace(signed(1).seal, head=msgspec.msgpack.encode(head))
        say(fleet, 2, 1, News(version, b"", seal, (), 0, b"x"))
    assert fleet.node(1).refusals["document"] == 3
    say(fleet, 2, 1, News(2**63, b"x" * 32))
    pass_seconds(fleet, 5)
    assert versions(fleet) == [5, 5, 5]


def test_two_contents_of_one_version_do_not_spread_and_both_ends_raise_an_alarm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = world(nx.path_graph(4))
    pass_seconds(fleet, 1)
    fleet.cut_link(1, 2)
    fleet.shells[0].adopt(signed(2))
    fleet.shells[3].adopt(signed(2, revoked=["n9"]))
    pass_seconds(fleet, 1)
    fleet.cut.clear()
    pass_seconds(fleet, 1)
    alarms = [bool(node.settings.documents.alarm) for node in fleet.nodes if node]
    assert alarms == [False, True, True, False]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 2
    digests = [node.settings.documents.digest for node in fleet.nodes if node]
    assert digests[0] == digests[1] != digests[2] == digests[3]
    fleet.disks[0].data.clear()
    fleet.crash(0)
    fleet.restart(0)
    pass_seconds(fleet, 10)
    assert versions(fleet) == [0, 2, 2, 2], "the one with the alarm hands nothing on"
    fleet.shells[3].adopt(signed(3))
    pass_seconds(fleet, 1)
    assert versions(fleet) == [3] * 4
    assert not any(node.settings.documents.alarm for node in fleet.nodes if node)


def test_nobody_raises_an_alarm_with_a_digest_that_it_made_up() -> None:
    fleet = attacked()
    say(fleet, 2, 1, News(5, b"x" * 32))
    pass_seconds(fleet, 5)
    assert not fleet.node(1).settings.documents.alarm


def test_a_liar_that_claims_other_versions_all_the_time_is_answered_rarely() -> None:
    fleet = attacked()
    sent = count_documents(fleet)
    for number in range(200):
        say(fleet, 2, 1, News(number % 2, bytes([number]) * 32))
        fleet.step(0.05)
    assert len([one for one in sent if one == (1, 2)]) <= 4


def test_a_new_link_does_not_draw_the_document_again() -> None:
    sent: list[int] = []
    spread = Spread(store(), lambda _, body: sent.append(len(body)), lambda *_: None)
    spread.store.adopt(signed(1, revoked=LARGE))
    drawn = 0
    for second in range(240):
        now = float(second)
        sent.clear()
        spread.link_up("liar", 0, b"", now)
        spread.link_down("liar")
        spread.link_up("liar", 0, b"", now)
        drawn += sum(sent) > PIECE
        spread.tick(now)
        spread.link_down("liar")
    assert drawn <= 9, "as often as over one link"
    sent.clear()
    spread.link_up("other", 0, b"", 240.0)
    assert sum(sent) > 3 * PIECE, "others do not wait"
    spread.link_down("other")
    spread.tick(240.0 + 2 * LONGEST_PAUSE)
    assert not spread._backoffs, "nothing is kept of those who do not come back"


def test_what_is_no_news_is_refused_and_the_link_goes_on() -> None:
    fleet = attacked()
    for body in (b"", b"\xc1", b"\x80", msgspec.msgpack.encode({"version": -1}), b"\x91" * 5000):
        say(fleet, 2, 1, body)
    assert fleet.node(1).refusals["document"] == 5
    assert fleet.node(1).peers["n2"].met


def test_news_before_hello_or_of_another_start_is_left_alone() -> None:
    fleet = attacked()
    stamp = Stamp(2, fleet.cluster.epoch, 0, 12345)
    body = msgspec.msgpack.encode(offer(signed(6)))
    fleet.shells[1].received("n2", encode_document(stamp, body))
    assert versions(fleet) == [5, 5, 5]


def test_a_piece_that_does_not_follow_is_dropped_and_the_document_comes_again() -> None:
    fleet = attacked()
    good = signed(6, revoked=LARGE)
    pieces = [News(5, b"", good.seal, (), at, good.content[at : at + PIECE])
              for at in range(0, len(good.content), PIECE)]  # fmt: skip
    for news in (pieces[0], pieces[2], pieces[1]):
        say(fleet, 2, 1, news)
    assert versions(fleet) == [5, 5, 5]
    for news in pieces:
        say(fleet, 2, 1, news)
    pass_seconds(fleet, 1)
    assert versions(fleet) == [6, 6, 6]


def test_what_an_agents_own_file_contradicts_is_refused() -> None:
    fleet = world(nx.path_graph(3), half_life=100.0)
    fleet.service(0, lambda: 7)
    pass_seconds(fleet, 1)
    with pytest.raises(InputError, match=r"half_life.* 1\.67 min"):
        fleet.shells[0].adopt(signed(1, settings={"rounds_per_second": 0.5}))
    far = [{"id": "n1", "address": "10.0.0.1:7400"}]
    with pytest.raises(InputError, match=r"n1.* 10\.0\.0\.1:7400"):
        fleet.shells[0].adopt(signed(1, members=far))


# By chance


class Story:
    """A fleet to which anything happens, by a seed: links are cut, agents die and forget.

    An operator hands over one document after the other, anywhere, and changes its key now and then.
    """

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed, 0)
        self.fleet = world(nx.random_regular_graph(3, 6, seed=seed))
        self.highest, self.signer = 0, 1
        self.contents: dict[int, bytes] = {}

    def go_on(self) -> None:
        """Let a quarter of a second pass, and something happen."""
        fleet, dice = self.fleet, self.dice
        fleet.step(0.25, deliver=dice.pick([5, 50, 10**9]))
        agent = dice.pick(range(6))
        if fleet.nodes[agent] is None:
            if dice.pick(range(10)) == 0:
                fleet.disks[agent].data.clear()
            fleet.restart(agent)
            return
        match dice.pick(range(6)):
            case 0:
                fleet.cut_link(*dice.pick(list(fleet.graph.edges)))
            case 1:
                fleet.cut.clear()
            case 2:
                fleet.crash(agent, dice.pick(range(3)))
            case 3:
                self.hand_over(agent)

    def hand_over(self, agent: int) -> None:
        new = self.signer + 1 if self.dice.pick(range(3)) == 0 else self.signer
        keys = (new,) if new != self.signer else ()
        revoked = [f"x{self.highest}"]
        made = signed(self.highest + 1, *{self.signer, new}, operators=keys, revoked=revoked)
        try:
            self.fleet.shells[agent].adopt(made)
        except InputError as refused:
            assert "is signed by" in str(refused), "it has not heard of the new key"
        else:
            self.highest, self.signer = self.highest + 1, new

    def check(self) -> None:
        for node in filter(None, self.fleet.nodes):
            kept = node.settings.documents
            assert self.contents.setdefault(kept.version, kept.digest) == kept.digest
            assert not kept.alarm


@pytest.mark.covering(1)
@pytest.mark.parametrize("seed", range(3))
def test_the_highest_version_is_everywhere_after_healing_and_never_two_contents(seed: int) -> None:
    story = Story(seed)
    for _ in range(120):
        story.go_on()
        story.check()
    story.fleet.heal()
    pass_seconds(story.fleet, 10)
    story.check()
    assert story.highest > 3
    assert versions(story.fleet) == [story.highest] * 6


def test_forged_errors_are_input_errors() -> None:
    """So that a forged document handed over by HTTP is answered like any other bad input."""
    assert issubclass(ForgedError, InputError)
    spread = Spread(store(), lambda *_: None, lambda *_: None)
    spread.received("nobody", b"", 0.0)
    assert spread.peers == {}
