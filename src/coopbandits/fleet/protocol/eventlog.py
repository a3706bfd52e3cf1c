"""The newest events of an agent, for its page and its log: links, trouble, rejections.

All of it is bounded, since others decide how much happens: of events of one kind about the same
peer one a second is kept, and of rejections one a minute is logged.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.protocol.frames import printable
from coopbandits.fleet.ratelimit import RateLimitedLog
from coopbandits.page.state import Note

MOST = 100
"""Events kept."""

APART = 1.0
"""Seconds between two events of one kind about the same peer."""

QUIET_SECONDS = 60.0
"""Seconds between two log lines about rejections of one kind and peer."""

SUBJECTS = 1000
"""About as many pairs of kind and peer are remembered with the time of their last event."""

log = logging.getLogger(__name__)


class EventLog:
    """The newest events of an agent.

    Parameters
    ----------
    clock : callable
        Seconds since 1970.
    incarnation : int
        Which start of the agent this is: numbers of events are larger than those of earlier ones.

    Attributes
    ----------
    started : float
        When it was made.
    notes : deque of Note
        The events, oldest first.
    """

    def __init__(self, clock: Callable[[], float], incarnation: int) -> None:
        self.clock, self.started = clock, clock()
        self.notes: deque[Note] = deque(maxlen=MOST)
        self._seq = incarnation << 20
        self._last: dict[tuple[str, str], float] = {}
        self._logged: dict[tuple[str, str], float] = {}
        self._strangers_log = RateLimitedLog(log, "strangers")

    def note(self, kind: str, text: str, about: str = "", apart: float = APART) -> None:
        """Add an event, unless the last one of this kind about the same peer is too recent."""
        if self._is_due(self._last, (kind, about), apart):
            self._seq += 1
            self.notes.append(Note(self._seq, self.clock(), kind, printable(text)))

    def since(self, seq: int) -> list[Note]:
        """Return all events after one."""
        return [note for note in self.notes if note.seq > seq]

    def refused(self, who: str, reason: str, sentence: str, error: Exception | None = None) -> None:
        """Log and note that something of a peer was rejected; a bug with its traceback."""
        if self._is_due(self._logged, (who, reason), QUIET_SECONDS):
            level = logging.WARNING if error is None else logging.ERROR
            log.log(
                level, LogEvent("refused", peer=who, kind=reason, reason=sentence), exc_info=error
            )
            self.note("refused", f"refused {who}: {sentence}", who)

    def refused_stranger(self, who: str, reason: str) -> None:
        """Log and note a stranger, whose name says nothing: there can be any number of them."""
        self.note("refused", f"refused {who}: {reason}", apart=QUIET_SECONDS)
        self._strangers_log.warning(
            self.clock(), LogEvent("refused", peer=who, kind="stranger", reason=reason)
        )

    def _is_due(
        self, last: dict[tuple[str, str], float], key: tuple[str, str], apart: float
    ) -> bool:
        now = self.clock()
        if now - last.get(key, -apart) < apart:
            return False
        if len(last) > SUBJECTS:
            last.clear()
        last[key] = now
        return True
