"""What both clients are: their settings, and how a call goes on when the agent does not answer."""

from __future__ import annotations

import math
import os
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import parse_place, show_place
from coopbandits.fleet.client.breaker import Breaker
from coopbandits.fleet.client.exchange import (
    UnreachableError,
    choose_request,
    observe_request,
    prefix_of,
)
from coopbandits.fleet.client.wire import Request, encode, head_of
from coopbandits.fleet.service import (
    DEFAULT,
    Choice,
    Context,
    Receipt,
    UnavailableError,
    require_allowed,
    require_context,
    require_reward,
    require_ticket,
)

if TYPE_CHECKING:
    import ssl

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
CONNECTIONS = 8

AWAY = (UnreachableError, UnavailableError)
"""What a default stands in for."""

_all_shared: weakref.WeakSet[Shared] = weakref.WeakSet()


class Shared(ABC):
    """What a client shares with those of its bandits, and renews in place.

    Parameters
    ----------
    connections : int
        The most connections at a time.

    Attributes
    ----------
    breaker : Breaker
        Whether the agent is away.
    """

    def __init__(self, connections: int) -> None:
        self.connections = connections
        self.begin()
        _all_shared.add(self)

    def begin(self) -> None:
        """Begin without connections."""
        self.breaker = Breaker()

    @abstractmethod
    def begin_after_fork(self) -> None:
        """Leave the connections to the parent, and begin anew."""


class Caller(ABC):
    """The settings of a client, and what it knows of its agent; see `Client`."""

    def __init__(
        self,
        address: str,
        token: str | None = None,
        timeout: float = 2.0,
        tls: ssl.SSLContext | None = None,
        *,
        connections: int = CONNECTIONS,
        default: str | None = None,
        bandit: str | None = None,
    ) -> None:
        self.place = parse_place(address)
        self.token, self.timeout, self.tls = token, _seconds(timeout), tls
        self.connections, self.default = _count(connections), _name(default)
        self._prefix = prefix_of(bandit)
        self._head = head_of(self.place, token)
        self._shared = self._make_shared()

    @abstractmethod
    def _make_shared(self) -> Shared:
        """Return what this client shares with those that `bandit` makes of it."""

    def bandit(self, name: str, *, default: str | None = None) -> Self:
        """Return a client for one bandit of the agent, which shares the connections of this one.

        Closing either closes them; the next call of either opens a new one.
        """
        made = copy(self)
        made._prefix, made.default = prefix_of(name), _name(default)
        return made

    def _choosing(
        self, allowed: Iterable[str] | None, context: Context | None
    ) -> tuple[Request, list[str] | None]:
        """Return the request for an option, and which are allowed."""
        names = None if allowed is None else require_allowed(allowed)
        told = None if context is None else require_context(context)
        return choose_request(names, told, self._prefix), names

    def _stand_in(self, allowed: list[str] | None, error: Exception) -> Choice:
        """Return the default, or the first option that is allowed; without one, raise the error."""
        if self.default is None:
            raise error
        arm = self.default if allowed is None or self.default in allowed else allowed[0]
        return Choice(f"{DEFAULT}{arm}", arm)

    def _observing(self, ticket: str, reward: float) -> Request | Receipt:
        """Return the request that hands in a reward, or the receipt for that of a default."""
        ticket, value = require_ticket(ticket), require_reward(reward)
        if ticket.startswith(DEFAULT):
            return Receipt(ticket, ticket.removeprefix(DEFAULT), value, duplicate=False)
        return observe_request(ticket, value, self._prefix)

    def _is_hopeless(self, request: Request) -> bool:
        """Whether to fail at once. Questions about the agent itself are always asked."""
        return request.method == "POST" and self._shared.breaker.is_open

    def _hopeless(self) -> UnreachableError:
        return UnreachableError(
            f"{self._shared.breaker.reason}; calls fail at once until it answers again"
        )


class Call:
    """One call: what is sent, until when, and what to do after a failure.

    Parameters
    ----------
    caller : Caller
        The client.
    request : Request
        What is asked.
    """

    def __init__(self, caller: Caller, request: Request) -> None:
        self.data = encode(request, caller._head)
        self.deadline = time.monotonic() + caller.timeout
        self.host = getattr(caller.place, "host", None)
        self._caller, self._breaker = caller, caller._shared.breaker
        self._pauses = pauses()

    def left(self) -> float:
        """Return the seconds that are left; raise an error if none are."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left

    def in_line(self) -> TimeoutError:
        """Return the error for a call whose turn did not come in time."""
        return TimeoutError(f"no connection was free; there are {self._caller.connections} at most")

    def succeed(self) -> None:
        """Note an answer."""
        self._breaker.succeed()

    def pause_after(self, error: BaseException) -> float:
        """Return how long to wait before the next attempt; raise an error if there is none."""
        pause = next(self._pauses)
        if time.monotonic() + pause < self.deadline:
            return pause
        place, reason = show_place(self._caller.place), str(error) or "timed out"
        sentence = (
            f"no agent answered at {place} within {self._caller.timeout:g} s ({reason}); is it "
            "running there?"
        )
        self._breaker.fail(sentence.rstrip("?"))
        raise UnreachableError(sentence) from error


def pauses() -> Iterator[float]:
    """Yield the pause before each retry; the first is 0, as a kept connection may be stale."""
    yield 0.0
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


def _seconds(timeout: Any) -> float:
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, int | float)
        or not 0 < timeout < math.inf
    ):
        raise InputError(f"timeout is {timeout!r}; it must be a positive number of seconds")
    return timeout


def _count(connections: int) -> int:
    if isinstance(connections, bool) or not isinstance(connections, int) or connections < 1:
        raise InputError(f"connections is {connections!r}; it must be a whole number from 1")
    return connections


def _name(default: Any) -> str | None:
    if default is not None and (not isinstance(default, str) or not default):
        raise InputError(f"default is {default!r}; name an option, or leave it out")
    return default


def _part_from_parent() -> None:
    """Give every client of a child connections and locks of its own, before it can ask."""
    for shared in list(_all_shared):
        shared.begin_after_fork()


os.register_at_fork(after_in_child=_part_from_parent)
