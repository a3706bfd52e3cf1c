"""Nodes whose neighbours come and go: what is learned, written down and refused meanwhile."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopbandits.core.aggregate.ledger_sums import LedgerSumsMachine
from coopbandits.fleet.protocol.frames import Hello, Stamp, encode_hello
from coopbandits.fleet.protocol.node import MOST_SILENT
from tests.torture.overlay.party import EPOCH, PORT, Party

from ..bandits import both, only


def make_party(policy: str = "flood-ts", revoked: Path | None = None) -> Party:
    return Party(only(policy, epoch=EPOCH), revoked=revoked)


def pull(party: Party, name: str, times: int = 1) -> None:
    for word in range(times):
        party.pull(name, word)


def known(party: Party, name: str) -> float:
    """Return how many pulls of all agents a node knows of."""
    estimate = party.replica(name).agent.estimate()
    return float(np.sum(estimate.counts))


def gathering(policy: str = "flood-ts", number: int = 5) -> Party:
    party = make_party(policy)
    for at in range(number):
        party.start(f"n{at}", "n0")
    party.play(8)
    return party


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "ledger-ts"])
def test_sums_are_exact_while_neighbours_come_and_go(policy: str) -> None:
    party = gathering(policy)
    assert all(len(party.links(name)) >= 3 for name in party.nodes)
    for name in party.nodes:
        pull(party, name, 2)
    party.play(3)
    assert [known(party, name) for name in party.nodes] == pytest.approx([10.0] * 5)
    party.crash("n0")  # the seed
    party.start("late", "n1")
    party.play(4)
    pull(party, "late", 2)
    assert "n0" not in {peer for name in party.nodes for peer in party.links(name)}
    party.start("n0", "n1")
    party.play(10)
    assert [known(party, name) for name in party.nodes] == pytest.approx([12.0] * 6)


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "gossip-ts"])
def test_a_journal_replays_through_all_changes_of_neighbours(policy: str) -> None:
    party = gathering(policy)
    pull(party, "n0", 3)
    party.play(2)
    party.crash("n3")
    party.play(2)
    replica = party.replica("n0")
    assert len(replica.neighbors) >= 3
    replica.relink([])
    before = replica.agent.export_state()
    party.crash("n0")
    party.start("n0", "n1")
    again = party.replica("n0")
    assert again.agent.export_state() == before
    assert again.own_counts.sum() == 3


@pytest.mark.parametrize(
    "several", [pytest.param(False, marks=pytest.mark.slow), True], ids=["one bandit", "several"]
)
def test_neighbours_go_before_the_next_round_is_told(
    several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told to one could otherwise be told to another once the neighbours are others."""
    party = make_party("ledger-ts")
    if several:
        party.declared = both(party.cluster, policy="ledger-ts")
    for at in range(4):
        party.start(f"n{at}", "n0")
    party.play(5)
    party.crash("n3")
    steps: list[str] = []

    def noted(kind: type, name: str) -> None:
        method = getattr(kind, name)

        def call(self: Any, *given: Any, **more: Any) -> Any:
            steps.append(name)
            return method(self, *given, **more)

        monkeypatch.setattr(kind, name, call)

    noted(LedgerSumsMachine, "receive")
    noted(LedgerSumsMachine, "parted")
    noted(LedgerSumsMachine, "outgoing")
    party.nodes["n1"].tick(party.now + 1.0)
    assert steps[:3] == ["receive", "parted", "outgoing"]


@pytest.mark.covering(1)
@pytest.mark.parametrize(("away", "more"), [(0, 20), (0, 60), (3, 60)])
def test_who_is_started_again_keeps_what_it_held(away: int, more: int) -> None:
    """It has no neighbour at first; those of before vouch for it when they are back."""
    party = gathering("ledger-ts", number=4)
    for name in party.nodes:
        pull(party, name, 3)
    party.play(1)
    root = next(name for name in party.nodes if ledgers(party, name).state.me.dist == 0)
    assert ledgers(party, root)._pulls(ledgers(party, root).state.ledger) == 12.0
    pull(party, root, 2)
    party.crash(root)
    party.play(away)
    party.start(root, *party.nodes)
    assert ledgers(party, root).moving().held == 2.0
    assert not ledgers(party, root).is_recovered
    party.play(5)
    assert ledgers(party, root).is_recovered
    party.play(more)
    entered = [
        ledgers(party, name)._pulls(ledgers(party, name).state.ledger) for name in party.nodes
    ]
    assert entered == [14.0] * 4


def ledgers(party: Party, name: str) -> LedgerSumsMachine:
    """Return the machine of a node."""
    machine: LedgerSumsMachine = party.replica(name).agent.machine  # type: ignore[attr-defined]  # it has one
    return machine


def test_agents_that_say_goodbye_are_forgotten() -> None:
    party = gathering()
    party.leave("n2")
    for name in party.nodes:
        members = party.nodes[name].members
        assert members is not None
        assert "n2" not in party.links(name)
        assert "n2" not in members.view.lost
    party.play(5)
    assert all(len(party.links(name)) == 3 for name in party.nodes)


def test_what_a_revoked_agent_told_goes_when_somebody_links_whoever_has_called_before(
    tmp_path: Path,
) -> None:
    """Orders to forget go with a neighbour's message; one who only calls is none."""
    revoked = tmp_path / "revoked.txt"
    revoked.write_text("")
    party = make_party(revoked=revoked)
    party.start("n0")
    party.start("n3", "n0")
    party.play(4)
    pull(party, "n3", 5)
    party.play(2)
    party.crash("n3")
    party.play(8)
    assert (known(party, "n0"), party.links("n0")) == (5.0, set())
    revoked.write_text("n3\n")
    party.play(2)
    party.wires["n0"].links["silent"] = None
    party.shells["n0"].link_up("silent")
    party.start("n1", "n0")
    party.play(3)
    assert "n1" in party.links("n0")
    assert known(party, "n0") == 0.0


def test_who_is_revoked_gets_no_link(tmp_path: Path) -> None:
    revoked = tmp_path / "revoked.txt"
    revoked.write_text("")
    party = make_party(revoked=revoked)
    for at in range(4):
        party.start(f"n{at}", "n0")
    party.play(6)
    pull(party, "n3")
    party.play(2)
    assert known(party, "n0") == 1.0
    revoked.write_text("n3\n")
    party.play(10)
    assert all("n3" not in party.links(name) for name in ("n0", "n1", "n2"))
    assert party.nodes["n0"].refusals["revoked"] > 0
    assert known(party, "n0") == 0.0
    party.crash("n0")
    party.start("n0", "n1")
    party.play(3)
    assert known(party, "n0") == 0.0, "also where it had no neighbour when it was told"


def test_callers_who_say_nothing_make_room() -> None:
    party = make_party()
    node = party.start("n0")
    for at in range(MOST_SILENT + 1):
        party.wires["n0"].links[f"x{at}"] = None
        party.shells["n0"].link_up(f"x{at}")
    party.settle()
    assert "x0" not in node.peers
    assert len(node.peers) == MOST_SILENT
    party.start("n1", "n0")
    party.play(2)
    assert party.links("n0") == {"n1"}
    party.play(10)
    assert set(node.peers) == {"n1"}, "they are not waited for"


def test_who_links_and_hangs_up_all_the_time_is_taken_in_ever_more_rarely() -> None:
    party = make_party()
    node = party.start("n0")
    hello = encode_hello(
        Stamp(0, node.settings.epoch, 1, 1),
        Hello("n9", "shop", node.settings.configuration, ask="join", place=":7400"),
    )
    at = []
    for second in range(200):
        for _ in range(5):
            party.wires["n0"].links["n9"] = None
            party.shells["n0"].link_up("n9")
            party.shells["n0"].received("n9", hello)
            at += [second] * node.peers["n9"].met
            party.shells["n0"].link_down("n9", "it hung up")
            party.shells["n0"].tick()
        party.now += 1.0
        party.shells["n0"].beat()
    assert at[:3] == [0, 0, 0], "one that is restarted some times does not wait"
    assert [later - now for now, later in pairwise(at[2:])] == [2, 4, 8, 16, 32, 64, 64]
    for _ in range(150):
        party.now += 1.0
        party.shells["n0"].beat()
    assert node.members is not None
    assert not node.members._visits._last, "all is forgotten after a while"


def test_a_node_with_a_list_and_one_without_tell_each_other() -> None:
    party = make_party()
    node = party.start("n0")
    party.start("n1")
    party.nodes["n1"].members.greeting = lambda _: {}  # type: ignore[union-attr,method-assign]  # the test's own instead
    party.wires["n1"].links["n0"], party.wires["n0"].links["n1"] = "listed", None
    party.shells["n1"].link_up("n0")
    party.shells["n0"].link_up("n1")
    party.settle()
    assert node.refusals["hello"] == 1
    assert not party.links("n0")


def test_a_caller_that_names_no_place_is_refused() -> None:
    party = make_party()
    node = party.start("n0")
    party.start("n1", "n0")
    party.nodes["n1"].members.place = lambda: "nonsense"  # type: ignore[union-attr]  # it is there
    party.play(3)
    assert node.refusals["hello"] >= 1
    assert not party.links("n0")


def test_addresses_are_those_of_connections() -> None:
    party = gathering(number=3)
    members = party.nodes["n1"].members
    assert members is not None
    assert members.view.active == {name: f"{name}:{PORT}" for name in ("n0", "n2")}
    place = party.nodes["n1"].place_of("n0")
    assert place is not None
    assert place.host == "n0"
    assert party.nodes["n1"].place_of("nobody") is None


def test_nothing_is_said_to_a_caller_before_its_hello() -> None:
    party = make_party()
    node = party.start("n0")
    party.wires["n0"].links["x"] = None
    party.shells["n0"].link_up("x")
    party.now += 2.0
    party.shells["n0"].beat()
    assert not party.todo
    party.shells["n0"].refused("n0", "it is this agent itself")
    assert node.strangers == 0, "an agent is no stranger to itself"


def test_every_bandit_is_told_of_new_neighbours() -> None:
    party = Party(both(make_party().cluster))
    for at in range(4):
        party.start(f"n{at}", "n0")
    party.play(5)
    party.pull("n1")
    party.play(3)
    party.crash("n0")
    party.start("late", "n1")
    party.play(45)
    for name, node in party.nodes.items():
        first, *others = node.bandits.replicas.values()
        assert len(party.links(name)) == 3
        assert float(np.sum(first.agent.estimate().counts)) == 1.0, name
        assert all(set(each.neighbors) == set(first.neighbors) for each in others)
        assert len(first.neighbors) == 3
