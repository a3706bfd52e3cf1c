"""One agent as it was last seen, and the cells of agents, links and the whole."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any, NamedTuple

from coopbandits.page.history import rounded
from coopbandits.page.state import AgentState, ArmState, NeighborState, Note

SPAN, STEP = 10.0, 0.5
"""Seconds over which shares and rates are taken, and between what is remembered for that."""

LONGEST_TEXT = 500
"""Characters of a reason or an event that are shown."""

QUANTILE = 1.959964
"""Half an interval is so many standard deviations."""


class Counts(NamedTuple):
    """What only grows, at one moment of an agent's clock."""

    now: float
    incarnation: int
    round: int
    choices: int
    arms: list[int]
    frames: dict[str, int]

    def may_precede(self, later: Counts) -> bool:
        """Return whether the two can be compared."""
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
        What it told last.
    up : bool
        Whether it answers.
    why : str
        If not, the reason.
    arms : list of str
        The options that it has; its state tells of all that anybody has.
    neighbors : dict of str to NeighborState
        Its links, by the neighbour's name.
    last_event : int
        The number of the last event that it told.
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
        """Take in another state; return what happened since the last one."""
        news = [event for event in state.events if event.seq > self.last_event]
        self.last_event = max([self.last_event, *(event.seq for event in news)])
        self._count(counts_of(state))
        self.state, self.up, self.why = state, True, (state.ready or "")[:LONGEST_TEXT]
        self.neighbors = {each.name: each for each in state.neighbors}
        return news

    def lay_out(self, arms: Sequence[str]) -> None:
        """Go by other options; what was chosen lately is counted anew."""
        if self.state is not None:
            self.state = laid_out(self.state, arms)
            self._window.clear()
            self._count(counts_of(self.state))

    def _count(self, counts: Counts) -> None:
        window, self._last = self._window, counts
        if window and not window[-1].may_precede(counts):
            window.clear()
        if not window or counts.now - window[-1].now >= STEP:
            window.append(counts)
        while len(window) > 1 and counts.now - window[1].now >= SPAN:
            window.popleft()

    def chosen(self) -> list[int]:
        """Return how often each option was chosen lately."""
        if self.state is None or not self.up:
            return []
        pairs = zip(self._last.arms, self._window[0].arms, strict=True)
        return [now - before for now, before in pairs]

    def rounds_per_second(self) -> float:
        """Return how fast rounds end."""
        return self._rate(self._last.round - self._window[0].round) if self._is_counted else 0.0

    def pulls_per_second(self) -> float:
        """Return how fast its application chooses."""
        return self._rate(self._last.choices - self._window[0].choices) if self._is_counted else 0.0

    def frames_per_second(self, neighbor: str) -> float:
        """Return how fast the frames of a link are counted."""
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
    """Return a state that tells of these options, in this order; nothing of those it has not."""
    told = {arm.arm: arm for arm in state.arms}
    return replace(state, arms=[told.get(arm) or _nothing(arm) for arm in arms])


def _nothing(arm: str) -> ArmState:
    return ArmState(arm, None, None, None, 0.0, 0, 0, 0.0, 0)


def agent_cells(seen: Seen, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return what is shown of one agent."""
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
        "share": shares(seen.chosen()),
        "mean": [rounded(arm.mean) for arm in state.arms],
        "low": [rounded(arm.low) for arm in state.arms],
        "high": [rounded(arm.high) for arm in state.arms],
    }


def link_cells(one: Seen, other: Seen) -> dict[str, Any]:
    """Return what is shown of a link; it is up if all ends that tell say so."""
    told = [
        here.neighbors[there.name]
        for here, there in ((one, other), (other, one))
        if here.up and there.name in here.neighbors
    ]
    rate = max(one.frames_per_second(other.name), other.frames_per_second(one.name))
    down = [view.why for view in told if not view.up]
    lost = [f"{end.name} does not answer" for end in (one, other) if not end.up and end.state]
    if lost or down:
        return {"state": "down", "per_second": 0.0, "why": [*lost, *down][0][:LONGEST_TEXT]}
    if not told:
        return {"state": "unknown", "per_second": 0.0, "why": "nobody has told of it"}
    return {"state": "up", "per_second": rounded(rate), "why": ""}


def all_cells(
    seen: Sequence[Seen], cells: Sequence[dict[str, Any]], num_arms: int
) -> dict[str, Any]:
    """Return what is shown of the whole."""
    up = [each for each in seen if each.up]
    asked = [each for each in up if each.state is not None]
    chosen = [sum(counts) for counts in zip(*(each.chosen() for each in asked), strict=True)]
    best = best_informed([each.state for each in asked if each.state], num_arms)
    ahead, sure = who_is_ahead(best)
    if any(each.state and each.state.by_context for each in asked):
        ahead, sure = -1, None  # means of requests that each option was chosen for say no more
    versions = [each.state.document for each in asked if each.state]
    told = [version for version in versions if version is not None]
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
        "document": max(told, default=None),
        "behind": sum(version < max(told) for version in told),
    }


def shares(chosen: Sequence[int]) -> list[float | None] | None:
    """Return counts as shares; None without any."""
    total = sum(chosen)
    return [rounded(count / total) for count in chosen] if total else None


def disagreement(arms: Sequence[int]) -> float | None:
    """Return the share of agents that prefer another option than most; None if none prefers any.

    Examples
    --------
    >>> disagreement([0, 0, 0, 1, -1])
    0.25
    """
    counts = Counter(arm for arm in arms if arm >= 0)
    return 1.0 - max(counts.values()) / counts.total() if counts else None


def best_informed(states: Sequence[AgentState], num_arms: int) -> list[ArmState | None]:
    """Return for each option what the agent knows that has the most pulls of it."""
    found: list[ArmState | None] = [None] * num_arms
    for state in states:
        for k, arm in enumerate(state.arms):
            best = found[k]
            if arm.mean is not None and (best is None or arm.pulls > best.pulls):
                found[k] = arm
    return found


def who_is_ahead(arms: Sequence[ArmState | None]) -> tuple[int, float | None]:
    """Return the option with the largest mean, and how sure that is; -1 and None without any.

    The second is the probability that it is better than the one other option that comes closest,
    with normal errors as wide as the intervals. Against one of which nothing is known it is 1/2.
    It is None where an option has a mean without an interval, since nothing can be claimed of it.
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
    """Return the standard deviation behind an interval, one end of which may have been clipped."""
    if arm.mean is None or arm.low is None or arm.high is None:
        return 0.0
    return max(arm.high - arm.mean, arm.mean - arm.low) / QUANTILE
