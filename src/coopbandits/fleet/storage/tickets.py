"""Tickets: each stands for one choice whose reward is still to come.

They are numbered in order and have equal lifetimes, so they expire in order too. The number of open
tickets is bounded: at the limit, a new ticket abandons the oldest open one. So is the number of
rewards remembered to recognise duplicates, and of abandoned tickets remembered to tell them from
expired ones. Only an open ticket counts a reward, so none is counted twice.

An application sees a ticket as `NONCE-NUMBER`. Every start of an agent draws a new nonce. An agent
that lost its journal, or goes back to a backup, issues the same numbers again, but never under the
same nonce: so the reward of a lost ticket never counts for another choice.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from coopbandits.fleet.service import (
    ExpiredTicketError,
    OtherRewardError,
    UnknownTicketError,
)


class OpenTicket(NamedTuple):
    """A choice waiting for its reward."""

    arm: int
    expires: float


class Settled(NamedTuple):
    """A reward that was counted."""

    arm: int
    reward: float


class Start(NamedTuple):
    """A start of the agent: the first number that it may issue, and its nonce."""

    first: int
    nonce: int


STARTS = 1000
"""Number of starts remembered; those with open tickets always are."""


class Tickets:
    """The tickets of one bandit.

    Parameters
    ----------
    limit : int
        Maximum number of open tickets, of remembered rewards, and of remembered abandoned tickets.
    lifetime : float
        Seconds until a ticket expires.
    nonce : int
        The nonce of the first start.

    Attributes
    ----------
    abandoned : deque of int
        Numbers of the tickets that were abandoned last, in ascending order.
    num_abandoned : int
        Number of tickets ever abandoned.
    """

    def __init__(self, limit: int, lifetime: float, nonce: int) -> None:
        self.limit, self.lifetime = limit, lifetime
        self.next_number = 1
        self.starts = [Start(1, nonce)]
        self.open: dict[int, OpenTicket] = {}
        self.contexts: dict[int, bytes] = {}  # of open tickets, for policies with features
        self.settled: dict[int, Settled] = {}
        self.abandoned: deque[int] = deque(maxlen=min(limit, sys.maxsize))
        self.num_abandoned = 0
        # A dict finds its first key in linear time once others before it were deleted.
        self._order: deque[int] = deque()  # of `settled`
        self._oldest = 1  # no ticket before it is open

    def begin(self, nonce: int) -> None:
        """Issue tickets under another nonce."""
        if self.starts[-1].first == self.next_number:
            del self.starts[-1]  # that start has issued none
        self.starts.append(Start(self.next_number, nonce))
        if len(self.starts) > STARTS:
            kept = min((*self.open, *self.settled), default=self.next_number)
            ends = [after.first for after in self.starts[1:]]
            while len(self.starts) > STARTS and ends[0] <= kept:
                del self.starts[0], ends[0]

    def name(self, number: int) -> str:
        """Return a ticket's name, unique among all agents and starts."""
        start = self.starts[-1]
        if number < start.first:
            start = self.starts[bisect_right(self.starts, (number, math.inf)) - 1]
        return f"{start.nonce:016x}-{number}"

    def number(self, name: str) -> int:
        """Return the number of a ticket; reject those of other agents and of lost journals."""
        head, _, tail = name.partition("-")
        if len(tail) < 16 and tail.isdigit() and tail.isascii():
            number = int(tail)
            if 0 < number < self.next_number and self.name(number) == name:
                return number
            if any(head == f"{start.nonce:016x}" for start in self.starts):
                raise UnknownTicketError(
                    "this agent has issued no such ticket, or has lost the memory of it; its "
                    "reward is not counted: choose again"
                )
        raise UnknownTicketError(
            f"{name[:50]!r} is no ticket of this agent, or of a memory that it has lost; submit "
            "the ticket that choose returned"
        )

    def add(self, arm: int, now: float, context: bytes = b"") -> int:
        """Open a ticket, with the features of the request, and return its number."""
        number = self.next_number
        self.next_number += 1
        self.open[number] = OpenTicket(arm, now + self.lifetime)
        if context:
            self.contexts[number] = context
        return number

    def look_up(self, number: int, reward: float) -> OpenTicket | Settled:
        """Return the open ticket, or the settled one if this reward is a duplicate."""
        if number in self.open:
            return self.open[number]
        if number in self.settled:
            known = self.settled[number]
            if known.reward != reward:
                raise OtherRewardError(
                    f"this ticket already has the reward {known.reward!r}, got {reward!r}; a "
                    "ticket counts one reward"
                )
            return known
        if self.is_abandoned(number):
            raise ExpiredTicketError(
                "this ticket was abandoned because more than max_open_tickets choices were waiting "
                f"for rewards (now {self.limit}), so its reward is not counted; raise "
                "max_open_tickets or submit rewards sooner"
            )
        if 0 < number < self.next_number:
            raise ExpiredTicketError(
                "this ticket has expired, or was abandoned or settled long ago; this reward is not "
                "counted"
            )
        raise UnknownTicketError("this agent has issued no such ticket; choose first")

    def is_abandoned(self, number: int) -> bool:
        """Return whether a ticket was abandoned, as far as remembered."""
        at = bisect_left(self.abandoned, number)
        return at < len(self.abandoned) and self.abandoned[at] == number

    def abandon(self, count: int) -> Iterator[tuple[int, bytes]]:
        """Close the oldest open tickets for lack of room; yield their arms and contexts."""
        if count > len(self.open):
            raise LookupError(f"{count} tickets to abandon, but {len(self.open)} are open")
        for _ in range(count):
            while self._oldest not in self.open:
                self._oldest += 1
            self.abandoned.append(self._oldest)
            self.num_abandoned += 1
            yield self.close(self._oldest)

    def close(self, number: int) -> tuple[int, bytes]:
        """Close an open ticket; return its arm and context."""
        return self.open.pop(number).arm, self.contexts.pop(number, b"")

    def settle(self, number: int, reward: float) -> tuple[int, bytes]:
        """Close an open ticket with its reward; return its arm and context."""
        arm, context = self.close(number)
        self.settled[number] = Settled(arm, reward)
        self._order.append(number)
        while len(self.settled) > self.limit:  # by more than one after a restart with a lower limit
            del self.settled[self._order.popleft()]
        return arm, context

    def move(self, places: Sequence[int]) -> None:
        """Renumber arms: arm k becomes `places[k]`."""
        self.open = {
            number: ticket._replace(arm=places[ticket.arm]) for number, ticket in self.open.items()
        }
        self.settled = {
            number: known._replace(arm=places[known.arm]) for number, known in self.settled.items()
        }

    def due(self, now: float) -> list[int]:
        """Return the numbers of the expired tickets, oldest first."""
        numbers = []
        for number, ticket in self.open.items():
            if ticket.expires > now:
                break
            numbers.append(number)
        return numbers

    def cap_lifetimes(self, now: float) -> None:
        """Have no ticket outlive one opened now; the clock or the lifetime may have changed."""
        latest = now + self.lifetime
        for number, ticket in self.open.items():
            self.open[number] = ticket._replace(expires=min(ticket.expires, latest))

    def export_state(self) -> dict[str, Any]:
        """Return the state as plain data; the tables are not copied, so encode it at once."""
        return {
            "next_number": self.next_number,
            "starts": [list(start) for start in self.starts],
            "open": self.open,
            "settled": self.settled,
            "contexts": self.contexts,
            "abandoned": list(self.abandoned),
            "num_abandoned": self.num_abandoned,
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """Continue from an exported state."""
        self.next_number = state["next_number"]
        self.starts = [Start(*start) for start in state["starts"]]
        self.open = {number: OpenTicket(*ticket) for number, ticket in state["open"].items()}
        self.settled = {number: Settled(*reward) for number, reward in state["settled"].items()}
        self._order = deque(self.settled)
        self.contexts = state["contexts"]
        self._oldest = next(iter(self.open), self.next_number)
        self.abandoned.clear()
        self.abandoned.extend(state.get("abandoned", ()))
        self.num_abandoned = state.get("num_abandoned", 0)
