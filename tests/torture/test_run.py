"""Seeds are played to the end, in the same way every time."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from multiprocessing import active_children

import pytest

from coopbandits.core.aggregate.entries import Told
from coopbandits.core.aggregate.flooded_totals import FloodedTotalsMachine
from coopbandits.core.contract import Vector
from coopbandits.core.draws import word_at
from coopbandits.core.errors import InputError
from tests.torture import Setting, make_schedule, play, play_seeds
from tests.torture.actor import Actor
from tests.torture.checks import Checks
from tests.torture.spelling import changed, command
from tests.torture.stage import Stage
from tests.torture.words import words_of

pytestmark = pytest.mark.plays

POLICIES = ("flood-ts", "tree-ts", "ledger-ts", "gossip-ts", "dec-ts")
SEEDS_EACH = 60
BATCH = 10
ROUNDS = 50  # half as many as `make torture` plays by far more seeds


@pytest.mark.parametrize("first", range(0, SEEDS_EACH, BATCH))
@pytest.mark.parametrize("policy", POLICIES)
def test_no_promise_is_broken(policy: str, first: int) -> None:
    for seed in range(first, first + BATCH):
        outcome = play(make_schedule(seed, Setting(policy, rounds=ROUNDS)))
        assert not outcome.violation, (
            f"python -m tests.torture --policy {policy} --rounds {ROUNDS} --seed {seed}"
        )


@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "gossip-ts"])
def test_no_promise_is_broken_where_agents_forget(policy: str) -> None:
    for seed in range(3):
        outcome = play(make_schedule(seed, Setting(policy, rounds=60, half_life=3600.0)))
        assert not outcome.violation, f"torture --policy {policy} --half-life 1h --seed {seed}"


@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts"])
def test_no_promise_is_broken_where_arms_agents_and_links_come_and_go_at_once(policy: str) -> None:
    setting = Setting(policy, agents=6, rounds=60, bandits=True, auto=True)
    for seed in range(5):
        outcome = play(make_schedule(seed, setting))
        assert not outcome.violation, f"torture --policy {policy} --bandits --auto --seed {seed}"


def test_rewards_and_units_meet_other_agents() -> None:
    stage = Stage(make_schedule(4, Setting(rounds=120, bandits=False, auto=False, forward=True)))
    stage.run()
    assert stage.visits.elsewhere.forwarded > 5
    assert stage.visits.elsewhere.sticky > 5


PLAIN = Setting("flood-ts", bandits=False, auto=False, forward=False)
FOUND = {
    "a liar with many numbers is one agent": (
        PLAIN, 211, "0,0,0,0,1000,800000,0", ["1883340:liar:4:1000:0x693"],
    ),
    "a memory that is rolled back is told what it has told, although its disk is full": (
        PLAIN, 826, "0,0,0,0,1000,200000,0",
        ["6567594:rollback:0:316505:0x5f91", "9166316:full:0:2185453:0x21db"],
    ),
    "a start that can write nothing is known by its clock": (
        PLAIN, 638, "0,0,0,0,1000,200000,0",
        [
            "400891:lose:4:2361486:0x55b2", "4503422:fail:4:2373929:0xb54c4abc6db13c18",
            "7811619:jump:4:1000:0xcf95116b56e8339c",
        ],
    ),
    "a memory that has lost its own pulls alone is told of them": (
        Setting("flood-ts", rounds=100, bandits=True, auto=False), 30353, "8,0,0,0,4000,1600000,86",
        ["263318:drain:6:15154:0x9cc3", "3469543:power-op:4:1096118:0xd83ba12da7a6b355"],
    ),
    "nobody believes in more agents than there may be while a tree is regrown": (
        Setting("tree-ts", rounds=100, bandits=True, auto=False), 40376, "0,0,0,0,32000,1600000,0",
        ["37553:kill:2:1000:0x64ca", "635163:power-op:1:826834:0xd73ee9f526ad132a"],
    ),
    "a batch whose end is on disk before its beginning is cut off": (
        Setting("ledger-ts", rounds=100, bandits=True, auto=False), 40299, "0,0,0,0,1000,400000,0",
        ["4356923:power-op:4:1000:0xa3b7"],
    ),
    "a clock is right when an agent starts that has lost its journal": (
        Setting("flood-ts", rounds=100, bandits=True, auto=False), 60431, "0,0,0,0,1000,800000,0",
        ["781562:lose:7:611521:0x131e", "4245711:jump:7:1000:0x8a25fb421c3bacbd"],
    ),
    "what an agent tells before it hears of a former life can be proven": (
        Setting("flood-ts", rounds=100, bandits=True, auto=False), 63259,
        "103,0,172,0,128000,200000,0",
        ["1446297:power:1:1000:0x7f06", "2403761:power:5:314526:0xfa19"],
    ),
    "a lost memory is known by its neighbours although there are as many new pulls": (
        Setting("flood-ts", rounds=100, bandits=True, auto=True), 51685, "0,65,0,0,16000,400000,51",
        [
            "2083689:power-op:4:190846:0x7345dbf7f2f43bc3",
            "2448110:fail:0:873915:0xf0d707cfe988e159", "4138444:jump:5:1000:0x59b11d36a895035e",
        ],
    ),
    "a pull is told although a message of its number was heard in a former life": (
        Setting("flood-ts", rounds=100, bandits=True, auto=False), 900532,
        "0,0,0,0,128000,1600000,0", ["3170091:power-op:5:1147624:0xad38"],
    ),
    "a memory of before a neighbour was found asks it what it was handed": (
        Setting("ledger-ts", rounds=100, bandits=False, auto=True), 942751,
        "0,0,0,0,4000,800000,0", ["1215899:power-op:3:18545:0x7c4d"],
    ),
}  # fmt: skip
"""Schedules that broke a promise once."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_does_not_come_back(name: str) -> None:
    setting, seed, weather, troubles = FOUND[name]
    made = make_schedule(seed, replace(setting, forward=False))
    assert not play(changed(made, troubles, weather)).violation


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_is_the_same_trace(policy: str) -> None:
    schedule = make_schedule(7, Setting(policy, rounds=40, auto=policy != "dec-ts"))
    first = play(schedule, keep=True)
    again = play(schedule, keep=True)
    assert first == again
    assert len(first.lines) > 500
    assert play(make_schedule(8, Setting(policy, rounds=40))).digest != first.digest


@pytest.mark.parametrize("seed", [1, 3, 11])
def test_a_message_read_quickly_is_believed_as_any_other(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = make_schedule(
        seed,
        Setting("flood-ts", rounds=80, bandits=seed != 3, auto=False, forward=False, eras=False),
    )
    read: list[bool] = []
    quickly = FloodedTotalsMachine.quickly

    def counted(machine: FloodedTotalsMachine, message: Vector) -> list[Told] | None:
        told = quickly(machine, message)
        read.append(bool(told))
        return told

    monkeypatch.setattr(FloodedTotalsMachine, "quickly", counted)
    first = play(schedule)
    assert sum(read) > 500
    monkeypatch.setattr(FloodedTotalsMachine, "quickly", lambda *_: None)
    assert play(schedule) == first


def test_words_in_blocks_are_the_words_one_by_one() -> None:
    assert list(islice(words_of(99), 200)) == [word_at(99, at) for at in range(1, 201)]


@pytest.mark.covering(1)  # this process has another one already
@pytest.mark.parametrize("hash_seed", ["0", "1", "4711"])
def test_a_trace_depends_on_no_hash_of_the_process(hash_seed: str) -> None:
    program = (
        "from tests.torture import Setting, make_schedule, play\n"
        "setting = Setting(rounds=40, bandits=True, auto=True, forward=True)\n"
        "print(play(make_schedule(5, setting)).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    here = play(make_schedule(5, Setting(rounds=40, bandits=True, auto=True, forward=True)))
    assert done.stdout.strip() == here.digest


@pytest.mark.parametrize("policy", ["tree-ts", pytest.param("ledger-ts", marks=pytest.mark.slow)])
def test_agents_are_counted_right_though_their_minima_say_that_they_are_more(policy: str) -> None:
    """Three have drawn such small ones that they look like seven, and a count of three is doubted.

    It is believed after two minutes.
    """
    setting = Setting(policy, agents=3, rounds=20, bandits=False, auto=False, forward=False)
    outcome = play(changed(make_schedule(2299, setting), ["none"], None))
    assert not outcome.violation
    assert 120 < outcome.seconds < 150


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["tree-ts", "ledger-ts"])
def test_agents_that_find_each_other_are_counted_right_though_trees_change(policy: str) -> None:
    """Eight look like eighteen, and no tree stands for two minutes on end."""
    outcome = play(make_schedule(940990, Setting(policy, rounds=100)))
    assert not outcome.violation
    assert outcome.seconds > 120


@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts"])
def test_arms_that_a_liar_makes_up_are_no_options(policy: str) -> None:
    schedule = make_schedule(800000, Setting(policy, rounds=60, bandits=True))
    assert any(trouble.kind == "liar" for trouble in schedule.troubles)
    assert not play(schedule).violation


def test_a_fault_of_a_check_tells_how_to_play_its_seed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stumbles(self: Checks, actor: Actor) -> None:
        raise KeyError(actor.name)

    monkeypatch.setattr(Checks, "after", stumbles)
    schedule = make_schedule(7, Setting(agents=3, rounds=20))
    with pytest.raises(KeyError) as caught:
        play(schedule)
    (note,) = caught.value.__notes__
    assert note == f"This happened while seed 7 was played: {command(schedule)}"


def test_many_processes_play_what_one_plays() -> None:
    setting = Setting(agents=3, rounds=20)
    outcomes = play_seeds(setting, range(6), workers=2)
    assert [next(outcomes), *outcomes] == list(play_seeds(setting, range(6), workers=1))
    assert not list(play_seeds(setting, [], workers=2))
    with pytest.raises(InputError, match=r"workers.* 0\b"):
        next(play_seeds(setting, range(6), workers=0))


@pytest.mark.slow
def test_no_process_is_left_when_nobody_wants_more() -> None:
    outcomes = play_seeds(Setting(agents=3, rounds=20), range(1000), workers=2)
    assert next(outcomes).schedule.seed == 0
    assert len(active_children()) == 2
    outcomes.close()
    assert not active_children()
