"""From states of agents to what a page is told: a scene, and then what has changed.

Everything shown is a cell: a field of an agent, of a link or of the whole. A cell remembers the
version in which it changed last, and a reader the version that it was sent last. So what a reader
lacks is found whenever it asks, however rarely: a slow one gets fewer and larger deltas, and what
is kept does not depend on who reads.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coopbandits.core.errors import InputError
from coopbandits.page.history import History
from coopbandits.page.seen import LONGEST_TEXT, Seen, agent_cells, all_cells, laid_out, link_cells
from coopbandits.page.state import AgentState

STEP = 0.18
"""Seconds between two versions, at least."""

EVENTS = 200
"""So many events are remembered; of whoever has most of them the oldest makes room,"""
EARLIER = 10
"""and so many are taken over from before an agent was first asked."""

CHANGES, CHANGE_SECONDS = 10, 2.0
"""So often the scene may change on end, and then once in so many seconds: readers begin anew."""

MOST_ARMS, MOST_BANDITS = 2000, 1000
"""So many options are shown, and so many bandits to choose from."""

SETTLING = 10.0
"""Seconds after which a further agent has joined, and was not just found."""

Cells = dict[str, dict[str, dict[str, Any]]]


class Scene(NamedTuple):
    """What the present is about; another one replaces everything.

    Of several bandits the one that is shown comes first. `by_context` tells that its best option
    depends on the request.
    """

    arms: tuple[str, ...]
    agents: tuple[tuple[str, str], ...]
    links: tuple[tuple[int, int], ...]
    bandits: tuple[str, ...] = ("",)
    by_context: bool = False


class Feed:
    """The present of some agents, its past, and what lately happened.

    Parameters
    ----------
    source : {"agent", "fleet"}
        Whether one agent tells of itself and its neighbours, or several were asked.
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
        self._changed: Cells = {}  # in which version each cell did
        self._stepped, self.now = -math.inf, now
        self._changes, self._counted = float(CHANGES), now
        self._told = False
        self._arms: list[str] = []
        self._history = History(0)
        self._encoded: dict[tuple[int, int], bytes] = {}

    # What is known

    def tell(self, state: AgentState, now: float) -> None:
        """Take in an agent's state.

        Raises
        ------
        InputError
            It belongs to another cluster, so nothing was taken.
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
            if is_new or event.kind != "started":  # of one that is known, this was told above
                self.note(event.kind, state.id, whose + event.text, event.t)
        self._told = True

    def _arrange(self, state: AgentState, arms: list[str]) -> None:
        """Show the options that an agent has, too; refuse one that has nothing to do with others.

        Options of a bandit with a name may change, one agent after the other.
        """
        others = {name: seen for name, seen in self.agents.items() if name != state.id}
        told = [arm for seen in others.values() for arm in seen.arms]
        all_arms = list(dict.fromkeys([*told, *arms]))
        has_name = state.bandits[:1] != [""]
        fits = not told or all_arms == arms == self._arms or has_name
        if self._arms and (state.cluster != self.title or not fits or len(all_arms) > MOST_ARMS):
            raise InputError(
                f"{state.id} is of cluster {state.cluster!r} and has {len(arms)} options, but "
                f"the others are of {self.title!r} and have {len(self._arms)}; watch them apart"
            )
        self.title = state.cluster
        if self._arms != all_arms:
            self._arms, self._history = all_arms, History(len(all_arms))
            for seen in others.values():
                seen.lay_out(all_arms)

    def lose(self, name: str, why: str, now: float) -> None:
        """Take in that an agent does not answer."""
        seen = self.agents.setdefault(name, Seen(name))
        if seen.up and seen.state is not None:
            self.note("down", name, f"{name} does not answer: {why}", now)
        seen.up, seen.why = False, why[:LONGEST_TEXT]
        self._told = True

    def forget(self, name: str) -> None:
        """Show an agent no longer, unless others tell of it."""
        self._told = self.agents.pop(name, None) is not None or self._told

    def note(self, kind: str, name: str, text: str, t: float) -> None:
        """Add an event."""
        self.last_event += 1
        event = {"seq": self.last_event, "t": round(t, 3), "kind": kind[:40], "agent": name}
        self.events.append(event | {"text": text[:LONGEST_TEXT]})
        if len(self.events) > EVENTS:
            ((loudest, _),) = Counter(each["agent"] for each in self.events).most_common(1)
            self.events.remove(next(each for each in self.events if each["agent"] == loudest))
        self._told = True
        self._encoded.clear()

    # The present, as cells

    def step(self, now: float) -> None:
        """Bring the cells up to date, if something was told and enough time has passed."""
        if not 0 <= now - self._stepped < STEP and self._told:
            self._told, self._stepped, self.now = False, now, now
            self.version += 1
            self._encoded.clear()
            self._set_scene(now)
            self._set_cells()
            self._remember(now)

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
        self._told = not self._may_change(now)  # if it has to wait, the next step looks again
        if not self._told:
            self.scene, self.scene_version = scene, self.version
            self.cells, self._changed = {}, {}

    def _may_change(self, now: float) -> bool:
        gained = max(0.0, now - self._counted) / CHANGE_SECONDS
        self._changes, self._counted = min(float(CHANGES), self._changes + gained), now
        may = self._changes >= 1.0
        self._changes -= may
        return may

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
        told = [other.neighbors[name] for other in self.agents.values() if name in other.neighbors]
        seen.up = any(view.up for view in told)
        seen.why = "" if seen.up or not told else told[0].why
        return seen

    def _set(self, section: str, values: Mapping[str, dict[str, Any]]) -> None:
        known = self.cells.setdefault(section, {})
        changed = self._changed.setdefault(section, {})
        for key, fields in values.items():
            before, when = known.setdefault(key, {}), changed.setdefault(key, {})
            for name, value in fields.items():
                if name not in before or before[name] != value:
                    before[name], when[name], when[""] = value, self.version, self.version

    def _remember(self, now: float) -> None:
        if self._arms and self._history.is_due(now):
            self._history.add(now, self.cells["all"][""])

    # What readers are told

    def reader(self) -> Reader:
        """Return a reader that has been told nothing."""
        return Reader(self)

    def tell_scene(self) -> bytes:
        """Return the scene and the past, as two events."""
        scene, names = self.scene, [name for name, _ in self.scene.agents]
        told = {
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
        return event_bytes("scene", told) + event_bytes(
            "history", self._history.export() | {"events": events}
        )

    def tell_delta(self, version: int, last_event: int) -> bytes:
        """Return what has changed since a version and an event; nothing if nothing has."""
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
    """What one page was told so far.

    Parameters
    ----------
    feed : Feed
        What it reads.
    """

    def __init__(self, feed: Feed) -> None:
        self.feed, self.scene_version, self.version, self.event = feed, -1, 0, 0

    def take(self) -> bytes:
        """Return what it lacks, as server-sent events; it counts as told from now on."""
        feed, told = self.feed, b""
        if not feed.version:
            return told
        if self.scene_version != feed.scene_version:
            told = feed.tell_scene()
            self.scene_version, self.version, self.event = feed.scene_version, 0, feed.last_event
        told += feed.tell_delta(self.version, self.event)
        self.version, self.event = feed.version, feed.last_event
        return told


def _bandits(states: Sequence[AgentState]) -> tuple[str, ...]:
    """Return the names of all bandits that somebody has, the one shown first."""
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
    """Return a key by which shop-10 comes after shop-9."""
    parts: list[Any] = re.split("([0-9]+)", name)  # text and digits in turn
    parts[1::2] = [int(digits[:18]) for digits in parts[1::2]]
    return parts
