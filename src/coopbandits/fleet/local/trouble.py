"""Fault injection by a seed: agents are killed and paused, parts of the network cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np

from coopbandits.core.draws import stream_key, words
from coopbandits.fleet.local.cuts import Cuts
from coopbandits.fleet.local.ending import Ending
from coopbandits.fleet.local.members import Members
from coopbandits.fleet.local.settings import Settings

T = TypeVar("T")

TROUBLE = 16
"""The stream of random words for faults."""

DEAD_SECONDS = 0.3
"""How long a killed agent stays dead."""


class Dice:
    """A sequence of seeded draws; each kind of fault has its own."""

    def __init__(self, seed: int, kind: int) -> None:
        self._key = stream_key(seed, TROUBLE, kind)
        self._drawn = 0

    def word(self) -> int:
        """Return the next 64 random bits."""
        counter = np.array([self._drawn], dtype=np.uint64)
        self._drawn += 1
        return int(words(self._key, counter)[0])

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[self.word() % len(choices)]

    def split(self, names: Sequence[str]) -> set[str]:
        """Return a subset of the names: at least one, not all."""
        places = self.word() % (2 ** len(names) - 2) + 1
        return {name for at, name in enumerate(names) if places >> at & 1}


def troubles(
    settings: Settings, members: Members, cuts: Cuts, ending: Ending
) -> list[Coroutine[Any, Any, None]]:
    """Return the coroutines that inject faults; each undoes its own when the run ends."""
    found: list[Coroutine[Any, Any, None]] = []
    if settings.kill_every is not None:
        dice = Dice(settings.seed, 0)
        found.append(kill_some(members, settings.kill_every, dice, ending))
    if settings.pause is not None:
        dice = Dice(settings.seed, 1)
        found.append(pause_some(members, settings.pause, dice, ending))
    if settings.partition is not None:
        dice = Dice(settings.seed, 2)
        found.append(cut_some(members, cuts, settings.partition, dice, ending))
    return found


async def kill_some(members: Members, every: float, dice: Dice, ending: Ending) -> None:
    """Kill an agent every `every` seconds, or once the previous one is ready again."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        due = max(due + every, loop.time())
        if await ending.within(due - loop.time()):
            return
        living = members.up()
        if living:
            member = dice.pick(living)
            await member.kill()
            await asyncio.sleep(DEAD_SECONDS)
            await members.restart(member)


async def pause_some(members: Members, seconds: float, dice: Dice, ending: Ending) -> None:
    """Alternate: one agent stopped for some seconds, then none for as long."""
    calm = seconds / 2
    while not await ending.within(calm):
        living = members.up()
        if living:
            member = dice.pick(living)
            member.pause()
            await ending.within(seconds)
            member.resume()
        calm = seconds


async def cut_some(
    members: Members, cuts: Cuts, seconds: float, dice: Dice, ending: Ending
) -> None:
    """Alternate: some agents cut off for some seconds, then none for as long."""
    names = [member.place.id for member in members.all]
    calm = seconds / 2
    while not await ending.within(calm):
        cuts.cut(dice.split(names))
        await ending.within(seconds)
        cuts.mend()
        calm = seconds
