"""Plays a fleet: starts agents, lets applications choose, makes trouble, looks, and judges."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console

from coopbandits.fleet.config import read_config
from coopbandits.fleet.local_fleet import summary
from coopbandits.fleet.local_fleet.audit import Verdict, judge
from coopbandits.fleet.local_fleet.cuts import Cuts
from coopbandits.fleet.local_fleet.ending import Ending
from coopbandits.fleet.local_fleet.layout import Place, prepared, require_empty, write_configs
from coopbandits.fleet.local_fleet.members import Members
from coopbandits.fleet.local_fleet.players import Player, Tape
from coopbandits.fleet.local_fleet.screen import FRAMES_PER_SECOND, Screen, Stage
from coopbandits.fleet.local_fleet.settings import Settings
from coopbandits.fleet.local_fleet.trouble import troubles

WATCH_SECONDS = 0.5
"""How often agents are asked how they are."""

FINISH_SECONDS = 30.0
"""How long applications may take to hand in what is open at the end,"""
SETTLE_SECONDS = 30.0
"""and how long news may travel, until all agents know all."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Outcome(NamedTuple):
    """What came of a play.

    Attributes
    ----------
    text : str
        The summary.
    sentence : str
        What it says of conservation.
    holds : bool
        Whether every acknowledged reward was counted exactly once, and every agent answers.
    interrupted : bool
        Whether it was ended before its time.
    """

    text: str
    sentence: str
    holds: bool
    interrupted: bool


def play(settings: Settings, out: Path | None = None, console: Console | None = None) -> Outcome:
    """Play a fleet on this machine.

    Parameters
    ----------
    settings : Settings
        What to play.
    out : Path, optional
        An empty or new folder that keeps all files; without it they are removed.
    console : Console, optional
        Where to show how it goes.

    Raises
    ------
    FleetError
        An agent cannot be started, ended by itself, or refused its application.
    KeyboardInterrupt
        A second signal came, before the first one had ended the play.
    """
    if out is not None:
        require_empty(out)
    with nullcontext(out) if out else TemporaryDirectory(prefix="coopbandits-") as folder:
        try:
            return asyncio.run(_play(settings, Path(folder), console or Console(quiet=True)))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


async def _play(settings: Settings, folder: Path, console: Console) -> Outcome:
    ending = Ending()
    with _interruptible(ending), prepared(folder, settings) as places:
        async with Cuts(_edges(settings, places)) as cuts:
            write_configs(places, settings, cuts.detours)
            read_config(places[0].config, now=time.time())  # refuses what no agent would take
            async with Members(places) as members:
                stage = _stage(settings, members, cuts)
                await _perform(stage, members, ending, console)
                seconds = stage.seconds
                verdict = await _settle(stage, members)
    found = summary.as_json(stage, verdict, seconds)
    (folder / "summary.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    text, sentence = summary.as_text(stage, verdict, seconds), summary.conservation(verdict)
    return Outcome(text, sentence, verdict.holds, ending.interrupted)


@contextmanager
def _interruptible(ending: Ending) -> Iterator[None]:
    """Let the first signal end the play, and the second one everything."""
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


def _edges(settings: Settings, places: list[Place]) -> list[tuple[Place, Place]]:
    """Return the links that relays are needed for."""
    if settings.partition is None:
        return []
    network = settings.network
    return [
        (places[i], places[j]) for i in range(len(places)) for j in network.neighbors(i) if i < j
    ]


def _stage(settings: Settings, members: Members, cuts: Cuts) -> Stage:
    players = [
        Player(
            member.place,
            Tape(settings.problem, settings.seed, agent),
            settings.pulls_per_second,
        )
        for agent, member in enumerate(members.all)
    ]
    return Stage(settings, members.all, players, cuts)


async def _perform(stage: Stage, members: Members, ending: Ending, console: Console) -> None:
    """Let everybody do their part until the time is over."""
    try:
        async with asyncio.TaskGroup() as group:
            helpers = [
                group.create_task(_watch(stage, members)),
                group.create_task(_show(stage, console)),
            ]
            parts = [player.play(ending) for player in stage.players]
            parts += troubles(stage.settings, members, stage.cuts, ending)
            tasks = [group.create_task(part) for part in parts]
            await ending.within(stage.settings.seconds)
            ending.set()
            _, late = await asyncio.wait(tasks, timeout=FINISH_SECONDS)
            for task in [*late, *helpers]:
                task.cancel()
    except ExceptionGroup as group_error:
        raise group_error.exceptions[0] from None


async def _watch(stage: Stage, members: Members) -> None:
    while True:
        for member in members.all:
            member.require_alive()
        answers = await members.ask("health")
        for member, answer in zip(members.all, answers, strict=True):
            if answer is not None:
                stage.health[member.place.id] = answer
        await asyncio.sleep(WATCH_SECONDS)


async def _show(stage: Stage, console: Console) -> None:
    with Screen(console, stage) as screen:
        while True:
            screen.show()
            await asyncio.sleep(1 / FRAMES_PER_SECOND)


async def _settle(stage: Stage, members: Members) -> Verdict:
    """Let news travel until all accounts agree, or for as long as they may take."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_SECONDS
    while True:
        verdict = await _judge(stage, members)
        if verdict.holds or loop.time() > deadline:
            return verdict
        await asyncio.sleep(WATCH_SECONDS / 5)


async def _judge(stage: Stage, members: Members) -> Verdict:
    ids = [member.place.id for member in members.all]
    problem = stage.settings.problem
    return judge(
        stage.settings.policy,
        (problem.gaps == 0.0).tolist(),
        [each for player in stage.players for each in player.rewards],
        dict(zip(ids, await members.ask("arms"), strict=True)),
        dict(zip(ids, await members.ask("health"), strict=True)),
    )
