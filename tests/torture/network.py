"""Links that are slow, lose, repeat and swap messages, hold them back, and break."""

from __future__ import annotations

from collections import deque

from coopbandits.core.draws import stream_key
from coopbandits.fleet.protocol.frames import BANDIT
from tests.torture.schedule import MESSAGES, SECOND, Weather
from tests.torture.words import words_of

KIND_AT, GREETS = 3, bytes([BANDIT])
"""Where a frame tells its kind, and the kind of greetings about bandits."""

MOST_WAITING = 500
"""So many messages wait on a link before it breaks, as when a socket's buffer is full."""


def _greets(data: bytes) -> bool:
    return data[KIND_AT : KIND_AT + 1] == GREETS


class Direction:
    """One direction of a link: what is under way, in order, and how it is treated."""

    def __init__(self, key: int) -> None:
        self._words = words_of(key)
        self.waiting: deque[bytes] = deque()
        self.sent = self.taken = 0
        self.held_until = 0
        self.last_arrival = 0

    def word(self) -> int:
        """Return the next word of this direction."""
        return next(self._words)


class Link:
    """What connects two agents, `one` having the smaller number."""

    def __init__(self, seed: int, one: int, other: int) -> None:
        self.ends = one, other
        self.up, self.generation, self.cut_until = False, 0, 0
        self.caller, self.cause = -1, object()  # who has opened it, and why
        self.directions = {
            (one, other): Direction(stream_key(seed, MESSAGES, one, other)),
            (other, one): Direction(stream_key(seed, MESSAGES, other, one)),
        }

    def open(self) -> None:
        """Begin anew."""
        self.up = True
        self.generation += 1
        for way in self.directions.values():
            way.waiting.clear()
            way.sent = way.taken = way.last_arrival = 0

    def close(self) -> None:
        """Lose what is under way."""
        self.up = False
        self.generation += 1
        for way in self.directions.values():
            way.waiting.clear()

    def post(self, ends: tuple[int, int], data: bytes, weather: Weather, now: int) -> list[int]:
        """Put a message under way; return when something arrives.

        Whatever the weather, HELLO comes first and arrives: without it there is no link. So do
        greetings about bandits, without which nothing is said of them. Nothing overtakes them: they
        say which rounds and arms the messages after them have.
        """
        way = self.directions[ends]
        word = way.word()
        way.sent += 1
        greets = way.sent == 1 or _greets(data)
        if not greets and (word & 1023) < weather.lost:
            return []
        copies = 1 + (not greets and (word >> 10 & 1023) < weather.twice)
        arrival = max(way.last_arrival, now + (word >> 20) % (2 * weather.delay))
        way.last_arrival = arrival
        for _ in range(copies):
            way.waiting.append(data)
        if way.taken and len(way.waiting) > 1 and (word >> 54) < weather.swapped:
            before, last = way.waiting[-2], way.waiting[-1]
            if not (_greets(before) or _greets(last)):
                way.waiting[-2], way.waiting[-1] = last, before
        return [arrival] * copies

    def take(self, ends: tuple[int, int], weather: Weather) -> list[bytes]:
        """Return what arrives first, perhaps split in two."""
        way = self.directions[ends]
        if not way.waiting:
            return []
        data = way.waiting.popleft()
        way.taken += 1
        word = way.word()
        if len(data) > 1 and (word & 1023) < weather.split:
            at = 1 + (word >> 10) % (len(data) - 1)
            return [data[:at], data[at:]]
        return [data]

    def held_until(self) -> int:
        """Return until when nothing passes in one direction, or in both."""
        return max(self.cut_until, *(way.held_until for way in self.directions.values()))

    def dial_pause(self) -> int:
        """Return how long it takes until the link is tried again."""
        word = self.directions[self.ends].word()
        return SECOND // 50 + word % (SECOND // 2)
