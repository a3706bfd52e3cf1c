"""What settings cost: the arithmetic and the list; that they are cheap is shown by figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import settings
from benchmarks.settings import PROBLEMS, SETTINGS, Cost, Play, Setting
from coopbandits import InputError, Network, parse_policy
from coopbandits.sim.cpu import ENGINE
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup, recorded_rounds

TINY = Play("independent-ucb", horizon=20, runs=1, graph="cycle:4", engine="reference")


def test_all_are_told_apart_and_played_by_their_engine() -> None:
    assert len(set(SETTINGS)) == len(SETTINGS)
    for play in {each for setting in SETTINGS for each in (setting.plain, setting.other)}:
        network, policy = Network.from_spec(play.graph), parse_policy(play.policy)
        setup = Setup(PROBLEMS[play.problem], network, 20, recorded_rounds(20))
        setup.check_policy(policy)
        assert play.engine == "reference" or ENGINE.obstacle(Task(setup, policy)) is None


def test_the_smallest_times_are_divided_by_their_own_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting and what it is compared with take turns; the first of each compiles."""
    took = {"a": iter([9.0, 3.0, 2.0]), "b": iter([9.0, 5.0, 8.0])}
    order: list[str] = []

    def player(play: Play) -> object:
        def played() -> float:
            order.append(play.policy)
            return next(took[play.policy])

        return played

    monkeypatch.setattr(Play, "player", player)
    setting = Setting("tiny", replace(TINY, policy="a"), replace(TINY, policy="b", runs=2))
    (cost,) = settings.time_settings([setting], repeats=2)
    assert order == ["a", "b"] * 3
    assert cost.plain == pytest.approx(2.0 / 80 * 1e9)
    assert cost.other == pytest.approx(5.0 / 160 * 1e9)


@pytest.mark.parametrize(
    ("most", "asked", "met"),
    [
        ({}, "", True),
        ({"most_times": 1.2}, "≤ 1.20 times", True),
        ({"most_times": 1.05}, "≤ 1.05 times", False),
        ({"most_above": 60.0}, "≤ 60 µs more", True),
        ({"most_above": 9.0}, "≤ 9 µs more", False),
        ({"most": 110.0}, "≤ 110 µs", True),
        ({"most": 4.0}, "≤ 4 µs", False),
    ],
)
def test_what_is_asked_for_is_held_against_it(
    most: dict[str, float], asked: str, met: bool
) -> None:
    cost = Cost(Setting("tiny", TINY, TINY, **most), 100_000.0, 110_000.0)
    assert (cost.asked, cost.met) == (asked, met)
    cells = settings.row(cost)
    assert cells[2:6] == ("100000", "110000", "1.10", "10.00")
    assert cells[7] == {True: "yes", False: "no"}[met] if asked else cells[7] == ""


@pytest.mark.plays
def test_another_engine_is_no_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TINY.player()() >= 0.0
    monkeypatch.setattr("coopbandits.sim.cpu.obstacle", lambda task: " for this task")
    with pytest.raises(InputError, match=r"'cpu'.*'reference'"):
        replace(TINY, engine="cpu").player()()
