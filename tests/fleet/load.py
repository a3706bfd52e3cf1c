"""Applications that use a whole fleet at a steady rate, with a default for each bandit."""

from __future__ import annotations

import asyncio
import heapq
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from coopbandits.fleet.client import AsyncClient, Client, UnreachableError
from coopbandits.fleet.local.faults import Dice
from coopbandits.fleet.service import (
    Choice,
    ExpiredTicketError,
    RateLimitError,
    UnauthorizedError,
    UnavailableError,
    UnknownBanditError,
)

from .process.agents import PATIENCE
from .test_changes_live import Totals

NAMES = [f"shop-{number}" for number in range(1, 7)]

DEFAULTS = {"button": "red", "banner": "a", "season": "winter", "search": "old"}
"""The bandits that applications ask; the first one is the default bandit."""

RATE = 200.0
"""Choices per second of all applications together; half of them are asyncio's."""

TIMEOUT = 1.0
"""Seconds that a call of an application may take."""

CONNECTIONS = 32

DELAYS = (0.0, 0.2, 1.0)
"""Seconds from a choice to its reward."""

PAUSE = 0.2
"""Seconds until a reward that was not accepted is submitted again."""

AnyClient = TypeVar("AnyClient", Client, AsyncClient)

LATER = UnreachableError, UnavailableError, RateLimitError, UnauthorizedError, UnknownBanditError
"""Errors after which an application submits a reward again."""


@dataclass
class Row:
    """What applications experienced while one change was made, and how long that took."""

    change: str
    requests: int = 0
    defaults: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    abandoned: int = 0
    errors: int = 0
    agreed: float = 0.0
    back: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        def listed(counter: Counter[str]) -> str:
            return ", ".join(f"{key} {count}" for key, count in counter.most_common()) or "-"

        return (
            f"{self.change:<31}{self.requests:>9}{self.requests / (self.seconds or 1):>5.0f}"
            f"{self.errors:>7}{self.agreed:>6.1f} s{self.back:>6.1f} s  "
            f"{listed(self.defaults)} | {listed(self.again)} | {self.abandoned}"
        )


HEAD = (
    f"\n{'change':<31}{'requests':>9}{'/s':>5}{'errors':>7}{'agree':>8}{'killed':>8}  "
    "defaults by reason | rewards submitted again, by error | abandoned"
)


class Owed(NamedTuple):
    """A reward to submit, in the order in which they are due."""

    due: float
    number: int
    bandit: str
    ticket: str
    reward: float


class Book:
    """What applications write down, and what their operator has them use."""

    def __init__(self, folder: Path, token: str) -> None:
        self.folder, self.token = folder, token
        self.bandits = ["button", "banner", "season"]
        self.over = threading.Event()
        self.row = Row("none")
        self.acknowledged: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self.tickets: set[str] = set()
        self.errors: list[str] = []
        self.longest = {"choose": 0.0, "observe": 0.0}
        self.counts: Counter[str] = Counter()
        self.units: dict[tuple[str, str], str] = {}
        self._lock, self._owed, self._choosing = threading.Lock(), 0, 2 * len(NAMES)

    def address(self, name: str) -> str:
        return f"unix:{self.folder / name / 'api'}"

    @property
    def is_settled(self) -> bool:
        """Whether applications have stopped, and every reward has its answer."""
        return self._choosing == 0 and self._owed == 0

    def plan(self, dice: Dice) -> tuple[str, dict[str, Any]]:
        """Return the bandit of the next request, and what to ask it."""
        bandit, word = dice.pick(self.bandits), dice.word()
        if bandit == "search":
            return bandit, {"context": {"hour": word % 25}}
        return bandit, {"unit": f"user-{word % 300}"} if bandit == "button" and word & 1 else {}

    def chose(
        self,
        bandit: str,
        unit: str | None,
        choice: Choice,
        reason: str | None,
        seconds: float,
        dice: Dice,
    ) -> Owed:
        """Note a choice; return its reward."""
        with self._lock:
            if unit is not None and choice.sticky:
                owner = choice.ticket.partition("@")[2]
                arm = self.units.setdefault((unit, owner), choice.arm)
                self.counts["moved"] += choice.arm != arm
            self.row.requests += 1
            if reason is not None:
                self.row.defaults[reason] += 1
            self._note("choose", seconds)
            self.counts[f"sticky {choice.sticky}"] += 1
            self._owed += 1
            self.counts["choices"] += 1
            due, reward = time.monotonic() + dice.pick(DELAYS), dice.word() % 5 / 4
            return Owed(due, self.counts["choices"], bandit, choice.ticket, reward)

    def submitted(
        self, owed: Owed, to: str, arm: str | None, error: Exception | None, seconds: float
    ) -> Owed | None:
        """Note what became of a reward; return it if it is to be submitted again."""
        with self._lock:
            self._note("observe", seconds)
            if isinstance(error, LATER):
                self.row.again[type(error).__name__.removesuffix("Error")] += 1
                return owed._replace(due=time.monotonic() + PAUSE)
            self._owed -= 1
            if isinstance(error, ExpiredTicketError) and "abandoned" in str(error):
                self.row.abandoned += 1
            elif error is not None:
                self._fail(f"observe at {to}, {owed}: {error!r}")
            elif not owed.ticket.startswith("default:"):
                assert arm is not None
                self.counts["elsewhere"] += owed.ticket.partition("@")[2] != to
                self.counts["twice"] += owed.ticket in self.tickets
                self.tickets.add(owed.ticket)
                self.acknowledged[owed.bandit, arm].append(owed.reward)
        return None

    def ended(self) -> None:
        """Note that a part of an application chooses no more."""
        with self._lock:
            self._choosing -= 1

    def failed(self, error: str) -> None:
        with self._lock:
            self._fail(error)

    def _fail(self, error: str) -> None:
        self.row.errors += 1
        self.errors.append(f"during {self.row.change!r}: {error}")

    def _note(self, call: str, seconds: float) -> None:
        self.longest[call] = max(self.longest[call], seconds)

    def totals(self) -> Totals:
        """Return the pulls and rewards that were acknowledged so far."""
        with self._lock:
            return {arm: (len(all_), sum(all_)) for arm, all_ in self.acknowledged.items()}


def anywhere(dice: Dice, own: str) -> str:
    """Return whom to submit a reward to: in a third of all cases any agent, else the usual one."""
    return dice.pick(NAMES) if dice.word() % 3 == 0 else own


def named(client: AnyClient) -> dict[str, AnyClient]:
    """Return clients by bandit; the default bandit is asked without its name."""
    found = {name: client.bandit(name, default=arm) for name, arm in DEFAULTS.items()}
    return found | {"button": client}


def increased(before: Any, after: Any) -> str:
    (reason,) = [reason for reason in after if after[reason] != before[reason]]
    return str(reason)


class Blocking:
    """Threads that choose, one per agent, and threads that submit their rewards."""

    def __init__(self, book: Book) -> None:
        self.book, self.heap, self.token = book, list[tuple[Owed, str]](), book.token
        self.some = threading.Condition()
        self.made: list[Client] = []
        self.shared = self._clients()
        self.threads = [threading.Thread(target=self._use, args=each) for each in enumerate(NAMES)]
        self.threads += [threading.Thread(target=self._submit, args=(each,)) for each in range(8)]
        for thread in self.threads:
            thread.daemon = True
            thread.start()

    def end(self) -> None:
        """Wait until every reward has its answer; leave no connection."""
        for thread in self.threads:
            thread.join(PATIENCE)
        for client in self.made:
            client.close()

    def _clients(self) -> dict[str, Client]:
        made = {
            name: Client(
                self.book.address(name),
                self.token,
                TIMEOUT,
                connections=CONNECTIONS,
                default=DEFAULTS["button"],
            )
            for name in NAMES
        }
        self.made += made.values()
        return made

    def _renew(self) -> dict[str, Client]:
        """Return clients with the present token."""
        with self.some:
            if self.token != self.book.token:
                self.token = self.book.token
                self.shared = self._clients()
            return self.shared

    def _use(self, at: int, name: str) -> None:
        try:
            self._choose(at, name)
        finally:
            self.book.ended()

    def _choose(self, at: int, name: str) -> None:
        book, dice, due = self.book, Dice(1, at), time.monotonic()
        client, bandits = None, dict[str, Client]()
        while not book.over.is_set():
            due = max(due + 2 * len(NAMES) / RATE, time.monotonic() - 1.0)
            if book.over.wait(due - time.monotonic()):
                break
            if client is not (client := self._renew()[name]):
                bandits = named(client)
            bandit, more = book.plan(dice)
            asked, before, began = bandits[bandit], bandits[bandit].defaults, time.monotonic()
            try:
                choice = asked.choose(**more)
            except Exception as error:  # the test shows it
                book.failed(f"choose at {name}: {error!r}")
                continue
            seconds = time.monotonic() - began
            reason = increased(before, asked.defaults) if choice.is_default else None
            owed = book.chose(bandit, more.get("unit"), choice, reason, seconds, dice)
            self._push(owed, name)

    def _push(self, owed: Owed, name: str) -> None:
        with self.some:
            heapq.heappush(self.heap, (owed, name))
            self.some.notify()

    def _next(self) -> tuple[Owed, str] | None:
        with self.some:
            left = self.heap[0][0].due - time.monotonic() if self.heap else 0.2
            if left > 0:
                self.some.wait(min(left, 0.2))
                return None
            return heapq.heappop(self.heap)

    def _submit(self, at: int) -> None:
        book, dice = self.book, Dice(2, at)
        while not book.is_settled:
            found = self._next()
            if found is None:
                continue
            owed, own = found
            to, arm, failure, began = anywhere(dice, own), None, None, time.monotonic()
            client = self._renew()[to].bandit(owed.bandit)
            try:
                arm = client.observe(owed.ticket, owed.reward).arm
            except Exception as error:  # the test shows those that it does not know
                failure = error
            again = book.submitted(owed, to, arm, failure, time.monotonic() - began)
            if again is not None:
                self._push(again, own)


class Asynchronous:
    """Tasks on an event loop in a thread: one per agent that chooses, and one per reward."""

    def __init__(self, book: Book) -> None:
        self.book, self.tasks, self.token = book, set[asyncio.Task[None]](), ""
        self.clients: dict[str, AsyncClient] = {}
        self.made: list[AsyncClient] = []
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self.thread.start()

    def end(self) -> None:
        """Wait until every reward has its answer."""
        self.thread.join(PATIENCE)

    async def _run(self) -> None:
        choosing = [asyncio.create_task(self._choose(*each)) for each in enumerate(NAMES)]
        try:
            await asyncio.gather(*choosing)
        finally:
            for _ in choosing:
                self.book.ended()
        while self.tasks:
            await asyncio.wait(self.tasks)
        for client in self.made:
            await client.close()

    def _client(self, name: str) -> AsyncClient:
        if self.token != self.book.token:
            self.token = self.book.token
            self.clients = {
                each: AsyncClient(
                    self.book.address(each),
                    self.token,
                    TIMEOUT,
                    connections=CONNECTIONS,
                    default=DEFAULTS["button"],
                )
                for each in NAMES
            }
            self.made += self.clients.values()
        return self.clients[name]

    async def _choose(self, at: int, name: str) -> None:
        book, dice, due = self.book, Dice(3, at), time.monotonic()
        client, bandits = None, dict[str, AsyncClient]()
        while not book.over.is_set():
            due = max(due + 2 * len(NAMES) / RATE, time.monotonic() - 1.0)
            await asyncio.sleep(due - time.monotonic())
            if client is not (client := self._client(name)):
                bandits = named(client)
            bandit, more = book.plan(dice)
            asked, before, began = bandits[bandit], bandits[bandit].defaults, time.monotonic()
            try:
                choice = await asked.choose(**more)
            except Exception as error:  # the test shows it
                book.failed(f"choose at {name}: {error!r}")
                continue
            seconds = time.monotonic() - began
            reason = increased(before, asked.defaults) if choice.is_default else None
            owed = book.chose(bandit, more.get("unit"), choice, reason, seconds, dice)
            task = asyncio.create_task(self._submit(owed, name, dice))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _submit(self, first: Owed, own: str, dice: Dice) -> None:
        owed: Owed | None = first
        while owed is not None:
            await asyncio.sleep(owed.due - time.monotonic())
            to, arm, failure, began = anywhere(dice, own), None, None, time.monotonic()
            client = self._client(to).bandit(owed.bandit)
            try:
                arm = (await client.observe(owed.ticket, owed.reward)).arm
            except Exception as error:  # the test shows those that it does not know
                failure = error
            owed = self.book.submitted(owed, to, arm, failure, time.monotonic() - began)
