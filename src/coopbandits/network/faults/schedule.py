"""A schedule: the faults of one run, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.network.faults.absence import AWAY, FRESH
from coopbandits.network.faults.kind import Effect, Kind
from coopbandits.network.faults.links import Links, Rounds

LOST = -1
"""The message is sent and does not arrive."""
DOWN = -2
"""Nothing is sent: the link is down, or the sender does not act."""

PIECE = 30_000
"""Entries that are drawn at once."""


class Chunk(NamedTuple):
    """Some rounds of a schedule.

    Attributes
    ----------
    acts : uint8 of shape (rounds, N)
        1 where an agent acts. An agent that does not neither pulls, sends nor receives, but its
        round count advances.
    fresh : uint8 of shape (rounds, N)
        1 where a fresh agent takes the place of one that has lost its state, before the round.
    fate : int16 of shape (rounds, directed links)
        The fate of a message sent in this round: `DOWN` (nothing is sent), `LOST`, or the number of
        rounds by which it is late. Absence is included: a message that would arrive in a round in
        which the receiver does not act is lost. Links as in `directed_links`.
    """

    acts: NDArray[np.uint8]
    fresh: NDArray[np.uint8]
    fate: NDArray[np.int16]


class Schedule:
    """The faults of one run; rounds are read in order, in chunks of any size.

    Parameters
    ----------
    links : Links
        The directed links of the network.
    effects : sequence of (Kind, Effect)
        What goes wrong.
    longest : int
        The longest delay.
    """

    def __init__(self, links: Links, effects: Sequence[tuple[Kind, Effect]], longest: int) -> None:
        self.links, self.effects, self.longest = links, effects, longest
        self.done = 0
        self.ahead = np.zeros((0, links.network.num_agents), dtype=np.uint8)

    def read(self, rounds: int) -> Chunk:
        """Return the next rounds, drawn in pieces that stay in a processor's cache."""
        num_agents, num_links = self.links.network.num_agents, self.links.senders.size
        chunk = Chunk(
            np.ones((rounds, num_agents), dtype=np.uint8),
            np.zeros((rounds, num_agents), dtype=np.uint8),
            np.zeros((rounds, num_links), dtype=np.int16),
        )
        piece = max(1, PIECE // (num_agents + num_links))
        for first in range(0, rounds, piece):
            self._write(*(part[first : first + piece] for part in chunk))
        return chunk

    def _write(self, acts: Any, fresh: Any, fate: Any) -> None:
        """Write some rounds."""
        rounds, links = len(acts), self.links
        now = np.arange(self.done, self.done + rounds)
        bits = self._agents(rounds)
        for late in self._effects("delay", now):
            fate += late.astype(np.int16)
        lost = [lost.astype(np.bool_) for lost in self._effects("messages", now)]
        down = [down.astype(np.bool_) for down in self._effects("links", now)]
        if bits.any():
            away = (bits & AWAY).astype(np.bool_)
            acts[:] = ~away[:rounds]
            fresh[:] = bits[:rounds] & FRESH > 0
            lost.append(away[np.arange(rounds)[:, None] + fate, links.receivers])
            down.append(away[:rounds, links.senders])
        for mask in lost:
            np.copyto(fate, LOST, where=mask)
        for mask in down:
            np.copyto(fate, DOWN, where=mask)
        self.done += rounds

    def _agents(self, rounds: int) -> NDArray[np.uint8]:
        """Return the agents' bits of the next rounds, and of those that late messages may reach."""
        known = self.done + len(self.ahead)
        wanted = self.done + rounds + self.longest
        more = np.zeros((wanted - known, self.ahead.shape[1]), dtype=np.uint8)
        for bits in self._effects("agents", np.arange(known, wanted)):
            more |= bits.astype(np.uint8)
        bits = np.concatenate([self.ahead, more])
        self.ahead = bits[rounds:]
        return bits

    def _effects(self, touched: str, rounds: Rounds) -> list[NDArray[Any]]:
        found = [
            (k, np.asarray(effect(rounds))) for k, effect in self.effects if k.touches == touched
        ]
        for kind, effect in found:
            self._check(kind, effect, rounds.size)
        return [effect for _, effect in found]

    def _check(self, kind: Kind, effect: NDArray[Any], rounds: int) -> None:
        """Refuse effects of a user-defined kind that have the wrong shape or values."""
        links = self.links
        columns = links.network.num_agents if kind.touches == "agents" else links.senders.size
        if effect.shape != (rounds, columns):
            raise InputError(
                f"fault {kind.spelling} returns {kind.touches} of shape {effect.shape}; begin must "
                f"return what gives one row per round and {columns} columns here"
            )
        if effect.dtype.kind not in "biu":
            raise InputError(
                f"fault {kind.spelling} returns {kind.touches} as {effect.dtype}; return whole "
                "numbers, or true and false"
            )
        if kind.touches == "delay" and effect.size:
            low, high, most = int(effect.min()), int(effect.max()), kind.longest_delay
            if low < 0 or high > most:
                raise InputError(
                    f"fault {kind.spelling} makes messages late by {low} to {high} rounds; they "
                    f"must lie between 0 and its longest_delay, {most}"
                )
