"""What lately happened to an agent, for people who watch it, and what it rejected.

Both are bounded, since others decide how much there is: every rejection is counted, and a few are
logged.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable

from coopbandits.fleet.protocol.frames import printable
from coopbandits.fleet.sparing import SparingLog
from coopbandits.page.state import Note

MOST = 100
"""Notes kept."""

APART = 1.0
"""Seconds between two notes of one kind about the same."""

SUBJECTS = 1000
"""About so many things it is remembered when the last note was made."""


class Chronicle:
    """The newest notes of an agent.

    Parameters
    ----------
    clock : callable
        Seconds since 1970.
    incarnation : int
        Which start of the agent this is: numbers of notes are larger than those of earlier ones.
    """

    def __init__(self, clock: Callable[[], float], incarnation: int) -> None:
        self.clock, self.started = clock, clock()
        self.notes: deque[Note] = deque(maxlen=MOST)
        self._seq = incarnation << 20
        self._last: dict[tuple[str, str], float] = {}

    def note(self, kind: str, text: str, about: str = "", apart: float = APART) -> None:
        """Add a note, unless one of this kind about the same was made just before."""
        now = self.clock()
        if now - self._last.get((kind, about), -apart) < apart:
            return
        if len(self._last) > SUBJECTS:
            self._last.clear()
        self._last[kind, about] = now
        self._seq += 1
        self.notes.append(Note(self._seq, now, kind, printable(text)))

    def since(self, seq: int) -> list[Note]:
        """Return all notes after one."""
        return [note for note in self.notes if note.seq > seq]


QUIET_SECONDS = 60.0
"""Refusals of one kind are logged at most this often; all of them are counted."""

MOST_LOGGED = 1000
"""Of so many kinds it is remembered when they were logged."""

log = logging.getLogger(__name__)


class Refusals:
    """Counts and tells what is refused.

    Parameters
    ----------
    clock : callable
        Seconds since 1970.
    chronicle : Chronicle
        Where people who watch read of it.

    Attributes
    ----------
    counts : Counter
        Refused frames, by reason.
    strangers : int
        Connections that could not prove to be a neighbour's.
    """

    def __init__(self, clock: Callable[[], float], chronicle: Chronicle) -> None:
        self.clock, self.chronicle = clock, chronicle
        self.counts: Counter[str] = Counter()
        self.strangers = 0
        self._logged: dict[tuple[str, str], float] = {}
        self._strangers_log = SparingLog(log, "strangers")

    def count(self, who: str, reason: str, sentence: str) -> None:
        """Count a refused frame."""
        self.counts[reason] += 1
        self.tell(who, reason, sentence)

    def tell(self, who: str, reason: str, sentence: str) -> None:
        """Log a refusal, and note it."""
        if self.is_time_to_log(who, reason):
            log.warning("refused %s: %s", who, sentence)
            self.chronicle.note("refused", f"refused {who}: {sentence}", who)

    def tell_failure(self, who: str, sentence: str, error: Exception) -> None:
        """Log that a bug came up, with where it did."""
        if self.is_time_to_log(who, "failed"):
            log.error("refused %s: %s", who, sentence, exc_info=error)
            self.chronicle.note("refused", f"refused {who}: {sentence}", who)

    def tell_stranger(self, who: str, reason: str) -> None:
        """Log a stranger, of which there can be any number."""
        self.chronicle.note("refused", f"refused {who}: {reason}", apart=QUIET_SECONDS)
        self._strangers_log.warning(self.clock(), "refused %s: %s", who, reason)

    def is_time_to_log(self, who: str, reason: str) -> bool:
        """Return whether such a refusal was not logged just before; it is remembered as logged."""
        now = self.clock()
        if now - self._logged.get((who, reason), -QUIET_SECONDS) < QUIET_SECONDS:
            return False
        if len(self._logged) > MOST_LOGGED:
            self._logged.clear()
        self._logged[who, reason] = now
        return True
