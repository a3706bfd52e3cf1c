"""Whose word is believed where entries are not signed.

An entry is believed of the author itself over its own link, and of others while there is no such
link. Where others say more of a linked author than it says itself, it is asked: their entry is sent
to it. If it was set back to an older memory, it learns so what it told in another life, and goes on
under another number. Else it takes no notice, and what was said of it is not believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.entries import FORGET, HEADER, Attributed, Told, order
from coopbandits.core.contract import Vector
from coopbandits.fleet.protocol.peers import Peer


@dataclass
class Question:
    """An entry that its author is shown.

    Attributes
    ----------
    row, version : Vector and float
        The entry, and how many pulls it tells of.
    since : int
        The number of the first message with it; 0 before there is one.
    """

    row: Vector
    version: float
    since: int = 0

    def is_answered(self, author: Peer) -> bool:
        """Return whether the author has it."""
        return 0 < self.since <= author.acked

    def put(self, values: Vector) -> Vector:
        """Return a message that asks it."""
        self.since = self.since or int(values[0])
        rows = values[HEADER:].reshape(-1, self.row.size)
        is_there = (rows == self.row).all(axis=1).any()
        return values if is_there else np.concatenate([values, self.row])


class Words:
    """What was said of one agent's neighbours, by themselves and by others.

    Parameters
    ----------
    claims : Claims
        What was believed so far.
    peers : mapping
        The neighbours by number.
    command : callable
        Gives an order, in a neighbour's message.
    check_own : callable
        Does what `check` does, for an entry of the agent itself.
    """

    def __init__(
        self,
        claims: Claims,
        peers: Mapping[int, Peer],
        command: Callable[[Peer, Vector], None],
        check_own: Callable[[Peer, Vector, float, float], bool | None],
    ) -> None:
        self.claims, self.peers = claims, peers
        self._command, self._check_own = command, check_own
        self._asked: dict[int, Question] = {}

    def check(
        self, machine: Attributed, peer: Peer, values: Vector, told: list[Told], now: float
    ) -> list[bool | None]:
        """Return which entries of a message are believed; None for those that may be later."""
        own, known = peer.entry, self.claims.known
        if all(number == own and version > known(number) for number, _, version in told):
            return [True] * len(told)  # it tells of itself alone, as most do
        linked: dict[float, Peer] = {each.entry: each for each in self.peers.values() if each.met}
        linked[own] = peer
        verdicts: list[bool | None] = []
        for row, (number, _, version) in zip(machine.rows(values), told, strict=True):
            if number == machine.number:
                verdicts.append(self._check_own(peer, row, version, now))
            elif number in linked:
                verdicts.append(self._check_linked(machine, peer, linked[number], row, version))
            else:
                verdicts.append(True)
        return verdicts

    def _check_linked(
        self, machine: Attributed, peer: Peer, author: Peer, row: Vector, version: float
    ) -> bool | None:
        """Return whether an entry of a linked author is believed; None while it is asked."""
        number = author.entry
        if peer is author and version > self.claims.known(number):
            return True
        held = machine.entry(number)
        had = machine.versions(held[None])[0] if held is not None else -1.0
        if peer is not author:
            if version <= had:
                return True
            return False if self._is_denied(author, row, version) else None
        if held is not None and held.tobytes() != row.tobytes():
            if version < had and not self._is_denied(author, held, had):
                return None
            self._command(peer, order(FORGET, number, row[HEADER:]))
            self.claims.forget(number)
        return True

    def _is_denied(self, author: Peer, row: Vector, version: float) -> bool:
        """Return whether an author was shown an entry and stays with its own; else ask it.

        A question is not replaced before it is answered: whoever says ever more could put off the
        answer for ever.
        """
        asked = self._asked.get(author.number)
        if asked is not None and asked.is_answered(author) and version <= asked.version:
            return True
        if asked is None or asked.is_answered(author):
            self._asked[author.number] = Question(row.copy(), version)
        return False

    def question(self, author: Peer) -> Question | None:
        """Return what is still to be asked of a neighbour."""
        asked = self._asked.get(author.number)
        return None if asked is None or asked.is_answered(author) else asked

    def drop(self, number: int) -> None:
        """Forget what a neighbour was asked: it greets anew, and may know better by now."""
        self._asked.pop(number, None)
