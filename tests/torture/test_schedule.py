"""A seed decides a schedule; text and schedule are one; a failing one is made shorter."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import replace

import pytest

from coopbandits.core.errors import InputError
from tests.torture import Outcome, Schedule, Setting, make_schedule, shrink
from tests.torture.schedule import ANY_MODE, ARMS_ONLY, ERAS_ONLY, ROBUST_ONLY
from tests.torture.spelling import changed, command
from tests.torture.troubles import KINDS


def test_a_seed_decides() -> None:
    setting = Setting()
    assert make_schedule(3, setting) == make_schedule(3, setting)
    assert make_schedule(3, setting) != make_schedule(4, setting)


def test_every_kind_of_trouble_comes() -> None:
    assert set(KINDS) == {*ANY_MODE, *ROBUST_ONLY, *ARMS_ONLY, *ERAS_ONLY}
    plain = set(KINDS) - {*ARMS_ONLY, *ERAS_ONLY}
    assert kinds(Setting("tree-ts", bandits=False, auto=False, eras=False)) == plain
    assert kinds(Setting("tree-ts", bandits=True, auto=False, eras=True)) == set(KINDS)
    assert kinds(Setting("tree-ts", bandits=True, auto=True)) == set(KINDS) - {"rewire"}
    assert kinds(Setting("dec-ts")) == set(ANY_MODE)


def kinds(setting: Setting) -> set[str]:
    """Return all kinds of trouble of some hundred seeds."""
    made = (make_schedule(seed, setting) for seed in range(300))
    return {trouble.kind for schedule in made for trouble in schedule.troubles}


def test_a_share_of_the_seeds_has_two_bandits_or_agents_that_find_each_other() -> None:
    made = [make_schedule(seed, Setting("tree-ts")) for seed in range(400)]
    found = Counter((schedule.bandits, schedule.auto) for schedule in made)
    assert 60 <= found[True, False] + found[True, True] <= 140
    assert 60 <= found[False, True] + found[True, True] <= 140
    assert found[True, True] >= 10
    waiting = [make_schedule(seed, Setting("dec-ts")) for seed in range(100)]
    assert not any(schedule.bandits or schedule.auto for schedule in waiting)
    given = Setting("tree-ts", bandits=False, auto=False)
    assert not any(make_schedule(seed, given).auto for seed in range(50))


@pytest.mark.parametrize("seed", range(5))
def test_the_command_plays_the_schedule(seed: int) -> None:
    setting = Setting("tree-ts", agents=5, rounds=80)
    schedule = make_schedule(seed, setting)
    *words, _ = shlex.split(command(schedule))
    given = {at: words[i + 1] for i, at in enumerate(words[:-1]) if at.startswith("--")}
    assert (schedule.bandits, schedule.auto) == ("--bandits" in words, "--auto" in words)
    assert (schedule.bandits, schedule.auto) != ("--no-bandits" in words, "--no-auto" in words)
    troubles = [words[i + 1] for i, word in enumerate(words) if word == "--trouble"]
    assert changed(make_schedule(seed, setting), troubles, given["--weather"]) == schedule
    assert (given["--policy"], given["--agents"], given["--rounds"]) == ("tree-ts", "5", "80")


def test_no_trouble_can_be_spelt() -> None:
    schedule = make_schedule(0, Setting())
    assert changed(schedule, ["none"], None).troubles == ()
    assert "--trouble none" in command(replace(schedule, troubles=()))


@pytest.mark.parametrize("text", ["", "kill", "1:kill:2:3", "1:cough:2:3:0x4", "-1:kill:2:3:0x4"])
def test_a_trouble_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InputError, match=rf"--trouble.*{re.escape(repr(text))}.*MICROSECONDS:KIND"):
        changed(make_schedule(0, Setting()), [text], None)


@pytest.mark.parametrize("text", ["1", "a,b,c,d,e,f,g", "0,0,0,0,0,1,0", "-1,0,0,0,1,1,0"])
def test_weather_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InputError, match=rf"--weather.*{re.escape(repr(text))}.* 7\b"):
        changed(make_schedule(0, Setting()), [], text)


def outcome_of(schedule: Schedule, violation: str) -> Outcome:
    return Outcome(schedule, violation, 0, 0.0, "", [])


def test_what_fails_is_made_as_short_as_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two troubles together are needed; everything else goes."""
    schedule = next(
        made
        for made in (make_schedule(seed, Setting(rounds=400)) for seed in range(1000))
        if {"kill", "cut"} <= {trouble.kind for trouble in made.troubles} and len(made.troubles) > 7
    )

    def play(tried: Schedule) -> Outcome:
        kinds = {trouble.kind for trouble in tried.troubles}
        return outcome_of(tried, "it broke" if {"kill", "cut"} <= kinds else "")

    monkeypatch.setattr("tests.torture.shrinking.play", play)
    shortest = shrink(outcome_of(schedule, "it broke")).schedule
    assert sorted(trouble.kind for trouble in shortest.troubles) == ["cut", "kill"]
    assert all(trouble.word <= 0xFFFF and trouble.length <= 1000 for trouble in shortest.troubles)
    assert shortest.weather == shortest.weather.calm
