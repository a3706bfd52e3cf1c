"""One agent's machine: what is there whether or not a process runs on it."""

from __future__ import annotations

import math
from collections.abc import Callable

from coopbandits.core.draws import stream_key, word_at
from tests.torture.application import Account, Application
from tests.torture.bandits import Declared
from tests.torture.files import VirtualFiles
from tests.torture.process import Process, VirtualClock, name
from tests.torture.schedule import DISKS, IDENTITIES, PHASES, PULLS, SECOND
from tests.torture.words import words_of


class Actor:
    """One agent's machine: its disk, clock and application, and the process while there is one.

    Parameters
    ----------
    seed, index : int
        Of the run, and which agent it is.
    now : callable
        Returns the microseconds since the run began.
    """

    def __init__(self, seed: int, index: int, now: Callable[[], int]) -> None:
        self.index, self.name = index, name(index)
        self.files = VirtualFiles(stream_key(seed, DISKS, index))
        word = word_at(stream_key(seed, PHASES), index)
        self.phase = word % (SECOND // 10)
        speed = SECOND + (word >> 32) % (SECOND // 10) - SECOND // 20
        self.clock = VirtualClock(now, speed)
        self.app = Application(stream_key(seed, PULLS, index))
        self._words = words_of(stream_key(seed, IDENTITIES, index))
        self.neighbors: set[int] = set()
        self.process: Process | None = None
        self.life = 0
        self.awake_at = self.broken_until = 0
        self.armed = 0.0
        self.beaten = -math.inf
        self.due = math.nan
        self.down_for = SECOND
        self.damaged = self.uncertain = False
        self.sound: dict[str, bytes] = {}
        self.copies: list[tuple[dict[str, bytes], Account]] = []
        self.revoked: frozenset[str] = frozenset()
        self.document = 0
        self.file = Declared(side=bool(word >> 24 & 1))
        self.heard: dict[tuple[str, int], tuple[int, int, int]] = {}

    def words(self) -> int:
        """Return 64 random bits, as the operating system would."""
        return next(self._words)

    def back_up(self) -> None:
        """Copy the journal and what the application knows, unless that is no good copy."""
        if self.files.names and not self.uncertain and not self.damaged:
            self.copies.append((self.files.copy(), self.app.account.copy()))
