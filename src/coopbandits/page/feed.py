"""From states of agents to the page: a scene, and then what has changed.

Everything on the page is a *cell*: a field of an agent, of a link or of the whole. `Feed` remembers
in which version each cell changed last, and a `Reader` the version that it was sent last. So what a
reader lacks is found whenever it asks, however rarely: a slow reader gets fewer and larger deltas,
and memory does not depend on the readers.

`Seen` is one agent as it was last seen, with the counts of the last seconds for shares and rates.
`History` holds the past of the whole in bounded memory.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any, NamedTuple

from coopbandits.core.errors import InputError
from coopbandits.page.state import AgentState, ArmState, NeighborState, Note

STEP = 0.18
"""Minimum seconds between two versions."""

EVENTS = 200
"""Number of events remembered; beyond, the oldest of the agent that has most of them is dropped."""
EARLIER = 10
"""Events taken from before an agent was first asked."""

CHANGES, CHANGE_SECONDS = 10, 2.0
"""Changes of the scene allowed in a row, then one per so many seconds: readers start over."""

MOST_ARMS, MOST_BANDITS = 2000, 1000
"""Maximum number of arms shown, and of bandits to choose from."""

SETTLING = 10.0
"""A new agent has joined if it is found after more than this many seconds, else was there."""

Cells = dict[str, dict[str, dict[str, Any]]]


class Scene(NamedTuple):
    """The layout of the page; a new one replaces everything.

    The bandit that is shown comes first. `by_context` says that its best arm depends on the
    request.
    """

    arms: tuple[str, ...]
    agents: tuple[tuple[str, str], ...]
    links: tuple[tuple[int, int], ...]
    bandits: tuple[str, ...] = ("",)
    by_context: bool = False


class Feed:
    """The present of some agents, its past, and recent events.

    Parameters
    ----------
    source : {"agent", "fleet"}
        Whether one agent reports itself and its neighbours, or several were asked.
    now : float
        The time, in seconds since 1970.
    """

    def __init__(self, source: str, now: float) -> None:
        self.source, self.began = source, now
        self.title = ""
        self.agents: dict[str, Seen] = {}
        self.cells: Cells = {}
        self.version = 0
        self.scene, self.scene_version = Scene((), (), ()), 0
        self.events: list[dict[str, Any]] = []
        self.last_event = 0
        self._changed: Cells = {}  # the version in which each cell changed
        self._stepped, self.now = -math.inf, now
        self._changes, self._counted = float(CHANGES), now
        self._dirty = False
        self._arms: list[str] = []
        self._history = History(0)
        self._encoded: dict[tuple[int, int], bytes] = {}

    # Input

    def update(self, state: AgentState, now: float) -> None:
        """Add an agent's state.

        Raises
        ------
        InputError
            It belongs to another cluster; nothing has changed.
        """
        arms = [arm.arm for arm in state.arms]
        known = self.agents.get(state.id)
        if known is None or known.arms != arms or state.cluster != self.title:
            self._arrange(state, arms)
        state = laid_out(state, self._arms) if arms != self._arms else state
        seen = self.agents.setdefault(state.id, Seen(state.id))
        seen.arms = arms
        is_new = seen.state is None
        if is_new and now - self.began > SETTLING:
            self.note("joined", state.id, f"{state.id} joined", now)
        elif seen.state is not None and state.incarnation != seen.state.incarnation:
            self.note("restarted", state.id, f"{state.id} was started again", now)
        elif seen.state is not None and not seen.up:
            self.note("up", state.id, f"{state.id} answers again", now)
        whose = f"{state.id}: " if self.source == "fleet" else ""
        for event in seen.take(state)[-EARLIER if is_new else 0 :]:
            if is_new or event.kind != "started":  # otherwise it was noted as restarted above
                self.note(event.kind, state.id, whose + event.text, event.t)
        self._dirty = True

    def _arrange(self, state: AgentState, arms: list[str]) -> None:
        """Add the arms of an agent to those shown; reject an agent unrelated to the others.

        The arms of a named bandit may change, one agent after the other.
        """
        others = {name: seen for name, seen in self.agents.items() if name != state.id}
        known = [arm for seen in others.values() for arm in seen.arms]
        all_arms = list(dict.fromkeys([*known, *arms]))
        has_name = state.bandits[:1] != [""]
        fits = not known or all_arms == arms == self._arms or has_name
        if self._arms and (state.cluster != self.title or not fits or len(all_arms) > MOST_ARMS):
            raise InputError(
                f"{state.id} is in cluster {state.cluster!r} and has {len(arms)} arms, but the "
                f"others are in {self.title!r} and have {len(self._arms)}; watch them separately"
            )
        self.title = state.cluster
        if self._arms != all_arms:
            self._arms, self._history = all_arms, History(len(all_arms))
            for seen in others.values():
                seen.lay_out(all_arms)

    def lose(self, name: str, why: str, now: float) -> None:
        """Record that an agent does not answer."""
        seen = self.agents.setdefault(name, Seen(name))
        if seen.up and seen.state is not None:
            self.note("down", name, f"{name} does not answer: {why}", now)
        seen.up, seen.why = False, why[:LONGEST_TEXT]
        self._dirty = True

    def forget(self, name: str) -> None:
        """Remove an agent, unless others report it."""
        self._dirty = self.agents.pop(name, None) is not None or self._dirty

    def note(self, kind: str, name: str, text: str, t: float) -> None:
        """Add an event."""
        self.last_event += 1
        event = {"seq": self.last_event, "t": round(t, 3), "kind": kind[:40], "agent": name}
        self.events.append(event | {"text": text[:LONGEST_TEXT]})
        if len(self.events) > EVENTS:
            ((loudest, _),) = Counter(each["agent"] for each in self.events).most_common(1)
            self.events.remove(next(each for each in self.events if each["agent"] == loudest))
        self._dirty = True
        self._encoded.clear()

    # The present, as cells

    def step(self, now: float) -> None:
        """Update the cells, if something is new and enough time has passed."""
        if not 0 <= now - self._stepped < STEP and self._dirty:
            self._dirty, self._stepped, self.now = False, now, now
            self.version += 1
            self._encoded.clear()
            self._set_scene(now)
            self._set_cells()
            if self._arms and self._history.is_due(now):
                self._history.add(now, self.cells["all"][""])

    def _set_scene(self, now: float) -> None:
        listed = {other for seen in self.agents.values() for other in seen.neighbors}
        names = sorted(listed | self.agents.keys(), key=_natural)
        number = {name: at for at, name in enumerate(names)}
        policies = {name: seen.state.policy for name, seen in self.agents.items() if seen.state}
        pairs = {
            (min(ends), max(ends))
            for name, seen in self.agents.items()
            for ends in ((number[name], number[other]) for other in seen.neighbors)
            if ends[0] != ends[1]
        }
        agents = tuple((name, policies.get(name, "")[:LONGEST_TEXT]) for name in names)
        states = [seen.state for seen in self.agents.values() if seen.state]
        by_context = any(state.by_context for state in states)
        scene = Scene(tuple(self._arms), agents, tuple(sorted(pairs)), _bandits(states), by_context)
        if scene == self.scene:
            return
        gained = max(0.0, now - self._counted) / CHANGE_SECONDS
        self._changes, self._counted = min(float(CHANGES), self._changes + gained), now
        self._dirty = self._changes < 1.0  # if it has to wait, the next step tries again
        if not self._dirty:
            self._changes -= 1.0
            self.scene, self.scene_version = scene, self.version
            self.cells, self._changed = {}, {}

    def _set_cells(self) -> None:
        names = [name for name, _ in self.scene.agents]
        seen = {name: self.agents.get(name) or self._hearsay(name) for name in names}
        numbers = {arm: at for at, arm in enumerate(self._arms)}
        agents = {str(at): agent_cells(seen[name], numbers) for at, name in enumerate(names)}
        links = {
            f"{a}-{b}": link_cells(seen[names[a]], seen[names[b]]) for a, b in self.scene.links
        }
        whole = {"": all_cells([*seen.values()], [*agents.values()], len(self._arms))}
        for section, values in (("agents", agents), ("links", links), ("all", whole)):
            self._set(section, values)

    def _hearsay(self, name: str) -> Seen:
        """Return an agent that was not asked itself, as its neighbours see it."""
        seen = Seen(name)
        views = [each.neighbors[name] for each in self.agents.values() if name in each.neighbors]
        seen.up = any(view.up for view in views)
        seen.why = "" if seen.up or not views else views[0].why
        return seen

    def _set(self, section: str, values: Mapping[str, dict[str, Any]]) -> None:
        known = self.cells.setdefault(section, {})
        changed = self._changed.setdefault(section, {})
        for key, fields in values.items():
            before, when = known.setdefault(key, {}), changed.setdefault(key, {})
            for name, value in fields.items():
                if name not in before or before[name] != value:
                    before[name], when[name], when[""] = value, self.version, self.version

    # Output

    def reader(self) -> Reader:
        """Return a reader that was sent nothing yet."""
        return Reader(self)

    def scene_events(self) -> bytes:
        """Return the scene and the past, as two server-sent events."""
        scene, names = self.scene, [name for name, _ in self.scene.agents]
        shown = {
            "version": 1,
            "source": self.source,
            "title": self.title,
            "bandits": scene.bandits,
            "by_context": scene.by_context,
            "arms": scene.arms,
            "agents": [{"name": name, "policy": policy} for name, policy in scene.agents],
            "links": scene.links,
            "t": round(self.now, 3),
        }
        events = [_event(event, names) for event in self.events]
        return event_bytes("scene", shown) + event_bytes(
            "history", self._history.export() | {"events": events}
        )

    def delta_event(self, version: int, last_event: int) -> bytes:
        """Return what has changed since a version and an event; empty if nothing has."""
        key = version, last_event
        if key not in self._encoded:
            self._encoded[key] = self._delta(version, last_event)
        return self._encoded[key]

    def _delta(self, version: int, last_event: int) -> bytes:
        delta: dict[str, Any] = {}
        for section, changed in self._changed.items():
            found = {
                key: {
                    name: self.cells[section][key][name]
                    for name, when in fields.items()
                    if name and when > version
                }
                for key, fields in changed.items()
                if fields[""] > version
            }
            if found:
                delta[section] = found[""] if section == "all" else found
        names = [name for name, _ in self.scene.agents]
        events = [_event(event, names) for event in self.events if event["seq"] > last_event]
        if events:
            delta["events"] = events
        return event_bytes("delta", {"t": round(self.now, 3), **delta}) if delta else b""


class Reader:
    """One reader's position in a feed."""

    def __init__(self, feed: Feed) -> None:
        self.feed, self.scene_version, self.version, self.event = feed, -1, 0, 0

    def take(self) -> bytes:
        """Return what the reader lacks, as server-sent events, and move on."""
        feed, news = self.feed, b""
        if not feed.version:
            return news
        if self.scene_version != feed.scene_version:
            news = feed.scene_events()
            self.scene_version, self.version, self.event = feed.scene_version, 0, feed.last_event
        news += feed.delta_event(self.version, self.event)
        self.version, self.event = feed.version, feed.last_event
        return news


def _bandits(states: Sequence[AgentState]) -> tuple[str, ...]:
    """Return the names of all agents' bandits, the one shown first."""
    shown = next((state.bandits[0] for state in states if state.bandits), "")
    others = {name for state in states for name in state.bandits} - {shown}
    return (shown, *sorted(others)[:MOST_BANDITS])


def event_bytes(kind: str, content: Mapping[str, Any]) -> bytes:
    """Return a server-sent event: one line of JSON in ASCII."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()


def _event(event: dict[str, Any], names: list[str]) -> dict[str, Any]:
    name = event["agent"]
    return event | {"agent": names.index(name) if name in names else -1}


def _natural(name: str) -> list[Any]:
    """Return a sort key by which shop-10 comes after shop-9."""
    parts: list[Any] = re.split("([0-9]+)", name)  # text and digits in turn
    parts[1::2] = [int(digits[:18]) for digits in parts[1::2]]
    return parts


# Agents as last seen, and the cells computed from them

WINDOW_SECONDS, SAMPLE_SECONDS = 10.0, 0.5
"""Seconds over which shares and rates are taken, and between the samples for them."""

LONGEST_TEXT = 500
"""Maximum number of characters shown of a reason or an event."""

QUANTILE = 1.959964
"""Half the width of an interval, in standard deviations."""


class Counts(NamedTuple):
    """Counters of an agent, at one moment of its clock."""

    now: float
    incarnation: int
    round: int
    choices: int
    arms: list[int]
    frames: dict[str, int]

    def may_precede(self, later: Counts) -> bool:
        """Return whether these counts may come before others of the same start."""
        return (
            self.incarnation == later.incarnation
            and self.now <= later.now
            and len(self.arms) == len(later.arms)
            and all(x <= y for x, y in zip(self.arms, later.arms, strict=True))
        )


def counts_of(state: AgentState) -> Counts:
    """Return an agent's counts."""
    return Counts(
        state.now,
        state.incarnation,
        state.round,
        state.choices,
        [arm.choices for arm in state.arms],
        {each.name: each.frames for each in state.neighbors},
    )


class Seen:
    """An agent as it was last seen.

    Attributes
    ----------
    name : str
        Its id.
    state : AgentState or None
        Its last state, laid out over the arms of all agents.
    up : bool
        Whether it answers.
    why : str
        If not, the reason.
    arms : list of str
        Its own arms.
    neighbors : dict of str to NeighborState
        Its links, by the neighbour's name.
    last_event : int
        Number of its last event.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: AgentState | None = None
        self.up, self.why, self.last_event = True, "", 0
        self.arms: list[str] = []
        self.neighbors: dict[str, NeighborState] = {}
        self._window: deque[Counts] = deque()
        self._last = Counts(0.0, 0, 0, 0, [], {})

    def take(self, state: AgentState) -> list[Note]:
        """Update the state; return the events since the last one."""
        news = [event for event in state.events if event.seq > self.last_event]
        self.last_event = max([self.last_event, *(event.seq for event in news)])
        self._count(counts_of(state))
        self.state, self.up, self.why = state, True, (state.ready or "")[:LONGEST_TEXT]
        self.neighbors = {each.name: each for each in state.neighbors}
        return news

    def lay_out(self, arms: Sequence[str]) -> None:
        """Use other arms; the counts of the last seconds start over."""
        if self.state is not None:
            self.state = laid_out(self.state, arms)
            self._window.clear()
            self._count(counts_of(self.state))

    def _count(self, counts: Counts) -> None:
        window, self._last = self._window, counts
        if window and not window[-1].may_precede(counts):
            window.clear()
        if not window or counts.now - window[-1].now >= SAMPLE_SECONDS:
            window.append(counts)
        while len(window) > 1 and counts.now - window[1].now >= WINDOW_SECONDS:
            window.popleft()

    def chosen(self) -> list[int]:
        """Return how often each arm was chosen in the last seconds."""
        if self.state is None or not self.up:
            return []
        pairs = zip(self._last.arms, self._window[0].arms, strict=True)
        return [now - before for now, before in pairs]

    def rounds_per_second(self) -> float:
        return self._rate(self._last.round - self._window[0].round) if self._is_counted else 0.0

    def pulls_per_second(self) -> float:
        return self._rate(self._last.choices - self._window[0].choices) if self._is_counted else 0.0

    def frames_per_second(self, neighbor: str) -> float:
        if not self._is_counted or neighbor not in self._window[0].frames:
            return 0.0
        return self._rate(self._last.frames.get(neighbor, 0) - self._window[0].frames[neighbor])

    @property
    def _is_counted(self) -> bool:
        return self.up and bool(self._window)

    def _rate(self, difference: float) -> float:
        seconds = self._last.now - self._window[0].now
        return max(0.0, difference / seconds) if seconds > 0 else 0.0


def laid_out(state: AgentState, arms: Sequence[str]) -> AgentState:
    """Return a state over these arms, in this order; those that it lacks are empty."""
    known = {arm.arm: arm for arm in state.arms}
    empty = (None, None, None, 0.0, 0, 0, 0.0, 0)
    return replace(state, arms=[known.get(arm) or ArmState(arm, *empty) for arm in arms])


def agent_cells(seen: Seen, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return the cells of one agent; `numbers` has the arms' places by name."""
    state = seen.state
    cells: dict[str, Any] = {"up": seen.up, "why": seen.why, "arm": -1}
    if state is None:
        return cells
    if seen.up and state.prefers is not None:
        cells["arm"] = numbers.get(state.prefers, -1)
    return cells | {
        "round": state.round,
        "rounds_per_second": rounded(seen.rounds_per_second()),
        "pulls_per_second": rounded(seen.pulls_per_second()),
        "tickets": state.open_tickets,
        "document": state.document,
        "version": state.version,
        "share": shares(seen.chosen()),
        "mean": [rounded(arm.mean) for arm in state.arms],
        "low": [rounded(arm.low) for arm in state.arms],
        "high": [rounded(arm.high) for arm in state.arms],
    }


def link_cells(one: Seen, other: Seen) -> dict[str, Any]:
    """Return the cells of a link; it is up if all ends that report it say so."""
    views = [
        here.neighbors[there.name]
        for here, there in ((one, other), (other, one))
        if here.up and there.name in here.neighbors
    ]
    rate = max(one.frames_per_second(other.name), other.frames_per_second(one.name))
    down = [view.why for view in views if not view.up]
    lost = [f"{end.name} does not answer" for end in (one, other) if not end.up and end.state]
    if lost or down:
        return {"state": "down", "per_second": 0.0, "why": [*lost, *down][0][:LONGEST_TEXT]}
    if not views:
        return {"state": "unknown", "per_second": 0.0, "why": "neither end reports it"}
    return {"state": "up", "per_second": rounded(rate), "why": ""}


def all_cells(
    seen: Sequence[Seen], cells: Sequence[dict[str, Any]], num_arms: int
) -> dict[str, Any]:
    """Return the cells of the whole."""
    up = [each for each in seen if each.up]
    asked = [each for each in up if each.state is not None]
    chosen = [sum(counts) for counts in zip(*(each.chosen() for each in asked), strict=True)]
    best = best_informed([each.state for each in asked if each.state], num_arms)
    ahead, sure = who_is_ahead(best)
    if any(each.state and each.state.by_context for each in asked):
        # Each mean is of the requests for which its arm was chosen: they cannot be compared.
        ahead, sure = -1, None
    documents = [each.state.document for each in asked if each.state]
    versions = [version for version in documents if version is not None]
    paces = sorted(each.rounds_per_second() for each in asked)
    return {
        "share": shares(chosen),
        "mean": [rounded(arm.mean) if arm else None for arm in best],
        "low": [rounded(arm.low) if arm else None for arm in best],
        "high": [rounded(arm.high) if arm else None for arm in best],
        "ahead": ahead,
        "sure": rounded(sure),
        "disagree": rounded(disagreement([cell["arm"] for cell in cells])),
        "pulls_per_second": rounded(sum(each.pulls_per_second() for each in asked)),
        "rounds_per_second": rounded(paces[len(paces) // 2]) if paces else 0.0,
        "tickets": sum(each.state.open_tickets for each in asked if each.state),
        "up": len(up),
        "document": max(versions, default=None),
        "behind": sum(version < max(versions) for version in versions),
        "versions": sorted({each.state.version for each in asked if each.state}),
    }


def shares(chosen: Sequence[int]) -> list[float | None] | None:
    """Return counts as shares; None without any."""
    total = sum(chosen)
    return [rounded(count / total) for count in chosen] if total else None


def disagreement(arms: Sequence[int]) -> float | None:
    """Return the share of agents that prefer another arm than most; None if none prefers any.

    Examples
    --------
    >>> disagreement([0, 0, 0, 1, -1])
    0.25
    """
    counts = Counter(arm for arm in arms if arm >= 0)
    return 1.0 - max(counts.values()) / counts.total() if counts else None


def best_informed(states: Sequence[AgentState], num_arms: int) -> list[ArmState | None]:
    """Return for each arm the state of the agent that has the most pulls of it."""
    found: list[ArmState | None] = [None] * num_arms
    for state in states:
        for k, arm in enumerate(state.arms):
            best = found[k]
            if arm.mean is not None and (best is None or arm.pulls > best.pulls):
                found[k] = arm
    return found


def who_is_ahead(arms: Sequence[ArmState | None]) -> tuple[int, float | None]:
    """Return the arm with the largest mean, and how sure that is; -1 and None without any.

    The second is the probability that it is better than its closest rival, with normal errors as
    wide as the intervals; it is 1/2 if nothing is known of a rival. It is None if an arm has a mean
    without an interval, since nothing can be claimed of that arm.
    """
    means = [-math.inf if arm is None or arm.mean is None else arm.mean for arm in arms]
    if max(means, default=-math.inf) == -math.inf:
        return -1, None
    ahead = means.index(max(means))
    if any(arm is not None and arm.mean is not None and arm.low is None for arm in arms):
        return ahead, None
    sure = 1.0
    for k, arm in enumerate(arms):
        if k != ahead:
            sure = min(sure, _better(arms[ahead], arm))
    return ahead, sure


def _better(one: ArmState | None, other: ArmState | None) -> float:
    if one is None or other is None or one.mean is None or other.mean is None:
        return 0.5
    error = math.hypot(_deviation(one), _deviation(other))
    if error == 0.0:
        return 1.0 if one.mean > other.mean else 0.5
    return NormalDist().cdf((one.mean - other.mean) / error)


def _deviation(arm: ArmState) -> float:
    """Return the standard deviation of an interval, one end of which may have been clipped."""
    if arm.mean is None or arm.low is None or arm.high is None:
        return 0.0
    return max(arm.high - arm.mean, arm.mean - arm.low) / QUANTILE


# The past

Row = Sequence[float | None] | None

POINTS = 600
CELLS = 12_000
"""Numbers kept per curve; with many arms there are fewer points."""

PER_ARM = ("share", "mean", "low", "high")
SINGLE = ("pulls_per_second", "disagree")


def rounded(value: float | None) -> float | None:
    """Round to four significant digits; None for what JSON cannot represent."""
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None


class History:
    """Curves of the whole, about one point a second at first.

    When they are full, every other point is dropped, and later points are twice as far apart.
    """

    def __init__(self, num_arms: int) -> None:
        self.most = max(60, min(POINTS, CELLS // max(1, num_arms)))
        self.step = 1.0
        self.times: list[float] = []
        self._rows: list[array[float]] = []
        self.num_arms = num_arms

    def is_due(self, now: float) -> bool:
        return not self.times or now - self.times[-1] >= self.step or now < self.times[-1]

    def add(self, now: float, all_: dict[str, Any]) -> None:
        row = array("f")
        for key in PER_ARM:
            values: Row = all_.get(key)
            row.extend(_number(value) for value in values or [None] * self.num_arms)
        row.extend(_number(all_.get(key)) for key in SINGLE)
        if self.times and now < self.times[-1]:  # the clock was set back
            self.times, self._rows = [], []
        self.times.append(round(now, 3))
        self._rows.append(row)
        if len(self.times) >= self.most:
            self.times, self._rows = self.times[::2], self._rows[::2]
            self.step *= 2

    def export(self) -> dict[str, Any]:
        """Return all curves as plain data."""
        curves: dict[str, Any] = {"t": self.times}
        for at, key in enumerate(PER_ARM):
            part = slice(at * self.num_arms, (at + 1) * self.num_arms)
            curves[key] = [_plain(row[part]) for row in self._rows]
        for at, key in enumerate(SINGLE, len(PER_ARM) * self.num_arms):
            curves[key] = [rounded(row[at]) for row in self._rows]
        return curves


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _plain(values: Sequence[float]) -> list[float | None] | None:
    found = [rounded(value) for value in values]
    return None if all(value is None for value in found) else found
