"""Progress of a run: a live table, or without a terminal a line every few seconds."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coopbandits.fleet.local.stage import Stage

FRAMES_PER_SECOND = 4
LINE_SECONDS = 5.0
"""Time between two lines without a terminal."""

STYLES = {"up": "green", "starting": "yellow", "paused": "yellow", "dead": "bold red"}


def status_line(stage: Stage) -> str:
    """Return a line about the whole fleet."""
    left = stage.settings.seconds - stage.seconds
    parts = [
        f"regret {stage.regret:,.1f}",
        f"best arm {stage.best_share(stage.players):.0%}",
        *trouble_parts(stage),
        f"{left:.0f} s left" if left > 0.0 else "waiting until all agents know all",
    ]
    return " · ".join(parts)


def trouble_parts(stage: Stage) -> list[str]:
    """Return counts of the faults that were asked for."""
    settings, members = stage.settings, stage.members.all
    counts = [
        (settings.kill_every, "kills", sum(member.kills for member in members)),
        (settings.pause, "pauses", sum(member.pauses for member in members)),
        (settings.partition, "partitions", stage.cuts.count),
    ]
    return [f"{word} {count}" for asked, word, count in counts if asked is not None]


def plain_line(stage: Stage) -> str:
    """Return the line for output without a terminal."""
    last = min((health["round"] for health in stage.health.values()), default=0)
    return (
        f"{stage.seconds:5.1f} s · {len(stage.members.up())} of {len(stage.players)} up · "
        f"round {last:,} · pulls {stage.pulls.sum():,} · {status_line(stage)}"
    )


def draw(stage: Stage) -> Group:
    """Return the line and below it the table, so that a low terminal truncates the table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("agent", "state"):
        table.add_column(name)
    for name in ("round", "links", "pulls", "best arm", "open tickets"):
        table.add_column(name, justify="right")
    for member, player in zip(stage.members.all, stage.players, strict=True):
        round_, links, tickets = _reported(stage.health.get(member.place.id))
        best = f"{stage.best_share([player]):.0%}"
        state = Text(member.state, STYLES[member.state])
        pulls = f"{player.pulls.sum():,}"
        table.add_row(member.place.id, state, round_, links, pulls, best, tickets)
    return Group(Text(status_line(stage), overflow="ellipsis", no_wrap=True), table)


def _reported(health: dict[str, Any] | None) -> tuple[str, str, str]:
    """Return what an agent last reported: its round, links up of all, open tickets."""
    if health is None:
        return "–", "–", "–"
    links = list(health["links"].values())
    up = f"{links.count('up')}/{len(links)}"
    return f"{health['round']:,}", up, f"{health['open_tickets']:,}"


class Screen:
    """Shows the progress of a run."""

    def __init__(self, console: Console, stage: Stage) -> None:
        self.console, self.stage = console, stage
        self._next_line = LINE_SECONDS
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def show(self) -> None:
        """Update what is shown."""
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
