"""The demo's measurements over time: shares, rewards, sentences, a figure and a table."""

from __future__ import annotations

import csv
import io
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.demo.applications import OPTIONS, Deed
from coopbandits.plots import Curve, Moment, figure_bytes, timeline_figure
from coopbandits.plots.writing import write_files

RECENT = 4.0
"""Seconds over which shares and means are taken."""


class Mark(NamedTuple):
    """An event, in a few words for the figure."""

    moment: float
    text: str


class Leader(NamedTuple):
    """An option, and its share of the choices."""

    option: str
    share: float


@dataclass
class Story:
    """The measurements and events of a demo.

    Attributes
    ----------
    advised, blind : list of Deed
        Files compressed by applications with an agent, and by the one without, by time.
    marks : list of Mark
        Events.
    change : float or None
        When the files changed their kind, in seconds since the applications began.
    end : float
        When the applications ended.
    """

    advised: list[Deed] = field(default_factory=list)
    blind: list[Deed] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    change: float | None = None
    end: float = 0.0

    @property
    def times(self) -> NDArray[np.float64]:
        """Times of the curves' points, half a second apart."""
        return np.arange(0.5, max(1.0, self.end) + 0.25, 0.5)

    def shares(self) -> NDArray[np.float64]:
        """Return the share of every option in recent choices (time, option)."""
        return np.array([[share for _, share in self._leaders(at)] for at in self.times])

    def rewards(self, deeds: Sequence[Deed]) -> NDArray[np.float64]:
        """Return the mean of recent rewards (time,)."""
        return np.array([mean_reward(_between(deeds, at - RECENT, at)) for at in self.times])

    def leader(self, at: float) -> Leader | None:
        """Return the option chosen most in the seconds before a time; None without choices."""
        found = max(self._leaders(at), key=lambda leader: leader.share)
        return found if found.share > 0.0 else None

    def _leaders(self, at: float) -> list[Leader]:
        chosen = [deed.option for deed in _between(self.advised, at - RECENT, at)]
        return [Leader(each, chosen.count(each) / max(1, len(chosen))) for each in OPTIONS]

    @property
    def noticed(self) -> float | None:
        """Seconds from the change until another option led for good; None if none did."""
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
        """Return the findings."""
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
                "They had not settled on another option."
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


# Report

FIGURE, TABLE = "demo.png", "measurements.csv"
HEAD = ("second", "application", "option", "bytes", "compressed_bytes", "price", "reward")


def write_report(story: Story, folder: Path) -> list[Path]:
    """Write the figure and the table; return their paths."""
    figure = timeline_figure(
        story.times,
        list(OPTIONS),
        story.shares(),
        [
            Curve("with agents", story.times, story.rewards(story.advised)),
            Curve("all in turn", story.times, story.rewards(story.blind)),
        ],
        [Moment(*mark) for mark in story.marks],
        ylabel="reward of a file",
        title=f"What six agents chose, in the last {RECENT:g} s",
    )
    contents = {
        folder / FIGURE: figure_bytes(figure, "png"),
        folder / TABLE: table(story).encode(),
    }
    write_files(contents)
    return list(contents)


def table(story: Story) -> str:
    """Return all measurements as CSV, by time."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for deed in sorted(story.advised + story.blind):
        size, compressed, price = deed.found
        reward = f"{deed.found.reward:.4f}"
        writer.writerow(
            (f"{deed.moment:.3f}", deed.who, deed.option, size, compressed, price, reward)
        )
    return text.getvalue()
