"""What a node refuses: all of it is counted, and some is told, since others decide how much."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from coopbandits.fleet.protocol.chronicle import Chronicle
from coopbandits.fleet.sparing import SparingLog

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
