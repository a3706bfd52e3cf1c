"""What lately happened to an agent, for people who watch it: a short list, whatever others do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from coopbandits.fleet.protocol.frames import printable
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
