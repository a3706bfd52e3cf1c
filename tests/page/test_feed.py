from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coopbandits.core.errors import InputError
from coopbandits.page.feed import (
    CHANGE_SECONDS,
    CHANGES,
    EVENTS,
    PER_ARM,
    Feed,
    History,
    disagreement,
    who_is_ahead,
)
from coopbandits.page.state import AgentState, ArmState, NeighborState, Note

ARMS = ("blue", "red")


def arm(name: str, mean: float | None, choices: int = 0, pulls: float = 100.0) -> ArmState:
    low, high = (None, None) if mean is None else (mean - 0.1, mean + 0.1)
    return ArmState(name, mean, low, high, pulls if mean is not None else 0.0, choices, 0, 0.0, 0)


def neighbor(name: str, up: bool = True, frames: int = 0) -> NeighborState:
    return NeighborState(name, up, "" if up else "it is gone", frames, 0.1)


def state(
    name: str = "shop-1",
    now: float = 0.0,
    means: Sequence[float | None] = (0.5, 0.6),
    choices: Sequence[int] = (0, 0),
    neighbors: Sequence[NeighborState] = (),
    round_: int = 0,
    notes: Sequence[Note] = (),
    incarnation: int = 1,
) -> AgentState:
    arms = [arm(name, mean, n) for name, mean, n in zip(ARMS, means, choices, strict=True)]
    known = [each for each in arms if each.mean is not None]
    best = max(known, key=lambda each: each.mean or 0.0).arm if known else None
    return AgentState(
        name, "shop", "tree-ts", 0.0, now, round_, incarnation, None, arms, best, 2.0,
        sum(choices), 0, 3, 0, list(neighbors), list(notes),
    )  # fmt: skip


class Page:
    """Applies what it is sent, as the page does."""

    def __init__(self) -> None:
        self.scene: dict[str, Any] = {}
        self.history: dict[str, Any] = {}
        self.cells: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.deltas = self.scenes = 0

    def read(self, data: bytes) -> None:
        for block in data.decode("ascii").split("\n\n")[:-1]:
            kind, line = block.split("\n")
            content = json.loads(line.removeprefix("data: "))
            match kind:
                case "event: scene":
                    self.scene, self.scenes = content, self.scenes + 1
                    self.cells = {"agents": {}, "links": {}, "all": {}}
                case "event: history":
                    self.history, self.events = content, content["events"]
                case "event: delta":
                    self._change(content)

    def _change(self, delta: dict[str, Any]) -> None:
        self.deltas += 1
        for section in ("agents", "links"):
            for key, fields in delta.get(section, {}).items():
                self.cells[section].setdefault(key, {}).update(fields)
        self.cells["all"].update(delta.get("all", {}))
        self.events = [*self.events, *delta.get("events", [])][-EVENTS:]


def present(feed: Feed) -> dict[str, Any]:
    """Return the current state in full, as a page would know it."""
    cells = json.loads(json.dumps(feed.cells))
    return {
        "agents": cells.get("agents", {}),
        "links": cells.get("links", {}),
        "all": cells.get("all", {}).get("", {}),
    }


def watched(*told: tuple[float, AgentState]) -> tuple[Feed, Page]:
    """Return a feed that was told some states, and a page that read after each."""
    feed, page = Feed("fleet", 0.0), Page()
    reader = feed.reader()
    for now, state in told:
        feed.update(state, now)
        feed.step(now)
        page.read(reader.take())
    return feed, page


def test_a_scene_then_the_past_then_what_changes() -> None:
    feed, page = watched(
        (0.0, state("shop-1", 0.0, neighbors=[neighbor("shop-2")])),
        (0.5, state("shop-2", 0.5, neighbors=[neighbor("shop-1")], means=(0.7, 0.6))),
    )
    assert page.scenes == 2  # the second agent had no policy before it told
    assert page.scene | {"t": 0} == {
        "version": 1, "source": "fleet", "title": "shop", "bandits": [""], "arms": ["blue", "red"],
        "agents": [{"name": n, "policy": "tree-ts"} for n in ("shop-1", "shop-2")],
        "links": [[0, 1]], "by_context": False, "t": 0,
    }  # fmt: skip
    assert page.cells == present(feed)
    assert [page.cells["agents"][key]["arm"] for key in ("0", "1")] == [1, 0]
    assert page.cells["all"]["disagree"] == 0.5
    assert page.cells["all"]["up"] == 2
    assert page.cells["links"] == {"0-1": {"state": "up", "per_second": 0.0, "why": ""}}
    assert page.history["t"] == [0.0]


def test_a_delta_has_only_what_changed() -> None:
    feed, reader = Feed("fleet", 0.0), None
    feed.update(state(now=0.0), 0.0)
    feed.step(0.0)
    reader = feed.reader()
    reader.take()
    assert reader.take() == b""
    feed.update(state(now=1.0, round_=1), 1.0)
    feed.step(1.0)
    (line,) = reader.take().splitlines()[1:2]
    delta = json.loads(line[6:])
    assert delta["agents"] == {"0": {"round": 1, "rounds_per_second": 1.0}}
    assert delta["all"] == {"rounds_per_second": 1.0}
    assert "links" not in delta


def test_versions_are_at_most_five_a_second() -> None:
    feed = Feed("fleet", 0.0)
    for tick in range(1000):
        feed.update(state(now=tick / 100, round_=tick), tick / 100)
        feed.step(tick / 100)
    assert feed.version <= 56


def test_shares_and_rates_are_of_the_last_seconds() -> None:
    told = [
        (t / 2, state(now=t / 2, round_=10 * t, choices=(100 + t, 40) if t < 40 else (140, t)))
        for t in range(100)
    ]
    _, page = watched(*told)
    agent, whole = page.cells["agents"]["0"], page.cells["all"]
    assert agent["share"] == whole["share"] == [0.0, 1.0]
    assert agent["rounds_per_second"] == whole["rounds_per_second"] == 20.0
    assert agent["pulls_per_second"] == whole["pulls_per_second"] == 2.0
    _, quiet = watched((0.0, state(now=0.0)), (1.0, state(now=1.0)))
    assert quiet.cells["all"]["share"] is None


def test_counts_that_begin_anew_are_not_compared() -> None:
    first = state(now=0.0, choices=(1000, 0), round_=9)
    again = state(now=1.0, choices=(1, 0), round_=1, incarnation=2)
    _, page = watched((0.0, first), (1.0, again))
    assert page.cells["agents"]["0"]["pulls_per_second"] == 0.0
    assert [event["kind"] for event in page.events] == ["restarted"]


def test_an_agent_that_dies_and_returns() -> None:
    feed = Feed("fleet", 0.0)
    page, reader = Page(), feed.reader()
    for name, other in (("a", "b"), ("b", "a")):
        feed.update(state(name, neighbors=[neighbor(other)]), 0.0)
    feed.step(0.0)
    page.read(reader.take())
    feed.lose("b", "connection refused", 1.0)
    feed.step(1.0)
    page.read(reader.take())
    assert page.cells["agents"]["1"]["up"] is False
    assert page.cells["agents"]["1"]["arm"] == -1
    assert page.cells["links"]["0-1"]["state"] == "down"
    assert page.cells["all"]["up"] == 1
    assert page.events[-1] == {
        "seq": 1, "t": 1.0, "kind": "down", "agent": 1,
        "text": "b does not answer: connection refused",
    }  # fmt: skip
    feed.update(state("b", 2.0, neighbors=[neighbor("a")]), 2.0)
    feed.step(2.0)
    page.read(reader.take())
    assert page.cells["agents"]["1"] | {"up": True, "arm": 1} == page.cells["agents"]["1"]
    assert page.cells["links"]["0-1"]["state"] == "up"
    assert (page.events[-1]["kind"], page.scenes) == ("up", 1)


def test_neighbours_that_nobody_asked_are_shown_as_others_see_them() -> None:
    _, page = watched((0.0, state("a", neighbors=[neighbor("b"), neighbor("c", up=False)])))
    assert [agent["name"] for agent in page.scene["agents"]] == ["a", "b", "c"]
    assert page.cells["agents"]["1"] == {"up": True, "why": "", "arm": -1}
    assert page.cells["agents"]["2"] == {"up": False, "why": "it is gone", "arm": -1}
    assert page.cells["links"]["0-2"] == {"state": "down", "per_second": 0.0, "why": "it is gone"}


def test_agents_are_listed_as_people_count() -> None:
    names = [f"shop-{n}" for n in (10, 9, 2, 1)] + ["", "shop-", "²"]
    _, page = watched(*((float(at), state(name, at)) for at, name in enumerate(names)))
    listed = [agent["name"] for agent in page.scene["agents"]]
    assert listed == ["", "shop-", "shop-1", "shop-2", "shop-9", "shop-10", "²"]


def test_an_agent_of_another_cluster_is_refused() -> None:
    feed, _ = watched((0.0, state("a")))
    with pytest.raises(InputError, match=r"^b\b.*'park'.* 2 arms"):
        feed.update(replace(state("b"), cluster="park"), 1.0)
    assert list(feed.agents) == ["a"]


def test_options_of_a_named_bandit_come_and_go_agent_by_agent() -> None:
    def told(name: str, now: float, *arms: ArmState) -> AgentState:
        found = state(name, now)
        return replace(found, arms=list(arms), prefers=arms[0].arm, bandits=["button", "banner"])

    feed, page = watched(
        (0.0, told("a", 0.0, arm("blue", 0.5, 3), arm("red", 0.4))),
        (1.0, told("b", 1.0, arm("blue", 0.6, 1), arm("red", 0.4, 7))),
    )
    assert page.scene["bandits"] == ["button", "banner"]
    reader = feed.reader()
    feed.update(told("b", 2.0, arm("blue", 0.6, 1), arm("green", 0.9, 1)), 2.0)
    feed.step(2.0)
    page.read(reader.take())
    assert page.scene["arms"] == ["blue", "red", "green"]
    assert page.cells["agents"]["0"]["mean"] == [0.5, 0.4, None]
    assert page.cells["agents"]["1"]["mean"] == [0.6, None, 0.9]
    assert page.cells["all"]["ahead"] == 2
    feed.update(told("a", 3.0, arm("green", 0.8), arm("blue", 0.5, 4)), 3.0)
    feed.step(6.0)
    page.read(reader.take())
    assert page.scene["arms"] == ["blue", "green"]
    assert page.cells["agents"]["0"]["mean"] == [0.5, 0.8]
    feed.update(told("a", 7.0, arm("green", 0.8), arm("blue", 0.5, 9)), 7.0)
    feed.step(8.0)
    page.read(reader.take())
    assert page.cells["agents"]["0"]["share"] == [1.0, 0.0]


def test_no_option_is_ahead_where_that_depends_on_the_request() -> None:
    _, page = watched((0.0, replace(state(), by_context=True, prefers=None)))
    assert page.scene["by_context"]
    assert (page.cells["all"]["ahead"], page.cells["all"]["sure"]) == (-1, None)
    assert page.cells["agents"]["0"]["arm"] == -1


def test_who_has_an_older_document_is_counted() -> None:
    versions = (("a", 3), ("b", 2), ("c", 0), ("d", None))
    told = [replace(state(name), document=n) for name, n in versions]
    _, page = watched(*((float(at), each) for at, each in enumerate(told)))
    assert [page.cells["agents"][str(at)]["document"] for at in range(4)] == [3, 2, 0, None]
    assert (page.cells["all"]["document"], page.cells["all"]["behind"]) == (3, 2)
    _, page = watched((0.0, state()))
    assert (page.cells["all"]["document"], page.cells["all"]["behind"]) == (None, 0)


def test_versions_of_agents_are_told() -> None:
    versions = (("a", "0.3.0"), ("b", "0.2.0"), ("c", "0.3.0"), ("d", ""))
    told = [replace(state(name), version=version) for name, version in versions]
    _, page = watched(*((float(at), each) for at, each in enumerate(told)))
    assert [page.cells["agents"][str(at)]["version"] for at in range(4)] == [
        version for _, version in versions
    ]
    assert page.cells["all"]["versions"] == ["", "0.2.0", "0.3.0"]


def test_events_of_agents_are_told_once_and_bounded() -> None:
    notes = [Note(n, float(n), "link-down", "x" * 1000) for n in range(1, 101)]
    feed, page = watched((0.0, state(notes=notes)), (1.0, state(now=1.0, notes=notes)))
    assert [event["t"] for event in page.events] == [float(n) for n in range(91, 101)]
    assert {len(event["text"]) for event in page.events} == {500}
    for n in range(2000):
        feed.note("refused", "shop-1", "again", float(n))
    assert len(feed.events) == EVENTS


def test_one_agent_does_not_hide_what_happened_to_the_others() -> None:
    feed, _ = watched((0.0, state("a")), (0.2, state("b", 0.2)))
    feed.lose("a", "it is gone", 1.0)
    for n in range(1, 5):
        notes = [Note(1000 * n + k, float(n), "alarm", "look here") for k in range(1000)]
        feed.update(state("b", float(n), notes=notes), float(n))
    assert len(feed.events) == EVENTS
    assert [event["text"] for event in feed.events if event["agent"] == "a"] == [
        "a does not answer: it is gone"
    ]
    assert feed.events[-1]["t"] == 4.0  # and the newest of the loud one are there, too


def test_a_scene_that_never_rests_is_not_told_all_the_time() -> None:
    """Readers begin anew with every scene; a hostile agent may name other neighbours each time."""
    states = [(n / 5, state("a", n / 5, neighbors=[neighbor(f"ghost-{n}")])) for n in range(300)]
    feed, page = watched(*states)
    assert page.scenes <= CHANGES + 60.0 / CHANGE_SECONDS + 1
    feed.step(59.8 + CHANGE_SECONDS)  # without further news, the last one comes as soon as it may
    assert [name for name, _ in feed.scene.agents] == ["a", "ghost-299"]


@pytest.mark.parametrize(("source", "shown"), [("fleet", "shop-1: up"), ("agent", "up")])
def test_events_of_a_fleet_say_whose_they_are(source: str, shown: str) -> None:
    feed = Feed(source, 0.0)
    feed.update(state(notes=[Note(1, 0.0, "link-up", "up")]), 0.0)
    assert feed.events[0]["text"] == shown


def test_a_restart_is_told_once() -> None:
    first = state(notes=[Note(1, 0.0, "started", "started, after 0 rounds")])
    again = state(
        now=1.0, incarnation=2, notes=[Note(2, 1.0, "started", "started, after 9 rounds")]
    )
    _, page = watched((0.0, first), (1.0, again))
    assert [event["kind"] for event in page.events] == ["started", "restarted"]


def test_an_event_between_two_versions_is_not_lost() -> None:
    feed, page = watched((0.0, state("a")))
    reader = feed.reader()
    page.read(reader.take())
    assert reader.take() == b""
    feed.lose("a", "timed out", 0.1)
    page.read(reader.take())
    assert [event["kind"] for event in page.events] == ["down"]


def test_hostile_text_stays_one_line_of_ascii() -> None:
    name = "<script>\u202e\n\ndata: {}\n"
    feed, page = watched((0.0, state(name, notes=[Note(1, 0.0, "k" * 99, name)])))
    data = feed.reader().take()
    assert data.count(b"\n\n") == 3
    assert page.scene["agents"][0]["name"] == name
    assert page.events[0]["text"] == f"{name}: {name}"
    assert len(page.events[0]["kind"]) == 40


def test_the_past_thins_out() -> None:
    history = History(2)
    for second in range(10_000):
        if history.is_due(float(second)):
            row = [second / 1e4, None]
            history.add(float(second), dict.fromkeys(PER_ARM, row) | {"disagree": 0.5})
    told = history.export()
    assert 300 <= len(told["t"]) <= 600
    assert told["t"][0] == 0.0
    assert told["t"][-1] > 9_900
    assert told["share"][-1] == [pytest.approx(told["t"][-1] / 1e4, abs=1e-3), None]
    assert told["disagree"][-1] == 0.5
    assert told["pulls_per_second"][-1] is None
    assert {len(column) for column in told.values()} == {len(told["t"])}
    assert History(200).most == 60


def test_who_is_ahead_and_how_sure() -> None:
    assert who_is_ahead([]) == (-1, None)
    assert who_is_ahead([arm("a", None), None]) == (-1, None)
    assert who_is_ahead([arm("a", 0.5)]) == (0, 1.0)
    assert who_is_ahead([arm("a", 0.5), arm("b", None)]) == (0, 0.5)
    assert who_is_ahead([arm("a", 0.5), arm("b", 0.5)]) == (0, 0.5)
    # Intervals of ±0.1 are standard deviations of 0.1 / 1.96, and their difference has √2 of that.
    ahead, sure = who_is_ahead([arm("a", 0.5), arm("b", 0.6), arm("c", 0.3)])
    assert ahead == 1
    assert sure == pytest.approx(0.9171, abs=1e-4)
    exact = replace(arm("b", 0.6), low=0.6, high=0.6)
    assert who_is_ahead([exact, replace(exact, mean=0.5, low=0.5, high=0.5)]) == (0, 1.0)
    nothing_claimed = replace(exact, mean=0.5, low=None, high=None)
    assert who_is_ahead([exact, nothing_claimed]) == (0, None)


def test_agents_without_a_preference_do_not_disagree() -> None:
    assert disagreement([]) is disagreement([-1]) is None
    assert disagreement([0, 1, 1, -1]) == pytest.approx(1 / 3)


class AnyPatience(RuleBasedStateMachine):
    """Readers that ask at any time know exactly the present, whatever happened in between."""

    @initialize()
    def begin(self) -> None:
        self.feed, self.now = Feed("fleet", 0.0), 0.0
        self.pages: list[tuple[Any, Page]] = []
        self.round = 0

    @rule()
    def join(self) -> None:
        if len(self.pages) < 5:
            self.pages.append((self.feed.reader(), Page()))

    @rule(
        who=st.integers(0, 3),
        others=st.sets(st.integers(0, 3)),
        means=st.tuples(*[st.none() | st.floats(0, 1)] * 2),
        up=st.booleans(),
        again=st.booleans(),
    )
    def tell(
        self,
        who: int,
        others: set[int],
        means: tuple[float | None, float | None],
        up: bool,
        again: bool,
    ) -> None:
        self.round += 1
        seen = [neighbor(f"a{other}", up) for other in sorted(others)]
        notes = [Note(self.round, self.now, "refused", "?")]
        count = self.round if again else 0
        told = state(f"a{who}", self.now, means, (count, 1), seen, self.round, notes, 1 + again)
        self.feed.update(told, self.now)

    @rule(who=st.integers(0, 5))
    def lose(self, who: int) -> None:
        self.feed.lose(f"a{who}", "timed out", self.now)

    @rule(who=st.integers(0, 5))
    def forget(self, who: int) -> None:
        self.feed.forget(f"a{who}")

    @rule(seconds=st.sampled_from([0.01, 0.2, 3.0, 60.0]))
    def step(self, seconds: float) -> None:
        self.now += seconds
        self.feed.step(self.now)

    @rule(at=st.integers(0, 4))
    def read(self, at: int) -> None:
        if at < len(self.pages):
            reader, page = self.pages[at]
            page.read(reader.take())
            assert page.cells == (present(self.feed) if self.feed.version else {})
            if self.feed.version:
                names = [agent["name"] for agent in page.scene["agents"]]
                assert names == [name for name, _ in self.feed.scene.agents]
                assert [e["seq"] for e in page.events] == [e["seq"] for e in self.feed.events]
            assert reader.take() == b""

    @invariant()
    def memory_is_bounded(self) -> None:
        assert len(self.feed._encoded) <= 2 * 5


TestAnyPatience = AnyPatience.TestCase
TestAnyPatience.settings = settings(
    max_examples=50, stateful_step_count=40, deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
