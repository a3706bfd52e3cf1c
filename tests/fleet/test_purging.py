"""Purged arms: nothing is left of them but how many pulls there were, and all else stays exact."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import msgspec
import networkx as nx
import numpy as np
import pytest

from coopbandits.core.aggregate.entries import HEADER
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import ClusterConfig
from coopbandits.fleet.config.bandits import Arm, BanditConfig
from coopbandits.fleet.config.consistency import declaration_problems
from coopbandits.fleet.process.assemble import open_bandits, open_kept
from coopbandits.fleet.process.declarations import purge_problems
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import ExpiredTicketError
from coopbandits.fleet.storage.purging import PURGED, remainder, signed_columns, take_back
from coopbandits.fleet.storage.replica import Bandits, Replica
from tests.torture.schedule import START
from tests.torture.words import words_of

from .bandits import CLUSTER, Many, both

ALL, LEFT = ["red", "green", "blue"], ["green", "blue"]
Declared = dict[str, BanditConfig]


def steps_of(cluster: ClusterConfig = CLUSTER, **more: Any) -> tuple[Declared, Declared, Declared]:
    """All arms, without red, and with red purged."""
    left = {"arms": LEFT} | more
    return (
        both(cluster, arms=ALL, **more),
        both(cluster, **left),
        both(cluster, purged=["red"], **left),
    )


def button(fleet: Many, agent: int) -> Replica:
    node = fleet.node(agent)
    assert isinstance(node, Node)
    return node.bandits.replicas[both()["button"].number]


def without_red(counts: Counter[tuple[str, str]]) -> dict[tuple[str, str | None], int]:
    """What everybody shall know: red's pulls, and those of others by arm."""
    return {(name, None if arm == "red" else arm): number for (name, arm), number in counts.items()}


@pytest.mark.covering(2)
@pytest.mark.plays
@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "ledger-ts"])
def test_other_arms_stay_exact_while_agents_purge_one_after_the_other(policy: str) -> None:
    stages = steps_of(policy=policy)
    fleet, places = Many(nx.cycle_graph(4), declared=stages[0]), [0] * 4
    for agent in range(4):
        choice = fleet.of(agent).bandit("button").choose(["red"])
        fleet.reward(agent, "button", choice.ticket, 0.7)
    for at, word in enumerate(islice(words_of(7), 90)):
        kind, agent, rest = word % 16, (word >> 4) % 4, word >> 12
        alive = fleet.nodes[agent] is not None
        if kind == 0 and policy == "flood-ts":  # others lose what was on its way
            fleet.crash(agent, rest % 30 if alive else 0)
        elif kind == 1:
            fleet.cut_link(agent, (agent + 1) % 4)
        elif kind in (2, 3):
            fleet.heal()
        elif alive and kind in (4, 5, 6) and at > 20:
            places[agent] = min(2, places[agent] + 1)
            fleet.take(agent, stages[places[agent]])
        elif alive:
            fleet.play(agent, ("button", "banner")[rest % 2], (rest % 8) / 8)
        fleet.step(deliver=10**9 if kind % 2 else rest % 9)
    fleet.heal()
    for agent in range(4):
        fleet.take(agent, stages[2])
    fleet.steps(80)
    wanted = without_red(fleet.counts)
    assert wanted["button", None] > 3
    for agent in range(4):
        assert fleet.learned(agent) == pytest.approx(wanted)
        assert list(button(fleet, agent).arms.values()).count("") == 1
        assert not fleet.node(agent).refusals.keys() & {"forged", "impossible"}


def test_what_an_agent_signed_that_never_comes_back_is_proven_without_the_arm(
    certificates: Path,
) -> None:
    before, left, after = steps_of(CLUSTER)
    fleet = Many(nx.path_graph(3), certificates=certificates, declared=before)
    for step in range(18):
        fleet.play(2 if step % 2 else step % 3, "button", 0.3)
        fleet.steps(10)
    fleet.steps(40)
    fleet.crash(2)
    fleet.take(1, left)
    fleet.take(1, after)  # its neighbour has the arms of before
    fleet.steps(40)
    fleet.crash(0)
    fleet.disks[0] = type(fleet.disks[0])()
    fleet.declared[0] = after
    fleet.restart(0)  # hears of all from its neighbour, of the third agent too
    fleet.steps(80)
    wanted = without_red(fleet.counts)
    assert wanted["button", None] > 2
    for agent in (0, 1):
        assert fleet.learned(agent) == pytest.approx(wanted)
        assert "forged" not in fleet.node(agent).refusals
        fleet.crash(agent)
        fleet.restart(agent)
        assert fleet.learned(agent) == pytest.approx(wanted)
    assert any(len(proof) > 72 for proof in button(fleet, 0).proofs.values())


def test_who_has_not_purged_an_arm_hears_of_it_through_those_who_have(certificates: Path) -> None:
    before, left, after = steps_of(CLUSTER)
    fleet = Many(nx.path_graph(3), certificates=certificates, declared=before)
    fleet.steps(20)
    fleet.take(1, left)
    fleet.take(1, after)
    for step in range(6):
        choice = fleet.of(2).bandit("button").choose([ALL[step % 2]])
        fleet.reward(2, "button", choice.ticket, 0.3)
        fleet.steps(10)
    fleet.steps(40)
    assert fleet.learned(0) == fleet.learned(2) == dict(fleet.counts)
    assert fleet.learned(1) == without_red(fleet.counts)
    for agent in range(3):
        assert "forged" not in fleet.node(agent).refusals
        assert fleet.of(agent).health()["trouble"] == ""


def test_a_remainder_that_is_not_what_was_purged_proves_nothing() -> None:
    fleet = Many(nx.path_graph(2), declared=steps_of()[0])
    machine: Any = button(fleet, 0).agent.machine  # type: ignore[attr-defined]  # has one
    registers, arms = machine.registers, [5, 6, PURGED]
    row = np.concatenate([[1.0, 9.0], [0.5, 0.7, 0.1], [2.0, 3.0, 1.0]])
    left = remainder(registers, arms, {6}, row, b"")
    assert remainder(registers, arms, {7}, row, left) == left
    folded = np.concatenate([[1.0, 9.0], [0.5, 0.0, 0.8], [2.0, 0.0, 4.0]])
    signed = signed_columns(registers, arms, folded, left)
    assert signed is not None
    columns = registers.by_arm(row[HEADER:])
    assert signed == {arm: columns[:, at].tobytes() for at, arm in enumerate(arms)}
    twice = np.concatenate([[1.0, 9.0], [0.5, 0.7, 0.8], [2.0, 3.0, 4.0]])
    fewer = np.concatenate([[1.0, 9.0], [0.5, 0.0, 0.8], [2.0, 0.0, 3.0]])
    odd = msgspec.msgpack.encode({-1: bytes(16)})
    for wrong, told in ((twice, left), (fewer, left), (folded, b"?"), (row, left), (folded, odd)):
        assert signed_columns(registers, arms, wrong, told) is None
    assert remainder(registers, arms, {6}, row, b"?") == b"?"


def test_nobody_purges_arms_in_the_name_of_others() -> None:
    fleet = Many(nx.path_graph(2), declared=steps_of()[0])
    machine: Any = button(fleet, 0).agent.machine  # type: ignore[attr-defined]  # has one
    registers = machine.registers
    row = np.concatenate([[1.0, 9.0], [0.5, 0.7, 0.1], [2.0, 3.0, 1.0]])
    left = remainder(registers, [5, 6, PURGED], {6}, row, b"")
    folded = np.concatenate([[1.0, 9.0], [0.5, 0.0, 77.0], [2.0, 0.0, 4.0]])
    back, rest = take_back(registers, [5, 6, PURGED], folded, left)
    assert (back.tolist(), rest) == (row.tolist(), b"")
    wide = np.concatenate([[1.0, 9.0], [0.5, 0.8, 0.0], [2.0, 4.0, 0.0]])
    assert take_back(registers, [5, PURGED, 7], wide, left)[1] == left  # 6 is not known
    for told in (b"?", msgspec.msgpack.encode({6: b"odd"}), msgspec.msgpack.encode({6: bytes(8)})):
        back, rest = take_back(registers, [5, 6, PURGED], folded, told)
        assert (back.tolist(), rest) == (folded.tolist(), told)


def test_tickets_of_a_purged_arm_are_closed_and_those_of_others_go_on() -> None:
    before, left, after = steps_of()
    fleet = Many(nx.path_graph(2), declared=before)
    service = fleet.of(0).bandit("button")
    opened = {choice.arm: choice.ticket for choice in (service.choose() for _ in range(60))}
    settled = service.choose(["red"]).ticket
    fleet.reward(0, "button", settled, 1.0)
    fleet.take(0, left)
    fleet.take(0, after)
    with pytest.raises(ExpiredTicketError, match="not counted"):
        service.observe(opened["red"], 1.0)
    fleet.reward(0, "button", opened["blue"], 0.5)
    assert service.observe(settled, 1.0) == (settled, "(purged)", 1.0, True)
    fleet.crash(0)
    fleet.restart(0)
    fleet.steps(5)
    fleet.reward(0, "button", opened["green"], 0.25)
    assert fleet.learned(0) == without_red(fleet.counts)
    told = {arm["state"] for arm in fleet.of(0).bandit("button").export()["arms"]}
    assert told == {"active", "purged"}


def test_a_purged_id_never_comes_back_and_an_arm_is_removed_before_it_is_purged() -> None:
    before, left, after = steps_of()
    fleet = Many(nx.path_graph(2), declared=before)
    (problem,) = purge_problems(fleet.of(0).node.bandits, after)
    assert re.search(r"\[bandits\.button\].*'red'", problem)
    fleet.take(0, left)
    assert not list(purge_problems(fleet.of(0).node.bandits, after))
    fleet.take(0, after)
    again = "id 'red'.*purged.*id = .red-2."
    with pytest.raises(InputError, match=again):
        fleet.take(0, before)
    fleet.take(0, both(arms=[*LEFT, {"name": "red", "id": "red-2"}]))
    assert fleet.play(0, "button", 1.0) in ALL
    fleet.steps(5)  # its neighbour never heard of a purge
    assert Arm("red", "red").number in button(fleet, 1).arms
    assert Arm("red", "red").number not in button(fleet, 0).arms
    fleet.crash(0)
    fleet.declared[0] = before
    with pytest.raises(InputError, match="cannot come back"):
        fleet.restart(0)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"purged": ["red"]}, "'red'"),
        ({"purged": ["blue"], "policy": "tree-ts:spread=estimate"}, "how sites differ"),
    ],
)
def test_what_cannot_be_purged_is_said(table: dict[str, Any], sentence: str) -> None:
    (found,) = declaration_problems(both(**table))
    assert sentence in found
    with pytest.raises(InputError, match="list of ids"):
        both(purged="red")


def test_an_arm_is_removed_before_it_is_purged_at_a_start_too() -> None:
    before, left, after = steps_of()
    fleet = Many(nx.path_graph(1), declared=before)
    choice = fleet.of(0).bandit("button").choose(["red"])
    fleet.reward(0, "button", choice.ticket, 1.0)
    fleet.crash(0)
    words = count(1)

    def start(declared: Declared) -> Bandits:
        config = replace(fleet.config(0), bandits=declared)
        return open_bandits(
            config, fleet.disks[0], lambda: START, lambda: next(words), stepwise=True
        )

    stored = bytes(fleet.disks[0].data)
    with pytest.raises(InputError, match="'red'"):
        start(after)
    assert fleet.disks[0].data == stored
    start(left)
    assert "red" in start(left).replicas[before["button"].number].arms.values()
    for _ in range(2):  # the list may stay
        assert "red" not in start(after).replicas[before["button"].number].arms.values()


def test_a_journal_notes_while_an_agent_runs_which_arms_are_left() -> None:
    before, left, after = steps_of()
    fleet = Many(nx.path_graph(1), declared=before)
    fleet.take(0, left)
    fleet.crash(0)
    config = replace(fleet.config(0), bandits=after)
    opened = open_kept(config, fleet.disks[0], lambda: START, lambda: 1)
    number = before["button"].number
    assert opened.active[number] == {arm.number for arm in left["button"].arms}
    assert not list(purge_problems(opened, after))
    assert list(purge_problems(opened, both(purged=["blue"])))
