"""Notices that an agent is away, so that calls need not wait to find out."""

from __future__ import annotations

import threading
import time
from typing import Any

FAILURES = 3
"""Calls in a row that must fail, each after its whole timeout, before others fail at once."""

PROBE_SECONDS = 0.5
"""The least time between two probes."""

GLANCE = 0.05
"""Seconds that the call which begins a probe waits for it: enough for an agent on this machine."""


class Breaker:
    """Whether the agent is away.

    It is closed at first, and all calls go through. It opens when some in a row have failed, and
    closes with the first answer, which is that to a probe mostly.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._next_probe = 0.0
        self._probing = threading.Lock()
        self.reason = ""

    @property
    def is_open(self) -> bool:
        """Whether calls are to fail at once."""
        return self._failures >= FAILURES

    def succeed(self) -> None:
        """Note an answer."""
        if self.is_open:
            _logger().info("the agent answers again")
        self._failures = 0

    def fail(self, reason: str) -> None:
        """Note a call without an answer."""
        self.reason = reason
        self._failures += 1  # threads may count too few here; then it opens a call later
        if self._failures == FAILURES:
            _logger().warning("%s; calls fail at once until it answers again", reason)

    def begin_probe(self) -> bool:
        """Return whether the caller is to make a probe, and to tell when it is over."""
        if time.monotonic() < self._next_probe or not self._probing.acquire(blocking=False):
            return False
        self._next_probe = time.monotonic() + PROBE_SECONDS
        return True

    def end_probe(self) -> None:
        """Note that a probe is over."""
        self._probing.release()


def _logger() -> Any:
    import logging  # here, since it is rarely needed and takes a while to load

    logger = logging.getLogger(__name__)
    if not logger.handlers:  # a program that has set up no log is told nothing
        logger.addHandler(logging.NullHandler())
    return logger
