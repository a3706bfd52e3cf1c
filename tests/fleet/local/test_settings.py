from __future__ import annotations

import json
from typing import Any

import pytest

from coopbandits import BernoulliBandit, GaussianBandit, InputError
from coopbandits.fleet.local.settings import make_settings, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("2s", 2.0), ("500ms", 0.5), ("1.5", 1.5), (" .5 s ", 0.5), ("2min", 120)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "-1s", "0", "0ms", "nan", "1h", "1 2s", "2days", "1e9"])
def test_no_durations(text: str) -> None:
    with pytest.raises(InputError, match=r"\b2s\b"):
        parse_seconds(text)


def test_time_follows_from_rounds_unless_told() -> None:
    assert make_settings("cycle:4", "0.6,0.5").seconds == 20.0
    assert make_settings("cycle:4", "0.6,0.5", rounds=30, rounds_per_second=10).seconds == 3.0
    assert make_settings("cycle:4", "0.6,0.5", rounds=30, seconds=7.0).seconds == 7.0


def test_arms_pay_0_or_1_unless_sigma_is_given() -> None:
    settings = make_settings("cycle:4", "0.6,0.5x2")
    assert settings.problem == BernoulliBandit([0.6, 0.5, 0.5])
    assert settings.policy == "flood-ts"
    settings = make_settings("cycle:4", "2,-1", sigma=0.5)
    assert settings.problem == GaussianBandit([2.0, -1.0], 0.5)
    assert settings.policy == "flood-ts"
    told = make_settings("cycle:4", "0.6,0.5", policy="tree-ts:family=gaussian")
    assert told.policy == "tree-ts:family=gaussian"
    assert make_settings("cycle:4", "0.6,0.5", policy="dducb").policy == "dducb"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"graph": "cycle:65"}, r"65 agents.* 64\b"),
        ({"graph": "circle:5"}, "did you mean 'cycle'"),
        ({"means": "1.5,0.5"}, r"\[0, 1\].*--sigma"),
        ({"sigma": -1.0}, "sigma"),
        (
            {"policy": "mp-ucb:hop_limit=2"},
            r"fleet.*\bdducb\b",
        ),
        ({"policy": "floodts"}, "did you mean 'flood-ts'"),
        ({"policy": "dec-ts:family=bernoulli", "sigma": 1.0}, "leave one of the two out"),
        ({"rounds": 0}, "rounds"),
        ({"seed": -1}, "seed"),
        ({"rounds_per_second": 0.0}, "rounds per second"),
        ({"pulls_per_second": -2.0}, "pulls per second"),
        ({"pulls_per_second": 2000.0}, r"1000\b"),
        ({"graph": "complete:1", "partition": 1.0}, "one agent"),
    ],
)
def test_refused(changes: dict[str, Any], match: str) -> None:
    given = {"graph": "cycle:4", "means": "0.6,0.5"} | changes
    with pytest.raises(InputError, match=match):
        make_settings(**given)


def test_settings_are_plain_data() -> None:
    plain = make_settings("path:3", "0.6,0.5", kill_every=2.0, seed=7).describe()
    assert json.loads(json.dumps(plain)) == plain
    assert (plain["network"], plain["kill_every"], plain["seed"]) == ("path:3", 2.0, 7)


def test_one_arm_is_no_choice() -> None:
    with pytest.raises(InputError, match="one arm"):
        make_settings("cycle:3", means="0.5")


def test_applications_here_tell_of_no_requests() -> None:
    with pytest.raises(InputError, match="features"):
        make_settings("path:2", "0.9,0.2", policy="tree-sums*lin-ts:disjoint=true")
