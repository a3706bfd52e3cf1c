"""Whose turn it is, where there are more threads than connections."""

from __future__ import annotations

import threading
from collections import deque


class Line:
    """Lets so many threads in at a time, in the order in which they came.

    A semaphore does not keep an order: a thread that leaves and comes back at once is let in before
    those that wait, again and again.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    def enter(self, timeout: float) -> bool:
        """Wait for a place; return whether there was one in time."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire(timeout=timeout)
        except BaseException:  # interrupted
            if not self._give_up(turn):
                self.leave()
            raise
        return not self._give_up(turn)

    def _give_up(self, turn: threading.Lock) -> bool:
        """Return whether a thread was still waiting; it is no longer."""
        with self._lock:
            if turn not in self._waiting:
                return False
            self._waiting.remove(turn)
            return True

    def leave(self) -> None:
        """Give the place to the first who waits."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1
