"""What a watcher sees: a table drawn anew, or where there is no terminal a line now and then."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coopbandits.fleet.local_fleet.cuts import Cuts
from coopbandits.fleet.local_fleet.members import Member
from coopbandits.fleet.local_fleet.players import Player
from coopbandits.fleet.local_fleet.settings import Settings

FRAMES_PER_SECOND = 4
LINE_SECONDS = 5.0
"""So often a line is printed where there is no terminal."""

STYLES = {"up": "green", "starting": "yellow", "paused": "yellow", "dead": "bold red"}


@dataclass
class Stage:
    """Everybody who takes part in a play.

    Attributes
    ----------
    settings : Settings
        What is played.
    members : list of Member
        The agents.
    players : list of Player
        Their applications.
    cuts : Cuts
        The links that can be cut.
    health : dict of str to dict
        What each agent said of itself last.
    began : float
        When choosing began.
    """

    settings: Settings
    members: Sequence[Member]
    players: Sequence[Player]
    cuts: Cuts
    health: dict[str, dict[str, Any]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Return how long it has been played."""
        return time.monotonic() - self.began

    @property
    def pulls(self) -> int:
        """Return the number of rewards acknowledged."""
        return sum(len(player.rewards) for player in self.players)

    @property
    def regret(self) -> float:
        """Return the network's pseudo-regret of what was acknowledged."""
        gaps = self.settings.problem.gaps
        return float(sum(gaps[each.arm] for player in self.players for each in player.rewards))

    @property
    def best_share(self) -> float:
        """Return the share of best arms in all that was acknowledged."""
        return share_of_best(self.settings, self.players)


def share_of_best(settings: Settings, players: Sequence[Player]) -> float:
    """Return the share of best arms in what some players were acknowledged; 0 where it is none."""
    gaps = settings.problem.gaps
    hits = [gaps[each.arm] == 0.0 for player in players for each in player.rewards]
    return float(sum(hits) / max(1, len(hits)))


def status_line(stage: Stage) -> str:
    """Return what is known of the whole fleet, in up to 80 characters."""
    left = max(0.0, stage.settings.seconds - stage.seconds)
    parts = [
        f"regret {stage.regret:,.1f}",
        f"best arm {stage.best_share:.0%}",
        *trouble_parts(stage),
        f"{left:.0f} s left",
    ]
    return " · ".join(parts)


def trouble_parts(stage: Stage) -> list[str]:
    """Return what was done to the fleet, as far as it was asked for."""
    settings = stage.settings
    counts = [
        (settings.kill_every, sum(member.kills for member in stage.members), "kills"),
        (settings.pause, sum(member.pauses for member in stage.members), "pauses"),
        (settings.partition, stage.cuts.count, "partitions"),
    ]
    return [f"{count} {word}" for asked, count, word in counts if asked is not None]


def plain_line(stage: Stage) -> str:
    """Return a line for those without a terminal."""
    up = sum(member.state == "up" for member in stage.members)
    last = min((health["round"] for health in stage.health.values()), default=0)
    return (
        f"{stage.seconds:5.1f} s · {up} of {len(stage.members)} up · round {last} · "
        f"{stage.pulls:,} pulls · {status_line(stage)}"
    )


def draw(stage: Stage) -> Group:
    """Return the line and the table; the table is what is cut short on a low terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("agent", "state"):
        table.add_column(name)
    for name in ("round", "links", "pulls", "best arm", "open tickets"):
        table.add_column(name, justify="right")
    for member, player in zip(stage.members, stage.players, strict=True):
        health = stage.health.get(member.place.id)
        table.add_row(
            member.place.id,
            Text(member.state, STYLES[member.state]),
            f"{health['round']:,}" if health else "–",
            links(health) if health else "–",
            f"{len(player.rewards):,}",
            f"{share_of_best(stage.settings, [player]):.0%}",
            f"{health['open_tickets']:,}" if health else "–",
        )
    return Group(Text(status_line(stage), overflow="ellipsis", no_wrap=True), table)


def links(health: dict[str, Any]) -> str:
    """Return how many links are up, of how many."""
    states = list(health["links"].values())
    return f"{states.count('up')}/{len(states)}"


class Screen:
    """Shows a play while it lasts."""

    def __init__(self, console: Console, stage: Stage) -> None:
        self.console, self.stage = console, stage
        self._next_line = LINE_SECONDS
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def show(self) -> None:
        """Show how it stands now."""
        if self.console.is_terminal:
            self._live.update(draw(self.stage), refresh=True)
        elif self.stage.seconds >= self._next_line:
            self._next_line += LINE_SECONDS
            self.console.print(plain_line(self.stage), highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()
