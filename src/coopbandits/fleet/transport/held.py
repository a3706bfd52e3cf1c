"""Streams that are read when somebody asks for it, instead of when something arrives.

What rounds by the clock send is used at the next tick only. To be woken for each message costs more
than to read it, so an agent with such rounds looks once per tick which links have something.
"""

from __future__ import annotations

import asyncio
import select
import socket
import time
from typing import Protocol

TURNS = 64
"""How many records of one stream are read at once: as much as may be queued at the other end."""

SECONDS = 0.005
"""For so long streams are read, and a record more; then all others of the process have a turn."""


class Readable(Protocol):
    """A stream."""

    @property
    def sock(self) -> socket.socket:
        """What is read."""

    def read(self) -> bool:
        """Take one record, and return whether there was one."""


class Held:
    """The streams that are held, and which of them have something to read."""

    def __init__(self) -> None:
        self._ready = select.poll()
        self._streams: dict[int, Readable] = {}
        self._rest: asyncio.Handle | None = None

    def add(self, stream: Readable) -> None:
        """Look after a stream."""
        file = stream.sock.fileno()
        self._streams[file] = stream
        self._ready.register(file, select.POLLIN)

    def remove(self, stream: Readable) -> None:
        """Forget a stream, before its socket is closed."""
        file = stream.sock.fileno()
        del self._streams[file]
        self._ready.unregister(file)

    def read(self) -> None:
        """Read all that has arrived; a stream that never ends lets others have their turn."""
        until = time.monotonic() + SECONDS
        for turn in range(TURNS):
            if turn and time.monotonic() >= until:
                break
            taken = False
            for file, _ in self._ready.poll(0):
                stream = self._streams.get(file)  # what another one said may have closed it
                if stream is not None and stream.read():
                    taken = True
            if not taken:
                return
        if self._rest is None:
            self._rest = asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._rest = None
        self.read()
