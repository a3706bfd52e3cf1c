"""Calls of an agent, written once for both clients: retries, circuit breaker, default, connections.

The calls are coroutines that await only what a `Transport` does: connect, send and receive, wait
for a free connection, pause. `AsyncClient` gives them a transport of asyncio. `Client` gives them
one that blocks instead of suspending, so that its coroutines end at the first step (`blocking.py`),
and needs no event loop, nor to import asyncio.

All calls are idempotent, so a call that finds the connection broken makes another attempt: at once,
since a kept connection may be stale, then after growing pauses until its time is up.
"""

from __future__ import annotations

import math
import os
import select
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from httptools import HttpParserError

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, parse_place, show_place
from coopbandits.fleet.client.exchange import (
    ALIVE,
    BANDITS,
    BROKEN,
    CLUSTER,
    HEALTH,
    READY,
    REASONS,
    Content,
    CutOffError,
    Reason,
    Reply,
    ReplyParser,
    Request,
    UnreachableError,
    adopt_request,
    arms_request,
    choose_request,
    drain_request,
    export_request,
    head_of,
    observe_request,
    prefix_of,
    reason_of,
    recommendation_request,
    state_request,
    unpack,
)
from coopbandits.fleet.service import (
    CONFIDENCE,
    DEFAULT,
    ArmEstimate,
    BanditState,
    Choice,
    Context,
    Receipt,
    Recommendation,
    UnavailableError,
    require_allowed,
    require_context,
    require_reward,
    require_ticket,
    require_unit,
)

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""Seconds before the second retry, and before late ones; the first follows at once."""

CONNECTIONS = 8

FAILURES = 3
"""Calls in a row that must fail, each after its whole timeout, before others fail at once."""

PROBE_SECONDS = 0.5
"""The least time between two probes."""

GLANCE = 0.05
"""Seconds that the call which begins a probe waits for it: enough for an agent on this machine."""

LOG_SECONDS = 60.0
"""The least time between two warnings about the same reason: calls may fail and work in turns."""

LONGEST_LOGGED = 500
"""Characters of an error that are logged."""


class Breaker:
    """A circuit breaker: whether the agent is away, so that calls need not wait to find out.

    It opens when some calls in a row have failed, and closes with the first answer, mostly that to
    a probe.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._next_probe = 0.0
        self._probing = threading.Lock()
        self._sentence, self._reason = "", REASONS[0]

    @property
    def is_open(self) -> bool:
        """Whether calls are to fail at once."""
        return self._failures >= FAILURES

    def succeed(self) -> None:
        if self.is_open:
            _logger("breaker").info("the agent answers again")
        self._failures = 0

    def fail(self, sentence: str, reason: Reason) -> None:
        self._sentence, self._reason = sentence, reason
        self._failures += 1  # threads may count too few here; then it opens a call later
        if self._failures == FAILURES:
            _logger("breaker").warning("%s; calls fail at once until it answers again", sentence)

    def error(self) -> UnreachableError:
        """Return the error of a call while it is open."""
        sentence = f"{self._sentence}; calls fail at once until it answers again"
        return UnreachableError(sentence, self._reason)

    def begin_probe(self) -> bool:
        """Return whether the caller is to make a probe, and to call `end_probe` afterwards."""
        if time.monotonic() < self._next_probe or not self._probing.acquire(blocking=False):
            return False
        self._next_probe = time.monotonic() + PROBE_SECONDS
        return True

    def end_probe(self) -> None:
        self._probing.release()


class Defaults:
    """How often and why `choose` returned the default, for one bandit of an agent."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(REASONS, 0)
        self._logged: dict[str, float] = {}  # when there was a warning about a reason
        self._present: set[str] = set()  # reasons logged since the agent last chose

    def add(self, reason: Reason) -> bool:
        """Count a default; return whether to log it."""
        self.counts[reason] += 1
        now = time.monotonic()
        if reason in self._present or now - self._logged.get(reason, -math.inf) < LOG_SECONDS:
            return False
        self._present.add(reason)
        self._logged[reason] = now
        return True

    def end(self) -> bool:
        """Start over once the agent has chosen; return whether to log that."""
        if not self._present:
            return False
        self._present.clear()
        return True


def _logger(name: str = "") -> Any:
    import logging  # here, since it is rarely needed and takes a while to load

    logger = logging.getLogger(f"coopbandits.fleet.client{name and '.'}{name}")
    if not logger.handlers:  # a program that has set up no log gets no output
        logger.addHandler(logging.NullHandler())
    return logger


class Call:
    """One call: its bytes, and how long it may take.

    Attributes
    ----------
    host : str or None
        What a TLS certificate must name; None for a Unix socket.
    """

    def __init__(self, data: bytes, place: Address | Path, timeout: float) -> None:
        self.data, self.deadline = data, time.monotonic() + timeout
        self.host = None if isinstance(place, Path) else place.host

    def left(self) -> float:
        """Return the seconds that are left; raise TimeoutError if none are."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


class Link(Protocol):
    """A connection to the agent."""

    parser: ReplyParser

    async def ask(self, call: Call) -> Reply:
        """Send a request, and return the reply."""

    def is_quiet(self) -> bool:
        """Whether it is open and no unsolicited bytes have arrived."""

    def close(self) -> None:
        """Close it."""


L = TypeVar("L", bound=Link)


def quiet_check(descriptor: int) -> Callable[[], bool]:
    """Return a function that says whether a socket is open, without bytes to read."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return lambda: not poll.poll(0)


class Pool(Generic[L]):
    """Connections in use, and idle ones, of which the one used last is used first.

    Threads share it without a lock: each method does one step at a time that lists and sets do
    atomically.

    Attributes
    ----------
    all : set
        All of them, for a child process that has to close its copies.
    """

    def __init__(self) -> None:
        self.all: set[L] = set()
        self._idle: list[L] = []
        self._closed = False

    def reuse(self) -> L | None:
        """Return an idle connection that is still good, if there is one."""
        while self._idle:
            try:
                link = self._idle.pop()
            except IndexError:  # another thread was faster
                return None
            if link.is_quiet():
                return link
            self.drop(link)
        return None

    def give_back(self, link: L) -> None:
        """Keep a connection after a call, or close it if it cannot be used again."""
        if link.parser.reusable and not self._closed:
            self._idle.append(link)
        else:  # also after an interrupted call
            self.drop(link)

    def drop(self, link: L) -> None:
        self.all.discard(link)
        link.close()

    def empty(self) -> None:
        """Close all idle connections."""
        while self._idle:
            try:
                self.drop(self._idle.pop())
            except IndexError:
                return

    def close(self) -> None:
        """Close all idle connections now, and the others after their call."""
        self._closed = True
        self.empty()


class Transport(ABC, Generic[L]):
    """Connections of a client and of those that `bandit` makes of it: sockets and locks.

    It is renewed in place, so all of them go on with new connections after a fork.

    Parameters
    ----------
    address : str
        `host:port` or `unix:/path` of the agent's API.
    tls : ssl.SSLContext or None
        For HTTPS.
    most : int
        The most connections at a time.
    """

    def __init__(self, address: str, tls: ssl.SSLContext | None, most: int) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InputError(f"connections is {most!r}; it must be a whole number from 1")
        self.place, self.tls, self.most = parse_place(address), tls, most
        self.begin()
        _transports.add(self)

    def begin(self) -> None:
        """Begin without connections."""
        self.breaker, self.pool = Breaker(), Pool[L]()
        self.counting = threading.Lock()  # of defaults; renewed after a fork like the rest

    def renew_pool(self) -> Pool[L]:
        """Return the connections so far, for the caller to close; later calls use others."""
        old, self.pool = self.pool, Pool[L]()
        return old

    @abstractmethod
    def begin_after_fork(self) -> None:
        """Leave the connections to the parent process, and begin again."""

    @abstractmethod
    def attend(self) -> None:
        """Prepare for a call in the present thread or event loop."""

    @abstractmethod
    async def enter(self, call: Call) -> bool:
        """Wait for a free connection; return whether there was one in time."""

    @abstractmethod
    def leave(self) -> None:
        """Let the next call use the connection."""

    @abstractmethod
    async def connect(self, call: Call) -> L:
        """Return a new connection, which is in `pool.all`."""

    @abstractmethod
    async def pause(self, seconds: float) -> None:
        """Wait between two attempts."""

    @abstractmethod
    async def glance(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something in the background, waiting `GLANCE` seconds at most."""


_transports: weakref.WeakSet[Transport[Any]] = weakref.WeakSet()


def _part_from_parent() -> None:
    """Give every client of a child process its own connections and locks before its first call."""
    for transport in list(_transports):
        transport.begin_after_fork()


os.register_at_fork(after_in_child=_part_from_parent)


class Calls(Generic[L]):
    """The calls of an agent over the connections of a transport; `Client` has the parameters."""

    def __init__(
        self,
        transport: Transport[L],
        token: str | None,
        timeout: float,
        default: str | None,
        bandit: str | None,
    ) -> None:
        is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if not is_number or not 0 < timeout < math.inf:
            raise InputError(f"timeout is {timeout!r}; it must be a positive number of seconds")
        self.transport, self.place, self.timeout = transport, transport.place, timeout
        # By path and shared by all that `bandit` makes: one may be made for every request.
        self._all_defaults: dict[str, Defaults] = {}
        self._go_by(bandit, default)
        self._head = head_of(self.place, token)

    def _go_by(self, bandit: str | None, default: str | None) -> None:
        if default is not None and (not isinstance(default, str) or not default):
            raise InputError(f"default is {default!r}; name an option, or leave it out")
        self._prefix, self.default = prefix_of(bandit), default
        self._defaults = self._all_defaults.setdefault(self._prefix, Defaults())

    def bandit(self, name: str, *, default: str | None = None) -> Self:
        """Return a client for one bandit of the agent, which shares the connections of this one.

        Closing either closes them; the next call of either opens a new one.
        """
        made = copy(self)
        made._go_by(name, default)
        return made

    async def choose(
        self,
        allowed: Iterable[str] | None = None,
        context: Context | None = None,
        unit: str | None = None,
    ) -> Choice:
        """Return an option to use now, one of `allowed` if given, for a request like this."""
        names = None if allowed is None else require_allowed(allowed)
        known = None if context is None else require_context(context)
        unit = None if unit is None else require_unit(unit)
        request = choose_request(self._prefix, names, known, unit)
        try:
            choice = await self._ask(request)
        except (UnreachableError, UnavailableError, InputError) as error:
            if self.default is None:
                raise
            self._note(error)
            arm = self.default if names is None or self.default in names else names[0]
            return Choice(f"{DEFAULT}{arm}", arm, None if unit is None else False)
        if self._defaults.end():
            _logger().info("the agent chooses again: address %s", self._shown())
        return choice

    @property
    def defaults(self) -> Mapping[str, int]:
        """How often `choose` returned the default, by reason."""
        return dict(self._defaults.counts)

    def _note(self, error: UnreachableError | UnavailableError | InputError) -> None:
        """Count a default, and log the first for each reason."""
        reason = reason_of(error)
        with self.transport.counting:
            is_first = self._defaults.add(reason)
        if is_first:
            _logger().warning(
                "choose returns the default: reason %s, address %s: %s",
                reason,
                self._shown(),
                " ".join(str(error).split())[:LONGEST_LOGGED],  # it may come from anything
                extra={"reason": reason},
            )

    def _shown(self) -> str:
        return show_place(self.place) + self._prefix

    async def observe(self, ticket: str, reward: float) -> Receipt:
        """Submit the reward of a ticket."""
        ticket, value = require_ticket(ticket), require_reward(reward)
        if ticket.startswith(DEFAULT):
            return Receipt(ticket, ticket.removeprefix(DEFAULT), value, duplicate=False)
        return await self._ask(observe_request(self._prefix, ticket, value))

    async def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every option, for requests like this where a context is given."""
        return await self._ask(arms_request(self._prefix, context))

    async def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return which option won so far, and how sure that is."""
        return await self._ask(recommendation_request(self._prefix, confidence))

    async def bandits(self) -> list[BanditState]:
        """Return the agent's bandits."""
        return await self._ask(BANDITS)

    async def export(self) -> Content:
        """Return everything that the agent has learned, of one bandit or of all."""
        return await self._ask(export_request(self._prefix))

    async def health(self) -> Content:
        """Return the agent's state."""
        return await self._ask(HEALTH)

    async def state(self, since: int = 0, bandit: str = "") -> Content:
        """Return what a page shows of the agent, or of one bandit, with events after `since`."""
        return await self._ask(state_request(since, bandit))

    async def cluster(self) -> Content:
        """Return the cluster's document, and which agent has which version of it."""
        return await self._ask(CLUSTER)

    async def adopt(self, signed: bytes) -> Content:
        """Submit a signed document of the cluster, as JSON; return what `cluster` does."""
        return await self._ask(adopt_request(signed))

    async def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason."""
        try:
            await self._ask(READY)
        except (UnreachableError, UnavailableError) as error:
            return str(error)
        return None

    async def drain(self, seconds: float | None = None) -> None:
        """Stop the agent once open tickets have their rewards, or after some seconds.

        Without `seconds`, it waits as long as it is configured to.
        """
        await self._ask(drain_request(seconds))

    async def _ask(self, request: Request[T]) -> T:
        transport = self.transport
        transport.attend()
        breaker = transport.breaker
        # Questions about the agent itself are always asked.
        if request.method == "POST" and breaker.is_open:
            if breaker.begin_probe():
                try:
                    await transport.glance(self._probe)
                except RuntimeError:  # no more threads, or the interpreter is about to end
                    breaker.end_probe()
            if breaker.is_open:
                raise breaker.error()
        call, pause = Call(request.encode(self._head), self.place, self.timeout), 0.0
        cause: Exception | None = None
        while True:
            began = time.monotonic()
            try:
                reply = await self._attempt(call)
                break
            except BROKEN as error:
                now = time.monotonic()
                # A last attempt may time out since the one before it left no time.
                is_late = isinstance(error, TimeoutError) and now - began < self.timeout / 2
                cause = cause if is_late and cause is not None else error
                if now + pause >= call.deadline:
                    sentence = (
                        f"no agent answered at {show_place(self.place)} within {self.timeout:g} s "
                        f"({str(cause) or 'timed out'})"
                    )
                    reason = self._reason_of_break(cause)
                    breaker.fail(f"{sentence}; is it running there", reason)
                    raise UnreachableError(f"{sentence}; is it running there?", reason) from cause
            await transport.pause(pause)
            pause = min(max(FIRST_PAUSE, 2 * pause), LONGEST_PAUSE)
        breaker.succeed()
        return unpack(reply, request, self.place)

    def _reason_of_break(self, error: Exception) -> Reason:
        """Return why no attempt of a call got an answer, by what ended the last one."""
        if isinstance(error, TimeoutError):
            return "timeout"
        if isinstance(error, CutOffError | HttpParserError):
            return "unreadable"
        if self.transport.tls is not None:
            import ssl  # loaded by the caller, who made a context

            # An agent that rejects a certificate may just hang up. One that was killed does too,
            # but then the next attempt finds that nothing listens there.
            gone = EOFError | ConnectionResetError | ConnectionAbortedError | BrokenPipeError
            if isinstance(error, ssl.SSLError | gone):
                return "tls"
        return "unreachable"

    async def _attempt(self, call: Call) -> Reply:
        transport = self.transport
        if not await transport.enter(call):
            raise TimeoutError(f"no connection was free; there are {transport.most} at most")
        pool = transport.pool
        try:
            kept = pool.reuse()
            link = kept or await transport.connect(call)
            link.parser.reusable = False
            try:
                return await link.ask(call)
            except BROKEN:
                if kept is not None:
                    pool.empty()  # the agent was restarted, and the others are stale too
                raise
            finally:
                pool.give_back(link)
        finally:
            transport.leave()

    async def _probe(self) -> None:
        """Find out whether the agent is back."""
        breaker = self.transport.breaker
        try:
            await self._attempt(Call(ALIVE.encode(self._head), self.place, self.timeout))
            breaker.succeed()
        except BROKEN:
            pass
        finally:
            breaker.end_probe()
