"""`python -m tests.torture` as it is typed."""

from __future__ import annotations

import re
from concurrent.futures.process import BrokenProcessPool

import pytest

from coopbandits.core.errors import InputError
from tests.cli.calls import Call, caller, refused
from tests.torture import __main__ as command
from tests.torture import run
from tests.torture.__main__ import main
from tests.torture.actor import Actor
from tests.torture.application import ViolationError
from tests.torture.checks import Checks

SMALL = ("--agents", "3", "--rounds", "20")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return caller(main, monkeypatch, capsys)


def test_seeds_make_a_table(call: Call) -> None:
    outcome = call("--seeds", "3", *SMALL)
    assert (outcome.status, outcome.err) == (0, "")
    head, row, digest = outcome.out.splitlines()
    assert head.split()[:4] == ["policy", "agents", "seeds", "events"]
    assert re.fullmatch(r"flood-ts +3 +3 +\d+ +\d+ +[\d.]+ +[\d.]+ +0", row)
    assert re.fullmatch(r"traces [0-9a-f]{32}", digest)


def test_seeds_go_on_where_others_ended(call: Call) -> None:
    both = call("--seeds", "2", "--first", "5", *SMALL).out.splitlines()
    events = [
        int(call("--seed", seed, *SMALL).out.splitlines()[-2].split()[3]) for seed in ("5", "6")
    ]
    assert int(both[1].split()[3]) == sum(events)
    assert both[2] != call("--seeds", "2", *SMALL).out.splitlines()[2]
    assert "--first" in refused(call("--first", "-1", *SMALL))


def test_one_seed_with_its_trace(call: Call) -> None:
    first = call("--seed", "4", "--trace", *SMALL)
    assert first.status == 0
    *lines, digest = first.out.splitlines()
    assert re.fullmatch(r"trace [0-9a-f]{32}", digest)
    assert sum(" arrives " in line for line in lines) > 50
    assert call("--seed", "4", *SMALL).out.splitlines()[-1] == digest


def test_a_violation_is_shortened_and_can_be_played_again(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Checks, actor: Actor) -> None:
        if actor.life > 0:
            raise ViolationError("it started again")

    monkeypatch.setattr(Checks, "started", fail)
    outcome = call("--seeds", "12", "--workers", "1", *SMALL)
    assert outcome.status == 1
    assert ": it started again" in outcome.out
    (line, *_) = re.findall(r"python -m tests.torture (.*)", outcome.out)
    assert line.count("--trouble ") == 1, "one is enough"
    again = call(*line.replace("'", "").split())
    assert (again.status, again.err) == (1, "it started again\n")


def test_the_table_is_printed_before_anything_is_shortened(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ViolationError("never again")

    def stop(_: object) -> None:
        print("shortening")
        raise InputError("stopped")

    monkeypatch.setattr(Checks, "beat", fail)
    monkeypatch.setattr(command, "shrink", stop)
    head, row, digest, last = call("--seeds", "2", "--workers", "1", *SMALL).out.splitlines()
    assert (head.split()[0], row.split()[-1]) == ("policy", "2")
    assert digest.startswith("traces ")
    assert last == "shortening"


def test_it_can_be_interrupted(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    played, play = [], run.play

    def two(*given: object, **named: object) -> object:
        played.append(given)
        if len(played) > 2:
            raise KeyboardInterrupt
        return play(*given, **named)  # type: ignore[arg-type]  # as given

    monkeypatch.setattr(run, "play", two)
    outcome = call("--seeds", "100", "--workers", "1", *SMALL)
    assert outcome.status == 130
    assert outcome.out.splitlines()[-2].split()[2] == "2"


def test_a_worker_that_dies_is_told(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(_: int) -> run.Outcome:
        raise BrokenProcessPool("a process was ended")

    monkeypatch.setattr(run, "play_seeds", lambda *_, **__: map(die, range(1)))
    sentence = refused(call("--seeds", "3", "--first", "8", *SMALL))
    assert "seeds from 8 on" in sentence
    assert "--workers 1" in sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--seed", "1", "--seeds", "2"), "--seed 1 and --seeds 2"),
        (("--trace",), "add --seed NUMBER"),
        (("--seeds", "0"), "--seeds is 0"),
        (("--workers", "0"), "--workers is 0"),
        (("--agents", "2"), "agents is 2"),
        (("--rounds", "0"), "rounds is 0"),
        (("--policy", "ucb-network"), "cannot run"),
        (
            ("--policy", "dec-ts", "--auto"),
            "'dec-ts'",
        ),
        (("--policy", "dec-ts", "--bandits"), "'dec-ts'"),
        (("--half-life", "soon"), "'soon'"),
        (("--half-life", "2min"), "--half-life is 120 s"),
        (("--half-life", "2h", "--policy", "dec-ts"), "dec-ts"),
        (("--policy", "tree-sums*lin-ts:disjoint=true"), "features"),
        (("--seed", "1", "--trouble", "cough"), "'cough'"),
        (("--seed", "1", "--weather", "rain"), "'rain'"),
    ],
)
def test_bad_input_is_one_sentence(call: Call, arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in refused(call(*arguments))
