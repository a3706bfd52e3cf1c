"""Messages made of entries, each with one author: what a fleet asks where there are such.

An entry is a row of numbers: [number | rounds | registers]. Its number says whose it is, its
version is how many pulls are in its registers. In a fleet an agent's number is made of its author,
which is a number for its certified name, and of a generation, which is another one for every memory
that the agent has had: see `entry_number`. In simulations the author is the number.

Two kinds of rows are orders, which only an agent's own fleet process gives. They stand in a message
because messages are what a journal keeps:

- ``[number, FORGET, …]``: this entry is no longer believed, whatever was heard of it;
- ``[number, RENUMBER, registers]``: count under this number from now on. What the own entry held
  beyond these registers moves there, the registers stay behind under the old number. The place
  of the order says with which rounds: it is ``RENUMBER - rounds``.
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError

FORGET, RENUMBER = -1.0, -2.0
"""Rounds of rows that are orders; a renumbering may have any below."""

HEADER = 2
"""Values of a message before its entries, and of an entry before its registers."""

AUTHORED = 1 << 52
"""Numbers in a fleet begin here; in a float all whole numbers below 2^53 are exact."""

GENERATIONS = 1 << 12
AUTHORS = 1 << 40

Rows = NDArray[np.float64]
Told = tuple[float, float, float]
"""What an entry tells: its number, rounds and pulls."""


def entry_number(author: int, generation: int) -> int:
    """Return the number of an agent's entry: its author, and which of its memories it is from."""
    return AUTHORED + author % AUTHORS * GENERATIONS + generation % GENERATIONS


def author_of(number: float) -> float:
    """Return the author in an entry's number; in simulations that is the number."""
    return (number - AUTHORED) // GENERATIONS if number >= AUTHORED else number


def is_possible(number: float, rounds: float) -> bool:
    """Return whether a fleet can have an entry with this number and these rounds."""
    return AUTHORED <= number < 2 * AUTHORED and number % 1.0 == 0.0 <= rounds < math.inf


def count_authors(numbers: Vector) -> int:
    """Return how many authors some entries have, by their ascending numbers."""
    if numbers[-1] < AUTHORED:
        return len(numbers)
    return len(set(map(author_of, numbers.tolist())))


@runtime_checkable
class Attributed(Protocol):
    """A machine whose messages are made of entries, which stay as their authors told them."""

    @property
    def number(self) -> int:
        """The number of its own entry."""

    def rows(self, message: Vector) -> Rows:
        """Return the entries in a message, or reject one of another form."""

    def quickly(self, message: Vector) -> list[Told] | None:
        """Return what a message tells of; None if it is long, or to be looked at closely."""

    def versions(self, rows: Rows) -> list[float]:
        """Return the versions of entries."""

    def entry(self, number: float) -> Vector | None:
        """Return the entry at hand."""

    def held(self) -> dict[float, float]:
        """Return the versions of all entries at hand, by number."""

    def heard_from(self, neighbor: int) -> int:
        """Return the number of a neighbour's last message."""

    def arrived_at(self, neighbor: int) -> int:
        """Return the number of the own message that a neighbour acknowledged last."""

    def renumbering(self, number: int, left: Vector) -> Vector:
        """Return the order to count under another number, and leave an entry as it was."""

    def note(self, neighbor: int, rows: Rows) -> Vector:
        """Return a message that changes nothing about a neighbour, and tells these rows."""

    def postpone(self, numbers: Vector) -> None:
        """Note that some entries were left out of this round's messages, and belong in the next."""


def as_count(told: float) -> int:
    """Return a number that a neighbour told, which may be anything, as one that there can be."""
    return int(min(max(0.0, told), 2.0**53))


def newest_of(numbers: Vector, versions: Vector) -> NDArray[np.intp]:
    """Return where the latest version of every number is; of equals the last one."""
    by_number = np.lexsort((versions, numbers))
    ascending = numbers.take(by_number)
    last = np.empty(len(ascending), dtype=bool)
    np.not_equal(ascending[1:], ascending[:-1], out=last[:-1])
    last[-1] = True
    return by_number[last]


def with_rows(message: Vector, rows: Rows) -> Vector:
    return np.concatenate([message[:HEADER], rows.ravel()])


def told_in(message: Vector, machine: Attributed) -> list[Told]:
    """Return what a message tells of, or reject one of another form."""
    told = machine.quickly(message)
    if told is None:
        rows = machine.rows(message)
        heads, versions = rows[:, :HEADER].tolist(), machine.versions(rows)
        told = [(*head, version) for head, version in zip(heads, versions, strict=True)]
    return told


def order(what: float, number: float, registers: Vector) -> Vector:
    return np.concatenate([[number, what], registers])


def check_entries(
    agents: Vector, told_rounds: Vector, source: str, *, orders: bool = False
) -> bool:
    """Check that entries have numbers of agents and of rounds, neither of them negative.

    `orders` allows those too. Return whether there are any.
    """
    numbers, all_rounds = agents.tolist(), told_rounds.tolist()
    if numbers and min(numbers) >= 0.0 <= min(all_rounds) and all(map(float.is_integer, numbers)):
        return False
    for agent, rounds in zip(numbers, all_rounds, strict=True):
        is_order = orders and (rounds == FORGET or rounds <= RENUMBER)
        if agent < 0.0 or agent != agent // 1.0 or (rounds < 0.0 and not is_order):
            raise InputError(
                f"{source} tells of agent {agent:g} and {rounds:g} rounds; agents are whole "
                "numbers from 0, and rounds are never negative"
            )
    return bool(numbers)
