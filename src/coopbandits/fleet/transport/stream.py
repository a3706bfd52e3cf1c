"""Bytes over one connected TLS socket, driven by the event loop.

A callback handles at most one TLS record; if more has arrived, the loop calls again after all
others had their turn. A held stream is read when somebody asks (`Held`): what rounds by the clock
send is used at the next tick only. To be woken for each message costs more than to read it, so an
agent with such rounds looks once per tick which links have something.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import time
from collections import deque
from typing import Protocol

RECORD = 1 << 14
"""The largest TLS record: reading this much leaves nothing buffered in OpenSSL."""

POLL_SECONDS = 1.0
"""Time between two reads that the event loop did not ask for.

uvloop calls only once for a connection that was reset, however much is left to read.
"""


class User(Protocol):
    """Receives a stream's callbacks, which never come from inside a call to the stream."""

    def data_received(self, data: bytes) -> None:
        """Some bytes have arrived, split anywhere."""

    def connection_lost(self, error: OSError | None) -> None:
        """The socket is closed; the error is None if either end closed it on purpose."""


class Stream:
    """Sends what the system accepts at once, and queues the rest.

    Parameters
    ----------
    sock : SSLSocket
        Connected, non-blocking, after its handshake. The stream closes it.
    user : User
        Receives the callbacks.

    Attributes
    ----------
    waiting : int
        Bytes queued.
    """

    def __init__(self, sock: ssl.SSLSocket, user: User) -> None:
        self.sock, self.user = sock, user
        self.waiting = 0
        self._queue: deque[bytes] = deque()
        self._blocked = False
        self._open = True
        self._deadline: asyncio.TimerHandle | None = None  # set while closing
        self._loop = asyncio.get_running_loop()
        self._held: Held | None = None
        self._loop.add_reader(sock, self.read)
        self._next_poll: asyncio.Handle = self._loop.call_later(POLL_SECONDS, self._poll)

    def write(self, data: bytes) -> None:
        """Send bytes; after `close` or the end they are discarded."""
        if self._deadline is not None or not self._open:
            return
        if len(data) <= RECORD:
            self._queue.append(data)
        else:
            self._queue += (data[at : at + RECORD] for at in range(0, len(data), RECORD))
        self.waiting += len(data)
        if not self._blocked:
            self._flush()

    def hold(self, held: Held) -> None:
        """Read when `held` is read, instead of when something arrives."""
        if self._open and self._deadline is None:
            self._loop.remove_reader(self.sock)
            self._held = held
            held.add(self)

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.remove(self)
            self._held = None

    def close(self, patience: float) -> None:
        """Send what is queued, then close in order; abort after `patience` seconds."""
        if self._open and self._deadline is None:
            if self._held is not None:
                self._let_go()
                self._loop.add_reader(self.sock, self.read)
            self._deadline = self._loop.call_later(patience, self.abort)
            if not self._queue:
                self._shut_down()

    def abort(self) -> None:
        """Close at once."""
        if self._open:
            self._release()
            self._loop.call_soon(self.user.connection_lost, None)

    def read(self) -> bool:
        """Take one record, and return whether there was one, so that there may be more."""
        try:
            data = self.sock.recv(RECORD)
        except (BlockingIOError, ssl.SSLWantReadError):  # a partial record, or one internal to TLS
            return False
        except OSError as error:
            self._lose(error)
            return False
        if not data:
            self._lose(None)
        elif self._deadline is None:
            self.user.data_received(data)
        return bool(data)

    def _poll(self) -> None:
        more = self._open and self.read()
        if self._open:
            self._next_poll = self._loop.call_later(0.0 if more else POLL_SECONDS, self._poll)

    def _flush(self) -> None:
        queue = self._queue
        try:
            while queue:
                data = queue[0]  # TLS requires a retry with the very same bytes
                sent = self.sock.send(data)
                self.waiting -= sent
                if sent == len(data):
                    queue.popleft()
                else:
                    queue[0] = data[sent:]
        except (BlockingIOError, ssl.SSLWantWriteError):
            return self._block()
        except OSError as error:
            return self._fail(error)
        if self._blocked:
            self._blocked = False
            self._loop.remove_writer(self.sock)
        return None if self._deadline is None else self._shut_down()

    def _block(self) -> None:
        if not self._blocked:
            self._blocked = True
            self._loop.add_writer(self.sock, self._flush)

    def _shut_down(self) -> None:
        """Close the sending direction, and wait until the other end does the same.

        Closing a socket with unread bytes resets the connection, which may discard what was sent.
        """
        try:
            self._notify_close()
            self.sock.shutdown(socket.SHUT_WR)
        except ssl.SSLWantWriteError:
            self._block()
        except OSError as error:
            self._fail(error)

    def _notify_close(self) -> None:
        try:
            self.sock.unwrap()
        except ssl.SSLWantWriteError:
            raise
        except ssl.SSLError:  # the other end has not sent its close_notify yet
            return

    def _fail(self, error: OSError) -> None:
        """End soon with this error, not with one that a later read would raise."""
        self._let_go()
        self._loop.remove_reader(self.sock)
        self._loop.call_soon(self._lose, error)

    def _lose(self, error: OSError | None) -> None:
        if self._open:
            self._release()
            self.user.connection_lost(error)

    def _release(self) -> None:
        self._open = False
        self._let_go()
        self._loop.remove_reader(self.sock)
        self._loop.remove_writer(self.sock)
        self._next_poll.cancel()
        if self._deadline:
            self._deadline.cancel()
        self._queue.clear()
        self.sock.close()


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
