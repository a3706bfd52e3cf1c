"""Logs of events that others can trigger as often as they like: a few in full, the rest counted."""

from __future__ import annotations

import logging
import math

from coopbandits.fleet.logs import LogEvent


class RateLimitedLog:
    """Writes at most a few lines per interval, however much happens.

    Parameters
    ----------
    log : Logger
        Where lines go.
    what : str
        What is counted, for the line that says how many were left out.
    few : int
        Lines per interval.
    interval : float
        Its length in seconds.
    """

    def __init__(
        self, log: logging.Logger, what: str, few: int = 5, interval: float = 60.0
    ) -> None:
        self.log, self.what, self.few, self.interval = log, what, few, interval
        self._since, self._count = -math.inf, 0

    def info(self, now: float, event: LogEvent) -> None:
        """Log a line, or count it; `now` is in seconds on any clock."""
        self._write(logging.INFO, now, event)

    def warning(self, now: float, event: LogEvent) -> None:
        """Log a warning, or count it."""
        self._write(logging.WARNING, now, event)

    def _write(self, level: int, now: float, event: LogEvent) -> None:
        if now - self._since >= self.interval:
            if self._count > self.few:
                self.log.warning("%d more %s were not logged", self._count - self.few, self.what)
            self._since, self._count = now, 0
        self._count += 1
        if self._count <= self.few:
            self.log.log(level, event)
        if self._count == self.few:
            self.log.warning("more %s are only counted for %g s", self.what, self.interval)


class Allowance:
    """A token bucket: what a neighbour may make an agent do, at a rate and in a burst."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self._spare, self._when = burst, 0.0

    def grant(self, now: float, cost: float = 1.0) -> bool:
        """Return whether something may be done now; if so, it is paid for."""
        gained = self.rate * max(0.0, now - self._when)
        self._spare, self._when = min(self.burst, self._spare + gained), now
        if self._spare < cost:
            return False
        self._spare -= cost
        return True

    def refund(self, cost: float = 1.0) -> None:
        """Return what was paid for something that turned out to cost nothing."""
        self._spare = min(self.burst, self._spare + cost)
