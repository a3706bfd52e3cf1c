"""One TLS connection, from proving who is at the other end until it closes.

*The handshake.* A certificate may have several ids, and an end uses one of them over a connection:
each sends its id, preceded by its length as one byte. The end that was dialled begins. The dialling
end answers once it has decided to continue, and then waits for one more byte, which the other end
sends once it has accepted the dialler. In TLS 1.3 the handshake is over for the dialling end before
its certificate has been checked, so without that byte it would mistake a refusal for a link that
came up and broke.

*Bytes.* A `Stream` handles at most one TLS record per callback of the event loop; if more has
arrived, the loop calls again after all others had their turn. A held stream is read by a
`PolledReader` instead: what rounds by the clock send is used at the next tick only, and waking for
each message costs more than reading it, so an agent with such rounds looks once per tick which
links have something.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.chains import NO_HOLDER, read_holder
from coopbandits.fleet.identity.tls import ALPN, Credentials, reason_of
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.transport.sockets import Timing, tune

if TYPE_CHECKING:
    from coopbandits.fleet.transport.tcp import TcpTransport

WELCOME = b"\x01"
CLOSED = "the neighbour closed the link"
RECORD = 1 << 14
"""The largest TLS record: reading this much leaves nothing buffered in OpenSSL."""

POLL_SECONDS = 1.0
"""Time between two reads that the event loop did not ask for.

uvloop calls only once for a connection that was reset, however much is left to read.
"""

TURNS = 64
"""Most records of one stream read at once: as much as may be queued at the other end."""

SECONDS = 0.005
"""Time budget of one read pass, so that the event loop stays responsive; a record may exceed it."""

log = logging.getLogger(__name__)


class Connection:
    """A connection to one peer, whose id is known once it is up.

    Parameters
    ----------
    links : TcpTransport
        The transport it belongs to.
    address : str
        Where the other end is.
    peer : str or None
        The id that was dialled, "" for any agent that answers; None if the other end dialled.
    cause : object
        Why it was dialled, handed back to the node.

    Attributes
    ----------
    holder : Holder
        The ids and the key in the certificate of the other end.
    since : float
        When it came up, by the event loop's clock.
    refusal : str
        Why it never came up.
    settled : Event
        The link is up, or has failed for good.
    ended : Event
        The link is down, or never came up.
    lost : Event
        The socket is closed.
    """

    def __init__(
        self, links: TcpTransport, address: str, peer: str | None, cause: object = None
    ) -> None:
        self.links, self.address, self.dialled = links, address, peer is not None
        self.cause = cause
        self.peer = peer or ""
        self.who = address
        self.holder = NO_HOLDER
        self.stream: Stream | None = None
        self.up = False
        self.since = 0.0
        self.closing = False
        self.settled = asyncio.Event()
        self.ended = asyncio.Event()
        self.lost = asyncio.Event()
        self.refusal = ""
        self._heard, self._is_named = b"", False
        self._reason = ""

    def open(self, sock: ssl.SSLSocket) -> None:
        """Start: check the certificate."""
        self.stream = stream = Stream(sock, self)
        self.links.connections.add(self)
        try:
            self.holder = read_holder(sock.getpeercert(binary_form=True))
        except InputError as error:
            return self.refuse(f"it has {error}")
        if len(self.holder.names) == 1:
            (self.who,) = self.holder.names
        if sock.selected_alpn_protocol() != ALPN:
            return self.refuse(f"it does not speak {ALPN}")
        if self.peer and self.peer not in self.holder.names:
            return self._refuse_other()
        return None if self.dialled else self._say_name(stream)

    def _refuse_other(self) -> None:
        self.refuse(f"it answers at {self.address}, where {self.peer} should be")

    def _say_name(self, stream: Stream) -> None:
        own = self.links.node.encode()
        stream.write(bytes([len(own)]) + own)

    def _named(self, name: str, stream: Stream) -> None:
        """Decide about the other end, now that its id is known, and answer."""
        if name not in self.holder.names:
            return self.refuse(f"it says that it is {name!r}, which its certificate does not have")
        self.who = name
        if self.dialled and self.peer and name != self.peer:
            return self._refuse_other()
        objection = self.links.objection(name, dialled=self.dialled)
        objection = objection or self.links.second_name(name, self.holder)
        if objection:
            return self.refuse(objection)
        self.peer, self._is_named = name, True
        if self.dialled:
            return self._say_name(stream)
        stream.write(WELCOME)
        return self._begin()

    def _begin(self) -> None:
        second = self.links.second_name(self.peer, self.holder)
        if second:  # another connection with the same key was faster
            self.refuse(second)
            return
        self.up, self.since = True, asyncio.get_running_loop().time()
        self.settled.set()
        self.links.begin(self)

    def data_received(self, data: bytes) -> None:
        """Pass on received bytes; before the link is up, wait for an id or a welcome."""
        if self.closing:
            return
        if self.up:
            try:
                self.links.events.received(self.peer, data)
            except Exception:
                self.abort("what it sent could not be handled")
                raise  # the event loop logs it
        elif not self._is_named:
            self._hear_name(data)
        elif data[:1] != WELCOME:
            self.refuse("it answered with something else than a welcome")
        else:
            self._begin()
            if len(data) > 1:
                self.data_received(data[1:])

    def _hear_name(self, data: bytes) -> None:
        self._heard += data
        length = self._heard[0]
        if len(self._heard) > length + 1 or length == 0:  # it waits for an answer to its id
            self.refuse("it sent something else than its name")
        elif len(self._heard) == length + 1 and self.stream is not None:
            self._named(self._heard[1:].decode("ascii", "replace"), self.stream)

    def refuse(self, reason: str) -> None:
        """Give up a connection before it is up; `establish` waits for `settled` and closes it."""
        self.closing = True
        self.refusal = self.refusal or reason
        if not self.settled.is_set():
            self.settled.set()
            self.ended.set()
            self.links.events.refused(self.who, reason)

    def close(self, reason: str) -> None:
        """Take the link down soon, after sending what is queued."""
        if not self.closing:
            self._close(reason)
            if self.stream is not None:
                self.stream.close(self.links.timing.close)

    def abort(self, reason: str) -> None:
        """Take the link down soon, and discard what is queued."""
        self._close(reason)
        if self.stream is not None:
            self.stream.abort()

    def _close(self, reason: str) -> None:
        self.closing = True
        self._reason = self._reason or reason
        asyncio.get_running_loop().call_soon(self.finish, reason)

    def finish(self, reason: str) -> None:
        """Take the link down now, if it is up; an earlier reason for closing takes precedence."""
        if self.up and not self.ended.is_set():
            self.closing = True
            self.ended.set()
            self.links.end(self, self._reason or reason)

    def connection_lost(self, error: OSError | None) -> None:
        """Handle a broken connection; before it is up, that is how TLS 1.3 signals a refusal."""
        reason = reason_of(error) if error else CLOSED
        if not self.settled.is_set():
            self.refuse(f"it hung up before the link was up ({reason})")
        self.finish(reason)
        self.links.connections.discard(self)
        self.lost.set()


async def establish(
    connection: Connection, sock: socket.socket, credentials: Credentials, timing: Timing
) -> None:
    """Bring a connection up or give it up; the outcome is reported as an event."""
    try:
        async with asyncio.timeout(timing.handshake):
            tune(sock, timing.user_timeout)
            sock = secure = await secured(sock, credentials, connection.dialled)
            connection.open(secure)
            await connection.settled.wait()
    except OSError as error:
        connection.refuse(f"no handshake ({reason_of(error)})")
    except Exception:  # a bug must not cost more than this connection
        log.exception(LogEvent("a handshake failed", peer=connection.who))
        connection.refuse("the handshake failed")
    finally:
        if not connection.up:
            connection.abort("given up")
            sock.close()


async def secured(sock: socket.socket, credentials: Credentials, dialled: bool) -> ssl.SSLSocket:
    """Wrap a socket in TLS; returns once both ends have verified certificates."""
    contexts = credentials.contexts()
    context = contexts.client if dialled else contexts.server
    # No server_hostname: the connection itself compares ids.
    secure = context.wrap_socket(
        sock,
        server_side=not dialled,
        do_handshake_on_connect=False,
        suppress_ragged_eofs=False,  # an unannounced end may be forged
    )
    try:
        await _shake_hands(secure)
    except BaseException:
        secure.close()
        raise
    return secure


async def _shake_hands(sock: ssl.SSLSocket) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            return sock.do_handshake()
        except ssl.SSLWantReadError:
            await _ready(sock, loop.add_reader, loop.remove_reader)
        except ssl.SSLWantWriteError:
            await _ready(sock, loop.add_writer, loop.remove_writer)


async def _ready(
    sock: socket.socket, watch: Callable[..., Any], forget: Callable[[socket.socket], Any]
) -> None:
    ready = asyncio.Event()
    watch(sock, ready.set)
    try:
        await ready.wait()
    finally:
        forget(sock)


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
        self._held: PolledReader | None = None
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

    def hold(self, held: PolledReader) -> None:
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


class PolledReader:
    """Reads the streams that are held, when it is asked to; while it hurries, also at once."""

    def __init__(self) -> None:
        self._ready = select.poll()
        self._hurries = False
        self._streams: dict[int, Stream] = {}
        self._rest: asyncio.Handle | None = None

    def add(self, stream: Stream) -> None:
        file = stream.sock.fileno()
        self._streams[file] = stream
        self._ready.register(file, select.POLLIN)
        if self._hurries:
            asyncio.get_running_loop().add_reader(stream.sock, stream.read)

    def hurry(self, yes: bool) -> None:
        """Read streams as soon as something arrives, or no longer."""
        if yes == self._hurries:
            return
        self._hurries, loop = yes, asyncio.get_running_loop()
        for stream in self._streams.values():
            if yes:
                loop.add_reader(stream.sock, stream.read)
            else:
                loop.remove_reader(stream.sock)

    def remove(self, stream: Stream) -> None:
        """Forget a stream, before its socket is closed."""
        file = stream.sock.fileno()
        del self._streams[file]
        self._ready.unregister(file)
        if self._hurries:
            asyncio.get_running_loop().remove_reader(stream.sock)

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
            self._rest = asyncio.get_running_loop().call_soon(self._read_rest)

    def _read_rest(self) -> None:
        self._rest = None
        self.read()
