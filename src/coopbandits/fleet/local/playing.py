"""Runs a local fleet: applications choose, faults are injected, and the result is audited."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console

from coopbandits.fleet.local import summary
from coopbandits.fleet.local.audit import Verdict, add_up, judge
from coopbandits.fleet.local.layout import require_empty
from coopbandits.fleet.local.members import Members
from coopbandits.fleet.local.players import Ending
from coopbandits.fleet.local.screen import FRAMES_PER_SECOND, Screen
from coopbandits.fleet.local.settings import Settings
from coopbandits.fleet.local.stage import Stage, opened
from coopbandits.fleet.local.trouble import troubles

WATCH_SECONDS = 0.5
"""Time between two health checks."""

FINISH_SECONDS = 30.0
"""How long applications may take to complete open choices at the end,"""
SETTLE_SECONDS = 30.0
"""and how long news may then take to reach all agents."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)


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


Beside = Callable[[list[str]], AbstractAsyncContextManager[object]]
"""What runs beside a fleet; it is handed the addresses of all agents' APIs."""


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
        An agent could not be started, exited on its own, or refused its application.
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
        async with opened(settings, folder) as stage, running(beside, stage.members):
            seconds, verdict = await _watched(stage, ending, console)
    found = summary.as_json(stage, verdict, seconds)
    (folder / "summary.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    text, sentence = summary.as_text(stage, verdict, seconds), summary.conservation(verdict)
    return Outcome(text, sentence, verdict.holds, ending.interrupted)


def running(beside: Beside | None, members: Members) -> AbstractAsyncContextManager[object]:
    """Return what runs beside some agents."""
    if beside is None:
        return nullcontext()
    return beside([member.place.api for member in members.all])


@contextmanager
def interruptible(ending: Ending) -> Iterator[None]:
    """Let the first signal end the run in order, and the second abort it."""
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


async def _watched(stage: Stage, ending: Ending, console: Console) -> tuple[float, Verdict]:
    """Perform and settle while showing progress; return the duration and the verdict."""
    try:
        async with asyncio.TaskGroup() as group:
            watchers = [
                group.create_task(_watch(stage)),
                group.create_task(_show(stage, console)),
            ]
            await perform(stage, ending)
            seconds = stage.seconds
            verdict = await settle(stage)
            for watcher in watchers:
                watcher.cancel()
    except ExceptionGroup as errors:
        raise first_error(errors) from None
    return seconds, verdict


def first_error(error: Exception) -> Exception:
    """Return the error that cancelled the rest."""
    return first_error(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


async def perform(stage: Stage, ending: Ending) -> None:
    """Let applications choose and inject faults until time is up and no choice is open."""
    async with asyncio.TaskGroup() as group:
        parts = [player.play(ending) for player in stage.players]
        parts += troubles(stage.settings, stage.members, stage.cuts, ending)
        tasks = [group.create_task(part) for part in parts]
        await ending.within(stage.settings.seconds)
        ending.set()
        _, late = await asyncio.wait(tasks, timeout=FINISH_SECONDS)
        for task in late:
            task.cancel()


async def settle(stage: Stage) -> Verdict:
    """Wait until all accounts agree, or for `SETTLE_SECONDS`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_SECONDS
    rewards = (each for player in stage.players for each in player.rewards)
    acknowledged = add_up(rewards, stage.settings.problem.num_arms)
    while True:
        verdict = judge(
            stage.settings.policy,
            (stage.settings.problem.gaps == 0.0).tolist(),
            acknowledged,
            await stage.members.ask("arms"),
            await stage.members.ask("health"),
        )
        if verdict.holds or loop.time() > deadline:
            return verdict
        await asyncio.sleep(WATCH_SECONDS / 5)


async def _watch(stage: Stage) -> None:
    while True:
        for member in stage.members.all:
            member.require_alive()
        answers = await stage.members.ask("health")
        stage.health |= {who: answer for who, answer in answers.items() if answer is not None}
        await asyncio.sleep(WATCH_SECONDS)


async def _show(stage: Stage, console: Console) -> None:
    with Screen(console, stage) as screen:
        while True:
            screen.show()
            await asyncio.sleep(1 / FRAMES_PER_SECOND)
