"""Bytes over one connected socket, secured or plain, as callbacks of the event loop.

An `ssl.SSLSocket` is read and written by the same calls as any other socket, so there is one way
for both. One callback handles at most one record of TLS: where more has come, the loop calls again
after all others had their turn.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from typing import Protocol

RECORD = 1 << 14
"""The most that a record of TLS carries: who asks for so much leaves nothing behind in OpenSSL."""

LOOK = 1.0
"""Seconds between two looks at a socket that nobody asked for.

uvloop calls only once for a connection that was reset, however much is left to read.
"""


class User(Protocol):
    """Whom a stream tells what happens; a call of the stream's own methods tells nothing."""

    def data_received(self, data: bytes) -> None:
        """Some bytes have arrived, cut anywhere."""

    def connection_lost(self, error: OSError | None) -> None:
        """Nothing is left of the connection; None where the other end, or this one, closed it."""


class Stream:
    """Sends at once what the system takes, and the rest when it takes more.

    Parameters
    ----------
    sock : socket
        A connected one that does not block, its handshake over. The stream closes it.
    user : User
        Who is told what happens.

    Attributes
    ----------
    waiting : int
        Bytes that the system has not taken yet.
    """

    def __init__(self, sock: socket.socket, user: User) -> None:
        self.sock, self.user = sock, user
        self.waiting = 0
        self._queue: deque[bytes] = deque()
        self._blocked = False
        self._open = True
        self._deadline: asyncio.TimerHandle | None = None  # of closing, once it has begun
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._read)
        self._next_look: asyncio.Handle = self._loop.call_later(LOOK, self._look)

    def write(self, data: bytes) -> None:
        """Send bytes; after `close` or the end there is nobody to send them to."""
        if self._deadline is not None or not self._open:
            return
        if len(data) <= RECORD:
            self._queue.append(data)
        else:
            self._queue += (data[at : at + RECORD] for at in range(0, len(data), RECORD))
        self.waiting += len(data)
        if not self._blocked:
            self._flush()

    def close(self, patience: float) -> None:
        """Let what was written still go out, and say that it was all.

        After so many seconds it is given up.
        """
        if self._open and self._deadline is None:
            self._deadline = self._loop.call_later(patience, self.abort)
            if not self._queue:
                self._part()

    def abort(self) -> None:
        """Close at once."""
        if self._open:
            self._shut()
            self._loop.call_soon(self.user.connection_lost, None)

    def _read(self) -> bool:
        """Return whether something was there: then there may be more."""
        try:
            data = self.sock.recv(RECORD)
        except (BlockingIOError, ssl.SSLWantReadError):  # half a record, or one of TLS's own
            return False
        except OSError as error:
            self._lose(error)
            return False
        if not data:
            self._lose(None)
        elif self._deadline is None:
            self.user.data_received(data)
        return bool(data)

    def _look(self) -> None:
        more = self._open and self._read()
        if self._open:
            self._next_look = self._loop.call_later(0.0 if more else LOOK, self._look)

    def _flush(self) -> None:
        queue = self._queue
        try:
            while queue:
                data = queue[0]  # and again as it is, if it does not go out: TLS wants that
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
        return None if self._deadline is None else self._part()

    def _block(self) -> None:
        if not self._blocked:
            self._blocked = True
            self._loop.add_writer(self.sock, self._flush)

    def _part(self) -> None:
        """Say that no more comes, and wait until the other end says so too.

        A socket that is closed while bytes are unread takes back what it has sent.
        """
        try:
            if isinstance(self.sock, ssl.SSLSocket):
                self._say_farewell(self.sock)
            self.sock.shutdown(socket.SHUT_WR)
        except ssl.SSLWantWriteError:
            self._block()
        except OSError as error:
            self._fail(error)

    def _say_farewell(self, sock: ssl.SSLSocket) -> None:
        try:
            sock.unwrap()
        except ssl.SSLWantWriteError:
            raise
        except ssl.SSLError:  # nothing has come yet, or something else than the same from there
            return

    def _fail(self, error: OSError) -> None:
        """End soon, by this error and not by what would be read after it."""
        self._loop.remove_reader(self.sock)
        self._loop.call_soon(self._lose, error)

    def _lose(self, error: OSError | None) -> None:
        if self._open:
            self._shut()
            self.user.connection_lost(error)

    def _shut(self) -> None:
        self._open = False
        self._loop.remove_reader(self.sock)
        self._loop.remove_writer(self.sock)
        self._next_look.cancel()
        if self._deadline:
            self._deadline.cancel()
        self._queue.clear()
        self.sock.close()
