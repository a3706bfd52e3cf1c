"""Logs of events that others can cause as often as they like: a few in full, the rest counted."""

from __future__ import annotations

import logging
import math

FEW = 5
INTERVAL = 60.0


class SparingLog:
    """Writes at most a few lines per interval, however much happens.

    Parameters
    ----------
    log : Logger
        Where lines go.
    what : str
        What is counted, for the line that tells how many were left out.
    few : int
        Lines per interval.
    interval : float
        Its length in seconds.
    """

    def __init__(
        self, log: logging.Logger, what: str, few: int = FEW, interval: float = INTERVAL
    ) -> None:
        self.log, self.what, self.few, self.interval = log, what, few, interval
        self._since, self._count = -math.inf, 0

    def info(self, now: float, text: str, *arguments: object) -> None:
        """Log a line, or count it; `now` is in seconds on any clock."""
        self._tell(logging.INFO, now, text, *arguments)

    def warning(self, now: float, text: str, *arguments: object) -> None:
        """Log a warning, or count it."""
        self._tell(logging.WARNING, now, text, *arguments)

    def _tell(self, level: int, now: float, text: str, *arguments: object) -> None:
        if now - self._since >= self.interval:
            if self._count > self.few:
                self.log.warning("%d more %s were not logged", self._count - self.few, self.what)
            self._since, self._count = now, 0
        self._count += 1
        if self._count <= self.few:
            self.log.log(level, text, *arguments)
        if self._count == self.few:
            self.log.warning("more %s are only counted for %g s", self.what, self.interval)
