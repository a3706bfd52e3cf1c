"""Watches a running fleet: polls the agents' states, and discovers further agents through them.

One known address is enough. Every agent names its neighbours' APIs, which are polled as well, at
every address that some agent names, until one answers. Since agents may lie or be of another fleet,
all states are validated, and the number of agents, events and characters is bounded.
"""

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
"""Minimum seconds between two requests to one agent,"""
LONGEST_PAUSE = 1.0
"""and the maximum, however long it has not answered."""

LONGEST_REST = 5.0
"""The maximum for an agent whose answers are invalid: parsing takes time, too."""

AT_ONCE = 128
"""Concurrent requests to agents that answered last time,"""
TRIED_AT_ONCE = 64
"""and to those that did not, per agent that named them: so a liar delays only agents that it names
itself."""

MOST_AGENTS = 2000
"""Maximum number of agents,"""
SILENT_SECONDS = 60.0
"""unless one that has not answered for this long can be dropped."""

LONGEST_NAME = 63
"""Maximum length of an agent's name, as for links."""

LARGEST, HUGE = 2**53, 1e300
"""Upper limits of counts, and of other numbers."""

MOST_EVENTS, MOST_TEXT = 200, 2**18
"""Limits of events in one answer, and of characters in all its names and texts."""

MOST_WATCHED, UNWATCHED_SECONDS = 8, 60.0
"""Bandits watched besides the first, each until no page has read it for this long."""
LOOK_SECONDS = 10.0
"""Interval of checking for that."""

STEP_SECONDS = 1.0
"""Interval of recording the present while no page reads."""


class Watch:
    """Keeps a feed of a fleet up to date.

    Parameters
    ----------
    addresses : sequence of str
        The first agents; one is enough if agents know each other's APIs.
    token : str, optional
        Sent to agents, by the rule of `Doorman`.
    tls : ssl.SSLContext, optional
        For agents whose API uses TLS.
    bandit : str
        Which of several bandits; by default the first one of the agent that answers first.

    Attributes
    ----------
    feed : Feed
        The present and the past of the fleet.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        bandit: str = "",
    ) -> None:
        if not addresses:
            raise InputError("no agent to watch; give the address of at least one")
        self.addresses, self.bandit = addresses, bandit
        self.given = [parse_target(address) for address in addresses]
        self.doorman = Doorman(self.given, token, tls)
        self.feed = Feed("fleet", time.time())
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._known: set[str] = set()  # agents polled at an address that the user gave
        self._found: dict[str, _Found] = {}  # and those discovered through others
        self._silent: dict[str, float] = {}  # since when, of the latter; the longest first

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
        """Poll an agent at the addresses that others name, in turn until one answers."""
        pause = PERIOD
        while True:
            for target in self._found[name].targets:
                pause = await self._follow(target, tries, name, pause)

    async def _follow(
        self, target: Target, tries: asyncio.Semaphore, name: str = "", pause: float = PERIOD
    ) -> float:
        """Poll one address; without a name, whichever agent answers there.

        Returns when a discovered agent does not answer and has other addresses, or when the agent
        is polled elsewhere already; the result is the last pause.
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
                        shown = name = state.id
                        # An address given by the user counts more than what others say.
                        self._known.add(name)
                        if name in self._found:
                            self._drop(name)
                    self.feed.update(state, time.time())
                except (UnreachableError, UnavailableError, InputError) as error:
                    if not name and self._is_named(target):
                        self.feed.forget(shown)  # it is shown by its name instead
                    else:
                        self.feed.lose(shown, _reason(error), time.time())
                    nonsense = isinstance(error, InputError)
                    pause = min(2 * pause, LONGEST_REST if nonsense else LONGEST_PAUSE)
                    turns, is_up = tries, False
                    if name in self._found:
                        self._silent.setdefault(name, time.monotonic())
                else:
                    # Before it names others: otherwise it might be dropped to make room for them.
                    self._silent.pop(name, None)
                    since = max([since, *(event.seq for event in state.events)])
                    pause, turns, is_up = PERIOD, self._turns, True
                    self._find(state, target, named)
                await asyncio.sleep(max(0.0, began + pause - time.monotonic()))
                if not is_up and name in self._found and self._found[name].targets != [target]:
                    return pause

    def _is_named(self, target: Target) -> bool:
        """Return whether some agent says who should answer at an address."""
        return any(target in found.targets for found in self._found.values())

    def _require_bandit(self, state: AgentState) -> None:
        """Watch the first bandit that is reported; reject states of another one."""
        self.bandit = self.bandit or state.bandits[0]
        if state.bandits[0] != self.bandit:
            raise InputError(f"it reports another bandit than {self.bandit}")

    def of(self, bandit: str) -> Watch:
        """Return a watch over another bandit of the same agents."""
        return Watch(self.addresses, self.doorman.token, self.doorman.tls, bandit)

    def _find(self, state: AgentState, by: Target, tries: asyncio.Semaphore) -> None:
        """Poll the neighbours that an agent names, too."""
        for neighbor in state.neighbors:
            name, found = neighbor.name, self._found.get(neighbor.name)
            if neighbor.api is None or name in self._known:
                continue
            if found is not None and found.named.get(state.id) == neighbor.api:
                continue  # the usual case, five times a second and neighbour: skip the parsing
            try:
                target = parse_target(neighbor.api)
            except InputError:  # then it is shown as its neighbours see it
                continue
            if not self.doorman.may_be_named(target, by):
                continue
            if found is not None:
                found.named[state.id] = neighbor.api
            elif len(self._found) < MOST_AGENTS or self._make_room():
                self._silent[name] = time.monotonic()
                task = self._group.create_task(self._follow_found(name, tries))
                self._found[name] = _Found({state.id: neighbor.api}, task)

    def _make_room(self) -> bool:
        """Drop the agent silent for longest, if that is long enough; return whether it was."""
        name, since = next(iter(self._silent.items()), ("", math.inf))
        if time.monotonic() - since < SILENT_SECONDS:
            return False
        self._drop(name)
        self.feed.forget(name)
        return True

    def _drop(self, name: str) -> None:
        """Stop polling a discovered agent."""
        self._found.pop(name).task.cancel()
        self._silent.pop(name, None)


def read_state(content: object, name: str) -> AgentState:
    """Return an agent's validated state; reject one of another agent than `name`, if given."""
    try:
        state = msgspec.convert(content, AgentState)
    except msgspec.ValidationError as error:
        raise InputError(f"invalid state: {error}; is the agent of this version?") from None
    require_possible(state)
    if name and state.id != name:
        raise InputError(f"{state.id!r} answers at its address")
    return state


def require_possible(state: AgentState) -> None:
    """Reject names, numbers and amounts of text that no agent has: the page relies on them."""
    names = [state.id, *(neighbor.name for neighbor in state.neighbors)]
    if len(state.version) > LONGEST_NAME:
        raise InputError("it reports an impossible version")
    if len(names) > MOST_AGENTS or not all(0 < len(name) <= LONGEST_NAME for name in names):
        raise InputError("it reports impossible names of agents")
    if not state.arms or not state.bandits:
        raise InputError("it reports no arm or no bandit")
    texts = [state.cluster, state.policy, state.ready or "", state.prefers or ""]
    texts += [arm.arm for arm in state.arms] + state.bandits
    texts += [text for each in state.neighbors for text in (each.why, each.api or "")]
    texts += [text for event in state.events for text in (event.kind, event.text)]
    if len(state.events) > MOST_EVENTS or sum(map(len, texts)) > MOST_TEXT:
        raise InputError("it reports more than a page can show")
    counts = [state.round, state.incarnation, state.choices, state.open_tickets]
    counts += [arm.choices for arm in state.arms]
    counts += [neighbor.frames for neighbor in state.neighbors]
    counts += [event.seq for event in state.events]
    reals = [state.now, *(event.t for event in state.events)]
    for arm in state.arms:
        reals += [arm.mean or 0.0, arm.low or 0.0, arm.high or 0.0, arm.pulls]
    if min(counts) < 0 or max(counts) > LARGEST or not all(abs(x) < HUGE for x in reals):
        raise InputError("it reports impossible numbers")


def _reason(error: Exception) -> str:
    """Return why an agent does not answer, in a few words."""
    cause = error.__cause__
    if isinstance(error, UnreachableError) and cause is not None:
        errno = getattr(cause, "errno", None)  # asyncio's own message repeats the address
        return os.strerror(errno).lower() if errno else str(cause) or "timed out"
    return str(error)


@asynccontextmanager
async def shown_beside(
    ready: Callable[[str], None], addresses: Sequence[str]
) -> AsyncIterator[None]:
    """Serve a page over some agents until the block ends; `ready` is called with its address."""
    async with served(FleetSite(Watch(addresses))) as page:
        ready(page.address)
        yield


class FleetSite(Shown):
    """The page over a fleet, with a watch for every bandit that a page shows.

    Parameters
    ----------
    watch : Watch
        Watches the first bandit, as long as the page is served.
    token : str, optional
        Required of callers.
    """

    def __init__(self, watch: Watch, token: str | None = None) -> None:
        super().__init__(token)
        self.watch = watch
        self.endpoints[f"{ROOT}events"] = Endpoint("GET", self.events)
        self._others: dict[str, _Other] = {}

    def events(self, request: Request) -> Answer:
        """Stream the changes of a bandit."""
        asked = dict(parse_qsl(request.route.query)).get("bandit", "")[:LONGEST_NAME]
        watch = self.watch if asked in ("", self.watch.bandit) else self._watch(asked)

        def refresh() -> None:
            if watch is not self.watch:
                self._watch(asked)
            watch.feed.step(time.time())

        return self.page_stream(watch.feed, refresh)

    def _watch(self, bandit: str) -> Watch:
        """Return the watch over a bandit, which ends once this is no longer called."""
        if bandit not in self._others:
            if len(self._others) >= MOST_WATCHED:
                raise InputError(
                    f"{MOST_WATCHED} bandits are watched besides the first, which is the limit; "
                    f"close a page, and retry after {UNWATCHED_SECONDS:g} s"
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
    """A discovered agent: its addresses by who names them, and the task that polls it."""

    named: dict[str, str]
    task: asyncio.Task[None]

    @property
    def targets(self) -> list[Target]:
        """Its distinct addresses."""
        return list(dict.fromkeys(map(parse_target, dict.fromkeys(self.named.values()))))


@dataclass
class _Other:
    """A watch over a further bandit, its task, and the time of the last request for it."""

    watch: Watch
    task: asyncio.Task[None]
    asked: float = 0.0
