"""Rows that take effect at the end of a round, beside what neighbours say in it.

Orders (see `core.aggregate.entries`), and entries that a neighbour told over an earlier link. They
stand in front of a neighbour's message, since messages are what the journal keeps.
"""

from __future__ import annotations

import numpy as np

from coopbandits.core.aggregate.entries import FORGET, RENUMBER, Attributed, with_rows
from coopbandits.core.contract import Vector

Key = tuple[float, float]
"""A row's number and rounds, which count as 0 in entries."""


class Orders:
    """Those of one round, by the neighbour whose message carries them.

    A neighbour may greet and tell again and again within one round, so of every entry the latest
    version is kept, and of every order one.
    """

    def __init__(self) -> None:
        self.rows: dict[int, dict[Key, Vector]] = {}

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.rows)

    def __contains__(self, neighbor: int) -> bool:
        """Return whether a neighbour's message carries any."""
        return neighbor in self.rows

    def add(self, machine: Attributed, neighbor: int, row: Vector) -> None:
        """Let a neighbour's message carry one more."""
        rows = self.rows.setdefault(neighbor, {})
        key = row.item(0), min(row.item(1), 0.0)
        if row[1] >= 0.0 and key in rows:
            (older,), (newer,) = machine.versions(rows[key][None]), machine.versions(row[None])
            row = row if newer >= older else rows[key]
        rows[key] = row

    def hand_over(self, machine: Attributed, neighbor: int, heir: int | None) -> None:
        """Let another neighbour's message carry those of one who has gone."""
        for row in self.rows.pop(neighbor).values():
            if heir is not None:
                self.add(machine, heir, row)

    def in_front(self, machine: Attributed, messages: dict[int, Vector]) -> dict[int, Vector]:
        """Return the messages of a round with the rows in front."""
        found = dict(messages)
        for neighbor, rows in self.rows.items():
            message = messages.get(neighbor)
            if message is None:
                message = machine.note(neighbor, np.zeros((0, 0)))
            told = [*rows.values(), machine.rows(message).ravel()]
            found[neighbor] = with_rows(message, np.concatenate(told))
        return found

    @property
    def forgotten(self) -> set[float]:
        """The numbers of entries that are to be forgotten."""
        return {number for number, rounds in self._keys if rounds == FORGET}

    @property
    def renumbers(self) -> bool:
        """Whether the agent is to count under another number."""
        return any(rounds <= RENUMBER for _, rounds in self._keys)

    @property
    def _keys(self) -> list[Key]:
        return [key for rows in self.rows.values() for key in rows]
