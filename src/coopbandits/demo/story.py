"""What happened, as numbers and sentences."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.demo.application import Deed
from coopbandits.demo.options import OPTIONS

RECENT = 4.0
"""Seconds over which shares and means are taken."""


class Mark(NamedTuple):
    """Something that happened at a moment, in a few words for the figure."""

    moment: float
    text: str


class Leader(NamedTuple):
    """The option chosen most, and its share of the choices."""

    option: str
    share: float


@dataclass
class Story:
    """What happened in a demo.

    Attributes
    ----------
    advised, blind : list of Deed
        What was done by the applications with an agent, and by the one without, in order.
    marks : list of Mark
        What happened when.
    change : float or None
        When the files changed their kind, in seconds since the applications began.
    end : float
        When they ended.
    """

    advised: list[Deed] = field(default_factory=list)
    blind: list[Deed] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    change: float | None = None
    end: float = 0.0

    @property
    def times(self) -> NDArray[np.float64]:
        """Moments at which curves have points, half a second apart."""
        return np.arange(0.5, max(1.0, self.end) + 0.25, 0.5)

    def shares(self) -> NDArray[np.float64]:
        """Return the share of every option in the recent choices (moment, option)."""
        return np.array([[share for _, share in self._leaders(at)] for at in self.times])

    def rewards(self, deeds: Sequence[Deed]) -> NDArray[np.float64]:
        """Return the mean reward of some recent deeds (moment)."""
        return np.array([mean_reward(_between(deeds, at - RECENT, at)) for at in self.times])

    def leader(self, at: float) -> Leader | None:
        """Return the option chosen most in the seconds before a moment; None without choices."""
        found = max(self._leaders(at), key=lambda leader: leader.share)
        return found if found.share > 0.0 else None

    def _leaders(self, at: float) -> list[Leader]:
        chosen = [deed.option for deed in _between(self.advised, at - RECENT, at)]
        return [Leader(each, chosen.count(each) / max(1, len(chosen))) for each in OPTIONS]

    @property
    def noticed(self) -> float | None:
        """Seconds from the change until most chose otherwise than before; None if they did not."""
        if self.change is None or (before := self.leader(self.change)) is None:
            return None
        same = [
            at
            for at in self.times
            if at > self.change and (now := self.leader(at)) and now.option == before.option
        ]
        last = max(same, default=self.change)
        return None if last >= self.times[-1] else float(last) - self.change

    def sentences(self) -> list[str]:
        """Return what was found."""
        return [sentence for sentence in (self._preferred(), self._gained()) if sentence]

    def _preferred(self) -> str:
        last = self.leader(self.end)
        if last is None:
            return ""
        now = f"{last.option} ({last.share:.0%} of the last choices)"
        if self.change is None or (before := self.leader(self.change)) is None:
            return f"The agents preferred {now}."
        old = f"{before.option} ({before.share:.0%})"
        if self.noticed is None:
            return (
                f"Before the files changed, the agents preferred {old}; in the end, {now}. "
                "They had not noticed the change for good."
            )
        return (
            f"Before the files changed, the agents preferred {old}; in the end, {now}. "
            f"It took them {self.noticed:.0f} s to turn to another option."
        )

    def _gained(self) -> str:
        ours, theirs = mean_reward(self.advised), mean_reward(self.blind)
        if not theirs > 0.0:  # none yet, or NaN
            return ""
        return (
            f"A file was worth {ours:.2f} on average, and {theirs:.2f} to an application that "
            f"took all options in turn: {ours / theirs:.1f} times as much."
        )


def mean_reward(deeds: Iterable[Deed]) -> float:
    """Return the mean reward; NaN of none."""
    rewards = [deed.found.reward for deed in deeds]
    return sum(rewards) / len(rewards) if rewards else float("nan")


def _between(deeds: Sequence[Deed], after: float, until: float) -> Sequence[Deed]:
    first, last = (bisect_right(deeds, at, key=lambda deed: deed.moment) for at in (after, until))
    return deeds[first:last]
