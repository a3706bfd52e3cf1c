"""Watches a fleet: asks every agent for its state, and finds further ones through them."""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qsl

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.dashboard.serving import Shown, served
from coopbandits.dashboard.targets import Doorman, Target, parse_target
from coopbandits.fleet.api.messages import Answer
from coopbandits.fleet.api.site import ROOT, Endpoint, Request
from coopbandits.fleet.client import UnreachableError
from coopbandits.fleet.service import UnavailableError
from coopbandits.page.feed import Feed
from coopbandits.page.state import AgentState

PERIOD = 0.2
"""Seconds between two questions to one agent, at least,"""
LONGEST_PAUSE = 1.0
"""and at most, however long it has not answered."""

LONGEST_REST = 5.0
"""Who answers with nonsense is asked less often: reading it takes time, too."""

AT_ONCE = 128
"""So many agents are asked at the same time,"""
TRIED_AT_ONCE = 64
"""and, of those that one agent named, so many that did not answer last time: only others that it
named have to wait for them."""

MOST_AGENTS = 2000
"""Neighbours beyond are not asked,"""
SILENT_SECONDS = 60.0
"""unless one that has not answered for so long makes room."""

LONGEST_NAME = 63
"""Of an agent, as links require it."""

LARGEST, HUGE = 2**53, 1e300
"""No count is larger, and no other number."""

MOST_EVENTS, MOST_TEXT = 200, 2**18
"""Events of one answer, and characters of all names and texts in it."""

MOST_WATCHED, UNWATCHED_SECONDS = 8, 60.0
"""So many bandits are watched besides the first, each until no page has looked for so long."""
LOOK_SECONDS = 10.0
"""How often it is looked whether any page has."""

STEP_SECONDS = 1.0
"""How often the present is remembered while nobody reads."""


class Watch:
    """Keeps a feed of a fleet up to date.

    Parameters
    ----------
    addresses : sequence of str
        Agents to begin with: one is enough where agents tell each other their APIs.
    token : str, optional
        Shown to agents, as `Doorman` says.
    tls : ssl.SSLContext, optional
        For agents whose API has TLS.
    bandit : str
        Which of several bandits; without it, the first of whoever answers first.

    Attributes
    ----------
    feed : Feed
        What is known.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        bandit: str = "",
    ) -> None:
        if not addresses:
            raise InputError("no agent to watch was given; give the address of one at least")
        self.addresses, self.bandit = addresses, bandit
        self.given = [parse_target(address) for address in addresses]
        self.doorman = Doorman(self.given, token, tls)
        self.feed = Feed("fleet", time.time())
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._known: set[str] = set()  # agents that are asked at an address given by hand
        self._found: dict[str, _Found] = {}  # and those that were found
        self._silent: dict[str, float] = {}  # since when, of these; the longest comes first

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            tries = asyncio.Semaphore(TRIED_AT_ONCE)
            for target in dict.fromkeys(self.given):
                self._group.create_task(self._follow(target, tries))
            while True:
                self.feed.step(time.time())
                await asyncio.sleep(STEP_SECONDS)

    async def _follow_found(self, name: str, tries: asyncio.Semaphore) -> None:
        """Ask an agent wherever others say it is, one place after the other until it answers."""
        pause = PERIOD
        while True:
            for target in self._found[name].targets:
                pause = await self._follow(target, tries, name, pause)

    async def _follow(
        self, target: Target, tries: asyncio.Semaphore, name: str = "", pause: float = PERIOD
    ) -> float:
        """Ask one agent again and again; without a name, whoever is found there.

        Ends once a found one does not answer that is said to be elsewhere, too; returns how long
        it waited last.
        """
        shown, since, turns = name or str(target), 0, tries
        named = asyncio.Semaphore(TRIED_AT_ONCE)
        async with self.doorman.client(target) as client:
            while True:
                began = time.monotonic()
                try:
                    async with turns:
                        content = await client.state(since, self.bandit)
                    state = read_state(content, name)
                    self._require_bandit(state)
                    if not name:
                        self.feed.forget(shown)
                        if state.id in self._known:  # another address of the same agent
                            return pause
                        shown = name = self._meet(state.id)
                    self.feed.tell(state, time.time())
                except (UnreachableError, UnavailableError, InputError) as error:
                    self.feed.lose(shown, _reason(error), time.time())
                    nonsense = isinstance(error, InputError)
                    pause = min(2 * pause, LONGEST_REST if nonsense else LONGEST_PAUSE)
                    turns, is_up = tries, False
                    if name in self._found:
                        self._silent.setdefault(name, time.monotonic())
                else:
                    self._silent.pop(name, None)  # before it names others, for whom it might go
                    since = max([since, *(event.seq for event in state.events)])
                    pause, turns, is_up = PERIOD, self._turns, True
                    self._find(state, target, named)
                await asyncio.sleep(max(0.0, began + pause - time.monotonic()))
                if not is_up and name in self._found and self._found[name].targets != [target]:
                    return pause

    def _require_bandit(self, state: AgentState) -> None:
        """Go by what is shown first; refuse another bandit, also of who was asked before that."""
        self.bandit = self.bandit or state.bandits[0]
        if state.bandits[0] != self.bandit:
            raise InputError(f"it tells of another bandit than {self.bandit}")

    def of(self, bandit: str) -> Watch:
        """Return a watch over the same agents that looks at another bandit."""
        return Watch(self.addresses, self.doorman.token, self.doorman.tls, bandit)

    def _meet(self, name: str) -> str:
        """Note who is at an address given by hand; that counts more than what others say."""
        self._known.add(name)
        if name in self._found:
            self._drop(name)
        return name

    def _find(self, state: AgentState, by: Target, tries: asyncio.Semaphore) -> None:
        """Ask neighbours whose API is known, too."""
        for neighbor in state.neighbors:
            name, found = neighbor.name, self._found.get(neighbor.name)
            if neighbor.api is None or name in self._known:
                continue
            if found is not None and found.told.get(state.id) == neighbor.api:
                continue  # five times a second from every neighbour: no time to read it again
            try:
                target = parse_target(neighbor.api)
            except InputError:  # the neighbour is shown as others see it
                continue
            if not self.doorman.may_be_named(target, by):
                continue
            if found is not None:
                found.told[state.id] = neighbor.api
            elif len(self._found) < MOST_AGENTS or self._make_room():
                self._silent[name] = time.monotonic()
                task = self._group.create_task(self._follow_found(name, tries))
                self._found[name] = _Found({state.id: neighbor.api}, task)

    def _make_room(self) -> bool:
        """Give up whoever has been silent longest, if that is long; return whether anyone was."""
        name, since = next(iter(self._silent.items()), ("", math.inf))
        if time.monotonic() - since < SILENT_SECONDS:
            return False
        self._drop(name)
        self.feed.forget(name)
        return True

    def _drop(self, name: str) -> None:
        """Stop asking an agent that was found."""
        self._found.pop(name).task.cancel()
        self._silent.pop(name, None)


def read_state(content: object, name: str) -> AgentState:
    """Return an agent's state; refuse what does not look like one, or comes from another."""
    try:
        state = msgspec.convert(content, AgentState)
    except msgspec.ValidationError as error:
        raise InputError(f"what it tells does not fit: {error}; is it of this version?") from None
    require_possible(state)
    if name and state.id != name:
        raise InputError(f"{state.id!r} answers at its address")
    return state


def require_possible(state: AgentState) -> None:
    """Refuse names and numbers that no agent has: what follows counts on them."""
    names = [state.id, *(neighbor.name for neighbor in state.neighbors)]
    if len(names) > MOST_AGENTS or not all(0 < len(name) <= LONGEST_NAME for name in names):
        raise InputError("it names agents that cannot be")
    if not state.arms or not state.bandits:
        raise InputError("it tells of no option, and an agent has some")
    _require_brief(state)
    counts = [state.round, state.incarnation, state.choices, state.open_tickets]
    counts += [arm.choices for arm in state.arms]
    counts += [neighbor.frames for neighbor in state.neighbors]
    counts += [event.seq for event in state.events]
    reals = [state.now, *(event.t for event in state.events)]
    for arm in state.arms:
        reals += [arm.mean or 0.0, arm.low or 0.0, arm.high or 0.0, arm.pulls]
    if min(counts) < 0 or max(counts) > LARGEST or not all(abs(x) < HUGE for x in reals):
        raise InputError("it tells numbers that cannot be")


def _require_brief(state: AgentState) -> None:
    """Refuse more than a page could show, or this process keep of a thousand agents."""
    texts = [state.cluster, state.policy, state.ready or "", state.prefers or ""]
    texts += [arm.arm for arm in state.arms] + state.bandits
    texts += [text for each in state.neighbors for text in (each.why, each.api or "")]
    texts += [text for event in state.events for text in (event.kind, event.text)]
    if len(state.events) > MOST_EVENTS or sum(map(len, texts)) > MOST_TEXT:
        raise InputError("it tells more than a page can show")


def _reason(error: Exception) -> str:
    """Return why an agent does not answer, in a few words."""
    cause = error.__cause__
    if isinstance(error, UnreachableError) and cause is not None:
        errno = getattr(cause, "errno", None)  # asyncio puts the address into its own words
        return os.strerror(errno).lower() if errno else str(cause) or "timed out"
    return str(error)


@asynccontextmanager
async def shown_beside(
    told: Callable[[str], None], addresses: Sequence[str]
) -> AsyncIterator[None]:
    """Show some agents on a page of this machine until the block ends; `told` hears its address."""
    async with served(FleetSite(Watch(addresses))) as page:
        told(page.address)
        yield


class FleetSite(Shown):
    """The page over a fleet, with a watch for every bandit that somebody looks at.

    Parameters
    ----------
    watch : Watch
        Watches the first of them, as long as the page is served.
    token : str, optional
        Required of whoever reads.
    """

    def __init__(self, watch: Watch, token: str | None = None) -> None:
        super().__init__(token)
        self.watch = watch
        self.endpoints[f"{ROOT}events"] = Endpoint("GET", self.events)
        self._others: dict[str, _Other] = {}

    def events(self, request: Request) -> Answer:
        """Tell a page of everything that changes about a bandit."""
        asked = dict(parse_qsl(request.query)).get("bandit", "")[:LONGEST_NAME]
        watch = self.watch if asked in ("", self.watch.bandit) else self._watch(asked)

        def refresh() -> None:
            if watch is not self.watch:
                self._watch(asked)
            watch.feed.step(time.time())

        return self.page_stream(watch.feed, refresh)

    def _watch(self, bandit: str) -> Watch:
        """Return the watch over a bandit, which goes on as long as this is asked."""
        if bandit not in self._others:
            if len(self._others) >= MOST_WATCHED:
                raise InputError(
                    f"{MOST_WATCHED} bandits are watched besides the first; close a page, and try "
                    f"again after {UNWATCHED_SECONDS:g} s"
                )
            watch = self.watch.of(bandit)
            self._others[bandit] = _Other(watch, self._group.create_task(watch.run()))
        self._others[bandit].asked = time.monotonic()
        return self._others[bandit].watch

    async def run(self) -> None:
        """Watch the fleet."""
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(self.watch.run())
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                late = time.monotonic() - UNWATCHED_SECONDS
                for name, other in list(self._others.items()):
                    if other.asked < late:
                        self._others.pop(name).task.cancel()


@dataclass
class _Found:
    """The addresses that others say an agent has, by who says so, and the task that asks it."""

    told: dict[str, str]
    task: asyncio.Task[None]

    @property
    def targets(self) -> list[Target]:
        """The places, each once."""
        return list(dict.fromkeys(map(parse_target, dict.fromkeys(self.told.values()))))


@dataclass
class _Other:
    """A watch over a further bandit, its work, and when a page last asked for it."""

    watch: Watch
    task: asyncio.Task[None]
    asked: float = 0.0
