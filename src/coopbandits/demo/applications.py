"""The demo's applications: each reads a file, chooses how to compress it, and computes the reward.

**Options** are compression libraries and levels, each at a fixed price: thorough ones cost more, as
rented processor time would. The reward of a choice is the share of its size that the file lost,
less the price. Rewards therefore depend on the files alone, however busy the machine is.

**Files** are made of Python's own standard library, of two kinds. *Texts* are modules, joined.
*Backups* are the archives of four nights in a row: the same modules zipped every night, one of them
exchanged, so that most bytes of a night repeat those of the night before. They are compressed
already, so only the repetition is left to gain. It lies more than 32 KB back, which is as far as
zlib looks; lzma looks further.

**Applications** continue with a default of their own while their agent is dead, as they should. A
reward that could not be submitted is submitted later, under the same ticket: it counts once.
"""

from __future__ import annotations

import asyncio
import bz2
import io
import lzma
import sysconfig
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from coopbandits.core.errors import InputError
from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.local.applications import Ending, Reward
from coopbandits.fleet.service import UnavailableError


class Option(NamedTuple):
    """A way to compress.

    Attributes
    ----------
    compress : callable
        A library at a level; all are in Python's standard library.
    price : float
        The share of a file's size that its use costs.
    """

    compress: Callable[[bytes], bytes]
    price: float


OPTIONS = {
    "zlib-1": Option(partial(zlib.compress, level=1), 0.05),
    "zlib-9": Option(partial(zlib.compress, level=9), 0.25),
    "bz2-9": Option(partial(bz2.compress, compresslevel=9), 0.35),
    "lzma-0": Option(partial(lzma.compress, preset=0), 0.25),
    "lzma-6": Option(partial(lzma.compress, preset=6), 0.50),
}
SIGMA = 0.1
"""Rewards of one option differ by less from file to file (standard deviation .01 to .08)."""


class Measurement(NamedTuple):
    """One file, compressed in one way: bytes before and after, and the option's price."""

    size: int
    compressed: int
    price: float

    @property
    def reward(self) -> float:
        """Share of bytes saved, less the price, and at least 0."""
        return max(0.0, 1.0 - self.compressed / self.size - self.price)


def measure(option: str, data: bytes) -> Measurement:
    compress, price = OPTIONS[option]
    return Measurement(len(data), len(compress(data)), price)


TEXT_BYTES = 150_000
NIGHTS = 4
NIGHT_BYTES = 38_000
"""The minimum size of one night's archive: zlib looks 32 768 bytes back."""
EXCHANGED = 5_000
"""The maximum number of new bytes in a night."""
LARGEST_MODULE = 50_000
"""Larger ones are left out, so that files have similar sizes."""
COUNT = 40
"""Files of each kind."""


class Supply:
    """Cycles through texts, and through backups after `change`."""

    def __init__(self, texts: Sequence[bytes], backups: Sequence[bytes]) -> None:
        self._next, self._later = cycle(texts), cycle(backups)

    def take(self) -> bytes:
        return next(self._next)

    def change(self) -> None:
        self._next = self._later


def make_supply(folder: Path | None = None, count: int = COUNT) -> Supply:
    """Make `count` files of each kind from the modules in a folder, by default the library's."""
    place = folder or Path(sysconfig.get_path("stdlib"))
    paths = sorted([*place.glob("*.py"), *place.glob("*/*.py")])
    modules = [path.read_bytes() for path in paths if path.stat().st_size <= LARGEST_MODULE]
    if sum(map(len, modules)) < TEXT_BYTES:
        raise InputError(
            f"{place} contains less than {TEXT_BYTES} bytes of Python modules, which the demo "
            "compresses; run it with a Python that has its standard library there"
        )
    made = texts(cycle(modules)), backups(cycle(modules))
    return Supply(*(list(islice(each, count)) for each in made))


def texts(modules: Iterable[bytes]) -> Iterator[bytes]:
    """Yield files of the same size, of joined modules."""
    waiting = b""
    for module in modules:
        waiting += module
        if len(waiting) >= TEXT_BYTES:
            yield waiting[:TEXT_BYTES]
            waiting = b""


def backups(modules: Iterable[bytes]) -> Iterator[bytes]:
    """Yield joined archives of some nights, each with another new module."""
    more = iter(modules)
    while True:
        kept: list[bytes] = []
        size = 0
        while size < NIGHT_BYTES:
            kept.append(next(more))
            size += len(zlib.compress(kept[-1]))
        yield b"".join(zipped([*kept, next(more)[:EXCHANGED]]) for _ in range(NIGHTS))


def zipped(files: Sequence[bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, data in enumerate(files):
            archive.writestr(f"{number}.py", data)
    return content.getvalue()


PERIOD = 0.1
"""Seconds from one file of an application to the next, unless compressing takes longer."""
ANSWER_SECONDS = 0.5
FINISH_SECONDS = 30.0
"""How long an application tries to submit its last rewards."""
BANDIT = "compression"
"""The bandit that all agents have."""
DEFAULT = "zlib-9"
"""The option while the agent does not answer."""


class Deed(NamedTuple):
    """One file that was compressed.

    Attributes
    ----------
    moment : float
        The time, in seconds since the applications began.
    who : str
        The application.
    option : str
        The choice.
    found : Measurement
        The result.
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
        All files that it has compressed.
    """

    def __init__(self, who: str, supply: Supply) -> None:
        self.who, self.supply = who, supply
        self.deeds: list[Deed] = []

    async def work(self, ending: Ending) -> None:
        """Compress files until `ending` is set."""
        loop = asyncio.get_running_loop()
        self.began = due = loop.time()
        while not await ending.within(due - loop.time()):
            await self.compress_one()
            due = max(due + PERIOD, loop.time())

    @abstractmethod
    async def compress_one(self) -> None:
        """Choose an option, and compress one file."""

    async def compress(self, option: str) -> float:
        """Compress the next file, in a thread; return the reward."""
        found = await asyncio.to_thread(measure, option, self.supply.take())
        moment = asyncio.get_running_loop().time() - self.began
        self.deeds.append(Deed(moment, self.who, option, found))
        return found.reward


class BlindApplication(Application):
    """The baseline: takes all options in turn."""

    def __init__(self, supply: Supply) -> None:
        super().__init__("blind", supply)
        self._options = cycle(OPTIONS)

    async def compress_one(self) -> None:
        await self.compress(next(self._options))


class AdvisedApplication(Application):
    """Asks its agent for choices, and submits the rewards.

    Parameters
    ----------
    who, address : str
        The agent's name, and the address of its API.
    supply : Supply
        The files.

    Attributes
    ----------
    acknowledged : list of Reward
        The rewards that the agent has acknowledged, for the audit.
    """

    def __init__(self, who: str, address: str, supply: Supply) -> None:
        super().__init__(who, supply)
        self.acknowledged: list[Reward] = []
        self._client = AsyncClient(address, timeout=ANSWER_SECONDS, default=DEFAULT, bandit=BANDIT)
        self._pending: list[tuple[str, float]] = []  # tickets and rewards to be submitted

    async def work(self, ending: Ending) -> None:
        """Compress files until `ending` is set; then submit the rewards that are left."""
        async with self._client:
            await super().work(ending)
            deadline = asyncio.get_running_loop().time() + FINISH_SECONDS
            while self._pending and asyncio.get_running_loop().time() < deadline:
                await self._submit()
                await asyncio.sleep(PERIOD)

    async def compress_one(self) -> None:
        choice = await self._client.choose()
        reward = await self.compress(choice.arm)
        if choice.ticket and not choice.is_default:
            self._pending.append((choice.ticket, reward))
            await self._submit()

    async def _submit(self) -> None:
        """Submit pending rewards, oldest first, as long as the agent accepts them."""
        while self._pending:
            try:
                receipt = await self._client.observe(*self._pending[0])
            except (UnreachableError, UnavailableError):
                return
            self._pending.pop(0)
            arm = list(OPTIONS).index(receipt.arm)
            self.acknowledged.append(Reward(receipt.ticket, arm, receipt.reward, receipt.duplicate))
