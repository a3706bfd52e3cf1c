"""Agents on a stage that find each other: what they do there, and what is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coopbandits.fleet.overlay.members import Members
from tests.torture import Setting, make_schedule, play
from tests.torture.bandits import NUMBERS, SIDE
from tests.torture.open_wiring import DEGREE
from tests.torture.schedule import MAIN, SECOND, Schedule, Trouble
from tests.torture.stage import Stage

pytestmark = pytest.mark.plays


def calm(*troubles: Trouble, bandits: bool = False, rounds: int = 60, agents: int = 6) -> Schedule:
    """Return a schedule in which agents find each other, and nothing else happens."""
    setting = Setting("flood-ts", agents, rounds, bandits=bandits, auto=True)
    made = make_schedule(1, setting)
    return replace(made, weather=made.weather.calm, troubles=troubles)


def test_agents_join_by_seeds_and_have_as_many_links_as_they_want() -> None:
    stage = Stage(calm(agents=12))
    stage.run()
    views = [actor.process.node.members.view for actor in stage.actors]  # type: ignore[union-attr]  # it is there
    assert all(1 <= len(view.active) <= DEGREE + 2 for view in views)
    assert sum(len(view.active) >= DEGREE for view in views) >= 9
    assert views[0]._own_addresses == {"n0:7400"}, "a seed has called itself"
    assert any(view._declined for view in views), "a refusal arrives before its link ends"


def test_an_agent_that_nobody_finds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    tick = Members.tick

    def lazy(self: Members) -> None:
        if self.view.name != "n5":
            tick(self)

    monkeypatch.setattr(Members, "tick", lazy)
    monkeypatch.setattr("tests.torture.stage.PATIENCE", 10)
    assert play(calm()).violation.endswith("n0 is not connected with n5")


def test_who_drains_says_goodbye_and_comes_back() -> None:
    stage = Stage(calm(Trouble(5 * SECOND, "drain", 4, SECOND, 0), rounds=160))
    stage.run()
    assert stage.actors[4].life == 1
    notes = [
        note.text
        for actor in stage.actors
        if actor.process is not None
        for note in actor.process.node.events.since(0)
    ]
    assert "link to n4 is down: the neighbours have changed" in notes
    assert "link to n4 is down: it died" not in notes


def test_a_liar_is_heard_about_every_bandit_and_found_out() -> None:
    stage = Stage(calm(Trouble(SECOND, "liar", 0, SECOND, 6 << 8), bandits=True))
    stage.run()
    told = {heard.stamp.bandit for heard in stage.lies.heard}
    assert told == {NUMBERS[MAIN], NUMBERS[SIDE]}
    refused = [actor.process.node.refusals for actor in stage.actors if actor.process is not None]
    assert sum(each["revoked"] for each in refused) > 0
