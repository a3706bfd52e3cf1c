"""Tickets: each stands for one choice whose reward is still to come.

They are numbered in the order of their making and live equally long, so they expire in that order.
A bounded number of them may be open, and a bounded number of rewards is remembered, so that to hand
in the same one again is recognised. Only an open ticket counts a reward, hence none counts twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from coopbandits.fleet.service import (
    ExpiredTicketError,
    OtherRewardError,
    TooManyTicketsError,
    UnknownTicketError,
)


class OpenTicket(NamedTuple):
    """A choice that waits for its reward."""

    arm: int
    expires: float


class Settled(NamedTuple):
    """A reward that was counted."""

    arm: int
    reward: float


class Tickets:
    """The tickets of one agent.

    Parameters
    ----------
    limit : int
        How many may be open, and how many rewards are remembered.
    lifetime : float
        Seconds until a ticket expires.
    """

    def __init__(self, limit: int, lifetime: float) -> None:
        self.limit, self.lifetime = limit, lifetime
        self.next_number = 1
        self.open: dict[int, OpenTicket] = {}
        self.settled: dict[int, Settled] = {}

    def check_room(self, now: float) -> None:
        """Refuse one more where all that may be open are."""
        if len(self.open) >= self.limit:
            wait = max(0.0, next(iter(self.open.values())).expires - now)
            raise TooManyTicketsError(
                f"{self.limit} tickets are open, no more may be; hand in rewards, or wait "
                f"{wait:.0f} s for the oldest to expire",
                wait,
            )

    def add(self, arm: int, now: float) -> int:
        """Open a ticket and return its number."""
        number = self.next_number
        self.next_number += 1
        self.open[number] = OpenTicket(arm, now + self.lifetime)
        return number

    def look_up(self, number: int, reward: float) -> OpenTicket | Settled:
        """Return the open ticket, or what became of it if this very reward was counted."""
        if number in self.open:
            return self.open[number]
        if number in self.settled:
            known = self.settled[number]
            if known.reward != reward:
                raise OtherRewardError(
                    f"this ticket's reward is {known.reward!r} already and not {reward!r}; a "
                    "ticket takes one reward"
                )
            return known
        if 0 < number < self.next_number:
            raise ExpiredTicketError(
                "this ticket has expired, or its reward came long ago; its reward is not counted"
            )
        raise UnknownTicketError("this agent has handed out no such ticket; choose first")

    def settle(self, number: int, reward: float) -> int:
        """Close an open ticket with its reward; return the arm."""
        arm = self.open.pop(number).arm
        self.settled[number] = Settled(arm, reward)
        if len(self.settled) > self.limit:
            del self.settled[next(iter(self.settled))]
        return arm

    def due(self, now: float) -> list[int]:
        """Return the numbers of the tickets that are over, oldest first."""
        numbers = []
        for number, ticket in self.open.items():
            if ticket.expires > now:
                break
            numbers.append(number)
        return numbers

    def curb(self, now: float) -> None:
        """Let none live longer than one made now; a clock or the lifetime may have been changed."""
        latest = now + self.lifetime
        for number, ticket in self.open.items():
            self.open[number] = ticket._replace(expires=min(ticket.expires, latest))

    def export_state(self) -> dict[str, Any]:
        """Return everything remembered, as plain data."""
        return {
            "next_number": self.next_number,
            "open": [[number, *ticket] for number, ticket in self.open.items()],
            "settled": [[number, *settled] for number, settled in self.settled.items()],
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """Continue where the exporting tickets stood."""
        self.next_number = state["next_number"]
        self.open = {number: OpenTicket(arm, end) for number, arm, end in state["open"]}
        self.settled = {number: Settled(arm, reward) for number, arm, reward in state["settled"]}


def ticket_name(birth: int, number: int) -> str:
    """Return a ticket as the application sees it, told apart from those of all other agents."""
    return f"{birth:016x}-{number}"


def ticket_number(name: str, birth: int) -> int:
    """Return the number of a ticket, or refuse one that no agent of this birth handed out."""
    head, _, tail = name.partition("-")
    if head != f"{birth:016x}" or not (tail.isascii() and tail.isdigit() and len(tail) < 16):
        raise UnknownTicketError(
            f"{name[:50]!r} is no ticket of this agent; hand in what choose returned"
        )
    return int(tail)
