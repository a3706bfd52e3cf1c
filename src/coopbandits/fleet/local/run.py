"""Runs a local fleet: simulated applications choose, faults are injected, the result is audited.

`play` is the whole run. `opened` starts the agents in a folder and gives a `LocalFleet`, `perform`
lets applications choose until time is up, and `settle` waits until the audit holds. Meanwhile the
progress is shown: a live table on a terminal, otherwise a line every few seconds. At the end there
is a summary, as text and as JSON.
"""

from __future__ import annotations

import asyncio
import json
import platform
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coopbandits.core.contract import Vector
from coopbandits.fleet.config import read_config
from coopbandits.fleet.local.agents import (
    Members,
    arm_names,
    prepared,
    require_empty,
    write_configs,
)
from coopbandits.fleet.local.applications import Ending, Player, Tape, Verdict, add_up, judge
from coopbandits.fleet.local.faults import Cuts, fault_injectors
from coopbandits.fleet.local.settings import Settings
from coopbandits.results.statistics import columns
from coopbandits.version import __version__

WATCH_SECONDS = 0.5
"""Time between two health checks."""

FINISH_SECONDS = 30.0
"""How long applications may take at the end to complete open choices,"""
SETTLE_SECONDS = 30.0
"""and messages to reach all agents."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)

Beside = Callable[[list[str]], AbstractAsyncContextManager[object]]
"""Makes what runs beside a fleet, from the addresses of all agents' APIs."""


class Outcome(NamedTuple):
    """The outcome of a run.

    Attributes
    ----------
    text : str
        The summary.
    sentence : str
        Its sentence on conservation.
    holds : bool
        Whether every acknowledged reward was counted exactly once, and every agent answered.
    interrupted : bool
        Whether it ended early.
    """

    text: str
    sentence: str
    holds: bool
    interrupted: bool


@dataclass
class LocalFleet:
    """A running fleet and its applications.

    Attributes
    ----------
    settings : Settings
        Settings of the run.
    members : Members
        The agents.
    players : list of Player
        Their applications, in the same order.
    cuts : Cuts
        The links that can be cut.
    health : dict of str to dict
        Each agent's last health report.
    began : float
        When all agents were ready.
    """

    settings: Settings
    members: Members
    players: list[Player]
    cuts: Cuts
    health: dict[str, dict[str, Any]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since all agents were ready."""
        return time.monotonic() - self.began

    @property
    def pulls(self) -> NDArray[np.int64]:
        """Number of acknowledged rewards by arm."""
        return sum_pulls(self.players)

    @property
    def regret(self) -> float:
        """The network's pseudo-regret of all acknowledged pulls."""
        return float(self.settings.problem.gaps @ self.pulls)

    def best_share(self, players: Iterable[Player]) -> float:
        """Return the share of best arms in some players' acknowledged pulls; 0 without any."""
        pulls = sum_pulls(players)
        return float(pulls[self.settings.problem.gaps == 0.0].sum() / max(1, pulls.sum()))

    def fault_counts(self) -> list[str]:
        """Return the number of faults of each kind that was requested."""
        settings, members = self.settings, self.members.all
        counts = [
            (settings.kill_every, "kills", sum(member.kills for member in members)),
            (settings.pause, "pauses", sum(member.pauses for member in members)),
            (settings.partition, "partitions", self.cuts.count),
        ]
        return [f"{word} {count}" for requested, word, count in counts if requested is not None]


def sum_pulls(players: Iterable[Player]) -> NDArray[np.int64]:
    total: NDArray[np.int64] = np.sum([player.pulls for player in players], axis=0)
    return total


def play(
    settings: Settings,
    out: Path | None = None,
    console: Console | None = None,
    beside: Beside | None = None,
) -> Outcome:
    """Run a fleet on this machine.

    Parameters
    ----------
    settings : Settings
        Settings of the run.
    out : Path, optional
        An empty or new folder for all files; without it they are removed at the end.
    console : Console, optional
        Shows progress.
    beside : callable, optional
        What runs beside the fleet, such as a page that shows it.

    Raises
    ------
    FleetError
        An agent could not be started, exited on its own, or rejected a call of its application.
    KeyboardInterrupt
        A second signal came before the first one had ended the run.
    """
    if out is not None:
        require_empty(out)
    with nullcontext(out) if out else TemporaryDirectory(prefix="coopbandits-") as folder:
        try:
            screen = console or Console(quiet=True)
            return asyncio.run(_play(settings, Path(folder), screen, beside))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


async def _play(
    settings: Settings, folder: Path, console: Console, beside: Beside | None
) -> Outcome:
    ending = Ending()
    with interruptible(ending):
        async with opened(settings, folder) as fleet, running(beside, fleet.members):
            try:
                async with asyncio.TaskGroup() as group:
                    watchers = [
                        group.create_task(_watch(fleet)),
                        group.create_task(_show(fleet, console)),
                    ]
                    await perform(fleet, ending)
                    seconds = fleet.seconds
                    verdict = await settle(fleet)
                    for watcher in watchers:
                        watcher.cancel()
            except ExceptionGroup as errors:
                raise first_error(errors) from None
    found = summary_data(fleet, verdict, seconds)
    (folder / "summary.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    text = summary_text(fleet, verdict, seconds)
    return Outcome(text, conservation(verdict), verdict.holds, ending.interrupted)


@asynccontextmanager
async def opened(settings: Settings, folder: Path) -> AsyncIterator[LocalFleet]:
    """Start a fleet in a folder, wait until all agents are ready, and stop them at the end."""
    network = settings.network
    with prepared(folder, settings) as places:
        edges = []  # the links that may be cut
        if settings.partition is not None:
            pairs = ((i, j) for i in range(len(places)) for j in network.neighbors(i) if i < j)
            edges = [(places[i], places[j]) for i, j in pairs]
        async with Cuts(edges) as cuts:
            write_configs(places, settings, cuts.detours)
            read_config(
                places[0].config, now=time.time()
            )  # one error here instead of one per agent
            async with Members(places) as members:
                players = [
                    Player(
                        place,
                        Tape(settings.problem, settings.seed, agent),
                        settings.pulls_per_second,
                    )
                    for agent, place in enumerate(places)
                ]
                yield LocalFleet(settings, members, players, cuts)


def running(beside: Beside | None, members: Members) -> AbstractAsyncContextManager[object]:
    """Return what runs beside some agents, if anything."""
    if beside is None:
        return nullcontext()
    return beside([member.place.api for member in members.all])


@contextmanager
def interruptible(ending: Ending) -> Iterator[None]:
    """Have the first signal end the run cleanly, and the second one abort it."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101  it runs in one

    def interrupt() -> None:
        if ending.interrupted:
            task.cancel()
        ending.interrupt()

    for number in SIGNALS:
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def first_error(error: Exception) -> Exception:
    """Return the error that cancelled the rest."""
    return first_error(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


async def perform(fleet: LocalFleet, ending: Ending) -> None:
    """Let applications choose and inject faults until time is up and no choice is open."""
    async with asyncio.TaskGroup() as group:
        parts = [player.play(ending) for player in fleet.players]
        parts += fault_injectors(fleet.settings, fleet.members, fleet.cuts, ending)
        tasks = [group.create_task(part) for part in parts]
        await ending.within(fleet.settings.seconds)
        ending.set()
        _, late = await asyncio.wait(tasks, timeout=FINISH_SECONDS)
        for task in late:
            task.cancel()


async def settle(fleet: LocalFleet) -> Verdict:
    """Wait until all accounts agree, or for `SETTLE_SECONDS`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_SECONDS
    problem = fleet.settings.problem
    rewards = (each for player in fleet.players for each in player.rewards)
    acknowledged = add_up(rewards, problem.num_arms)
    while True:
        verdict = judge(
            fleet.settings.policy,
            (problem.gaps == 0.0).tolist(),
            acknowledged,
            await fleet.members.ask("arms"),
            await fleet.members.ask("health"),
        )
        if verdict.holds or loop.time() > deadline:
            return verdict
        await asyncio.sleep(WATCH_SECONDS / 5)


async def _watch(fleet: LocalFleet) -> None:
    while True:
        for member in fleet.members.all:
            member.require_alive()
        answers = await fleet.members.ask("health")
        fleet.health |= {who: answer for who, answer in answers.items() if answer is not None}
        await asyncio.sleep(WATCH_SECONDS)


async def _show(fleet: LocalFleet, console: Console) -> None:
    with Screen(console, fleet) as screen:
        while True:
            screen.show()
            await asyncio.sleep(1 / FRAMES_PER_SECOND)


# Progress

FRAMES_PER_SECOND = 4
LINE_SECONDS = 5.0
"""Time between two lines without a terminal."""

STYLES = {"up": "green", "starting": "yellow", "paused": "yellow", "dead": "bold red"}


class Screen:
    """Shows the progress of a run."""

    def __init__(self, console: Console, fleet: LocalFleet) -> None:
        self.console, self.fleet = console, fleet
        self._next_line = LINE_SECONDS
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def show(self) -> None:
        """Update what is shown."""
        if self.console.is_terminal:
            self._live.update(draw(self.fleet), refresh=True)
        elif self.fleet.seconds >= self._next_line:
            self._next_line += LINE_SECONDS
            self.console.print(plain_line(self.fleet), highlight=False, soft_wrap=True)

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


def status_line(fleet: LocalFleet) -> str:
    """Return a line about the whole fleet."""
    left = fleet.settings.seconds - fleet.seconds
    parts = [
        f"regret {fleet.regret:,.1f}",
        f"best arm {fleet.best_share(fleet.players):.0%}",
        *fleet.fault_counts(),
        f"{left:.0f} s left" if left > 0.0 else "waiting until all agents know all",
    ]
    return " · ".join(parts)


def plain_line(fleet: LocalFleet) -> str:
    """Return the line for output without a terminal."""
    last = min((health["round"] for health in fleet.health.values()), default=0)
    return (
        f"{fleet.seconds:5.1f} s · {len(fleet.members.up())} of {len(fleet.players)} up · "
        f"round {last:,} · pulls {fleet.pulls.sum():,} · {status_line(fleet)}"
    )


def draw(fleet: LocalFleet) -> Group:
    """Return the line and below it the table, so that a small terminal truncates the table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("agent", "state"):
        table.add_column(name)
    for name in ("round", "links", "pulls", "best arm", "open tickets"):
        table.add_column(name, justify="right")
    for member, player in zip(fleet.members.all, fleet.players, strict=True):
        round_ = links = tickets = "–"
        if (health := fleet.health.get(member.place.id)) is not None:
            states = list(health["links"].values())
            links = f"{states.count('up')}/{len(states)}"
            round_, tickets = f"{health['round']:,}", f"{health['open_tickets']:,}"
        best, pulls = f"{fleet.best_share([player]):.0%}", f"{player.pulls.sum():,}"
        state = Text(member.state, STYLES[member.state])
        table.add_row(member.place.id, state, round_, links, pulls, best, tickets)
    return Group(Text(status_line(fleet), overflow="ellipsis", no_wrap=True), table)


# Summary


def summary_text(fleet: LocalFleet, verdict: Verdict, seconds: float) -> str:
    """Return the summary; `seconds` is how long applications chose."""
    settings = fleet.settings
    head = (
        f"{settings.network.description}, {settings.policy}, {seconds:.1f} s, seed {settings.seed}"
    )
    lines = [*columns(_arm_rows(verdict)), "", *columns(_rows(fleet, verdict), left=(0, 1))]
    return "\n".join([head, "", *(line.rstrip() for line in lines)])


def _arm_rows(verdict: Verdict) -> list[tuple[str, ...]]:
    """Return acknowledged and held rewards by arm, of the account that differs most."""

    def pair(account: Vector, arm: int) -> tuple[str, str]:
        reward, pulls = account.reshape(2, -1)[:, arm]
        return f"{pulls:.10g}", f"{reward:.10g}"

    differences = verdict.differences.reshape(2, -1).max(axis=0)
    rows: list[tuple[str, ...]] = [
        ("", "acknowledged:", "", "held by agents:", "", "largest"),
        ("arm", "pulls", "reward", "pulls", "reward", "difference"),
    ]
    for arm, name in enumerate(arm_names(differences.size)):
        held = verdict.accounts[verdict.farthest]
        difference = f"{differences[arm]:.2g}"
        rows.append((name, *pair(verdict.acknowledged, arm), *pair(held, arm), difference))
    return rows


def _rows(fleet: LocalFleet, verdict: Verdict) -> list[tuple[str, ...]]:
    share, pulls = fleet.best_share(fleet.players), fleet.pulls.sum()
    rows: list[tuple[str, ...]] = [
        ("conservation", conservation(verdict)),
        ("best arm found by", f"{verdict.best_found} of {len(fleet.players)} agents"),
        ("regret", f"{fleet.regret:,.1f}; {share:.0%} of {pulls:,} pulls were best"),
    ]
    if faults := fleet.fault_counts():
        lost = sum(each.duplicate for player in fleet.players for each in player.rewards)
        rows.append(("trouble", ", ".join(faults)))
        rows.append(("calls made again", f"{sum(each.retries for each in fleet.players):,}"))
        rows.append(("answers lost", f"{lost:,}"))
    restarts = [seconds for member in fleet.members.all for seconds in member.readiness[1:]]
    if restarts:
        rows.append(("longest restart", f"{max(restarts):.2f} s until ready"))
    return rows


def conservation(verdict: Verdict) -> str:
    """Return one sentence on whether all rewards were conserved."""
    total = int(verdict.acknowledged.reshape(2, -1)[1].sum())
    if verdict.problem:
        return f"not shown: {verdict.problem}"
    if not verdict.holds:
        error = float((verdict.differences / verdict.scale).max())
        return f"broken: {verdict.farthest} differ by {error:.2g} from what was acknowledged"
    if not verdict.held:
        return f"holds: {total:,} rewards counted once; estimates conserve on average"
    return f"holds: {total:,} rewards acknowledged, each counted exactly once"


def summary_data(fleet: LocalFleet, verdict: Verdict, seconds: float) -> dict[str, Any]:
    """Return the summary as plain data."""
    return {
        "versions": {
            "coopbandits": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "settings": fleet.settings.describe(),
        "seconds": seconds,
        "arms": arm_names(fleet.settings.problem.num_arms),
        "acknowledged": verdict.acknowledged.tolist(),
        "own": verdict.own.tolist(),
        "held": {who: account.tolist() for who, account in verdict.held.items()},
        "conservation": conservation(verdict),
        "holds": verdict.holds,
        "best_found": verdict.best_found,
        "answering": verdict.answering,
        "regret": fleet.regret,
        "partitions": fleet.cuts.count,
        "agents": {
            member.place.id: {
                "pulls": len(player.rewards),
                "retries": player.retries,
                "kills": member.kills,
                "pauses": member.pauses,
                "seconds_until_ready": member.readiness,
            }
            for member, player in zip(fleet.members.all, fleet.players, strict=True)
        },
    }
