"""Units of one bandit: which arm each user or session was given, and calls that were served.

A unit is known by a hash of its name, so neither journals nor backups hold user ids. What is
remembered follows from the journal (`Chose`), so it survives a restart. It is bounded:
the oldest units make room, and so do the oldest calls.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b
from typing import Any, NamedTuple

MOST_UNITS = 100_000
"""Units that are remembered per bandit, about 300 bytes each."""

MOST_CALLS = 10_000
"""Forwarded choices that are remembered per bandit, to answer a repeated one with its ticket."""


def unit_hash(cluster: str, bandit: int, unit: str) -> bytes:
    """Return what stands for a unit of a bandit, in journals and on the way to its owner."""
    salt = blake2b(cluster.encode(), digest_size=16).digest()
    return blake2b(b"%d:%s" % (bandit, unit.encode()), digest_size=16, key=salt).digest()


class Given(NamedTuple):
    """The arm that a unit was given, by id, and when."""

    arm: int
    when: float


class Served(NamedTuple):
    """The ticket's number and the arm's id of a forwarded choice."""

    number: int
    arm: int


class Units:
    """What one bandit of an agent remembers of units."""

    def __init__(self) -> None:
        self.given: dict[bytes, Given] = {}  # oldest first
        self.served: dict[bytes, Served] = {}

    def find(self, unit: bytes, now: float, seconds: float) -> int | None:
        """Return the arm of a unit, unless that was too long ago."""
        found = self.given.get(unit)
        return found.arm if found is not None and found.when + seconds > now else None

    def give(self, unit: bytes, arm: int, when: float) -> None:
        """Remember the arm of a unit; the one before is forgotten."""
        self.given.pop(unit, None)
        self.given[unit] = Given(arm, when)
        if len(self.given) > MOST_UNITS:
            del self.given[next(iter(self.given))]

    def serve(self, call: bytes, number: int, arm: int) -> None:
        """Remember the ticket of a forwarded choice."""
        self.served[call] = Served(number, arm)
        if len(self.served) > MOST_CALLS:
            del self.served[next(iter(self.served))]

    def forget(self, arms: Collection[int]) -> None:
        """Forget which units were given some arms."""
        self.given = {unit: each for unit, each in self.given.items() if each.arm not in arms}

    def export_state(self) -> dict[str, Any]:
        """Return a part of a bandit's snapshot; nothing where nothing is remembered."""
        return {
            name: table
            for name, table in (("units", self.given), ("served_calls", self.served))
            if table
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """Continue from a bandit's snapshot."""
        self.given = {unit: Given(*each) for unit, each in state.get("units", {}).items()}
        self.served = {call: Served(*each) for call, each in state.get("served_calls", {}).items()}
