"""Applications: each takes a file, chooses how to compress it, and measures what that was worth.

While its agent is dead an application goes on with a default of its own, as it should. A reward
that nobody took is handed in later, under the same ticket: the agent counts it once.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from itertools import cycle
from typing import NamedTuple

from coopbandits.demo.files import Supply
from coopbandits.demo.options import OPTIONS, Measurement, measure
from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.local.players import Ending, Reward
from coopbandits.fleet.service import UnavailableError

PERIOD = 0.1
"""Seconds from one file of an application to the next, or longer where compressing takes longer."""
ANSWER_SECONDS = 0.5
FINISH_SECONDS = 30.0
"""How long an application tries to hand in what it still owes in the end."""
DEFAULT = "zlib-9"
"""What an application uses while its agent is away."""


class Deed(NamedTuple):
    """One file that was compressed.

    Attributes
    ----------
    moment : float
        When it was done, in seconds since the applications began.
    who : str
        The application.
    option : str
        What was chosen.
    found : Measurement
        What came of it.
    """

    moment: float
    who: str
    option: str
    found: Measurement


class Application(ABC):
    """Compresses one file after another.

    Parameters
    ----------
    who : str
        Its name.
    supply : Supply
        The files.

    Attributes
    ----------
    deeds : list of Deed
        What it has done.
    """

    def __init__(self, who: str, supply: Supply) -> None:
        self.who, self.supply = who, supply
        self.deeds: list[Deed] = []

    async def work(self, ending: Ending) -> None:
        """Compress files until told to end."""
        loop = asyncio.get_running_loop()
        self.began = due = loop.time()
        while not await ending.within(due - loop.time()):
            await self.compress_one()
            due = max(due + PERIOD, loop.time())

    @abstractmethod
    async def compress_one(self) -> None:
        """Choose, and compress one file."""

    async def compress(self, option: str) -> float:
        """Compress the next file, in a thread of its own; return the reward."""
        found = await asyncio.to_thread(measure, option, self.supply.take())
        moment = asyncio.get_running_loop().time() - self.began
        self.deeds.append(Deed(moment, self.who, option, found))
        return found.reward


class BlindApplication(Application):
    """Takes all options in turn: what the others are compared with."""

    def __init__(self, supply: Supply) -> None:
        super().__init__("blind", supply)
        self._options = cycle(OPTIONS)

    async def compress_one(self) -> None:
        """Take the next option."""
        await self.compress(next(self._options))


class AdvisedApplication(Application):
    """Asks its agent, and tells it what the choice was worth.

    Parameters
    ----------
    who, address : str
        The agent's name, and where its API is.
    supply : Supply
        The files.

    Attributes
    ----------
    acknowledged : list of Reward
        What the agent has acknowledged, for the audit.
    """

    def __init__(self, who: str, address: str, supply: Supply) -> None:
        super().__init__(who, supply)
        self.acknowledged: list[Reward] = []
        self._client = AsyncClient(address, timeout=ANSWER_SECONDS, default=DEFAULT)
        self._owed: list[tuple[str, float]] = []

    async def work(self, ending: Ending) -> None:
        """Compress files until told to end; then hand in what is still owed."""
        async with self._client:
            await super().work(ending)
            deadline = asyncio.get_running_loop().time() + FINISH_SECONDS
            while self._owed and asyncio.get_running_loop().time() < deadline:
                await self._hand_in()
                await asyncio.sleep(PERIOD)

    async def compress_one(self) -> None:
        """Do what the agent says, or the default if it does not answer."""
        choice = await self._client.choose()
        reward = await self.compress(choice.arm)
        if choice.ticket and not choice.is_default:
            self._owed.append((choice.ticket, reward))
            await self._hand_in()

    async def _hand_in(self) -> None:
        """Hand in what is owed, oldest first, as long as the agent takes it."""
        while self._owed:
            try:
                receipt = await self._client.observe(*self._owed[0])
            except (UnreachableError, UnavailableError):
                return
            self._owed.pop(0)
            arm = list(OPTIONS).index(receipt.arm)
            self.acknowledged.append(Reward(receipt.ticket, arm, receipt.reward, receipt.duplicate))
