"""One HTTP connection, with bounds on what it sends and on how long it takes.

httptools parses. Requests are answered in order, one at a time: at once, in the call that brought
the last byte of it, or when its event is on disk. What is sent ahead of the answers waits, and
nothing more is read meanwhile. A stream is the last answer of its connection.

A `Stream` of server-sent events is asked for news a few times a second, and not while its client
has yet to read the last ones. So a slow client gets fewer and larger pieces, and nothing piles up
for it here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import deque
from typing import TYPE_CHECKING, cast

import httptools

from coopbandits.fleet.api.messages import Answer, Begin, encode, refused
from coopbandits.fleet.api.site import LONGEST_KNOWN, Request, Site

if TYPE_CHECKING:
    from coopbandits.fleet.api.server import Connections

MAX_HEADERS = 100
MAX_AHEAD = 16
"""Requests that a client may send before the first of them is answered; the next one is refused."""

ANSWER_SECONDS = 30.0
"""For the answer and for the client to read it; a slow disk takes a second."""

LINGER_SECONDS = 1.0
"""For a refused client to read why, while what it still sends is thrown away."""

PERIOD = 0.2
"""Seconds between two pieces of a stream."""

STALL_SECONDS = 30.0
"""The connection of a client that does not read its stream for so long is cut."""

ALIVE_SECONDS = 15.0
"""After so long without news a comment is sent, so that a dead connection is noticed."""

ALIVE = b": alive\n\n"

BUFFER_BYTES = 1 << 16
"""Of a stream in the kernel, for a client that does not read; it is old by the time it is read."""

CONTINUE = b"100-continue"

HEAD, BODY, ANSWER, IDLE, LINGER = "headers", "body", "answer", "idle", "refused"
STREAM = "stream"

log = logging.getLogger(__name__)


class RefusedError(Exception):
    """Ends parsing with an answer."""

    def __init__(self, status: int, sentence: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(sentence)
        self.answer = refused(status, sentence, *headers)


class Connection(asyncio.Protocol):
    """A connection within its limits.

    Parameters
    ----------
    owner : Connections
        All connections of the server.
    loop : AbstractEventLoop
        The running event loop.

    Attributes
    ----------
    phase : str
        What the connection waits for.
    since : float
        When that began, by the event loop's clock.
    served : int
        Requests answered.
    transport : Transport or None
        None until hands are shaken, where there is TLS.
    """

    def __init__(self, owner: Connections, loop: asyncio.AbstractEventLoop) -> None:
        self.owner, self.loop, self.api = owner, loop, owner.api
        self.parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self.transport: asyncio.Transport | None = None
        self.served = 0
        self.phase, self.since = HEAD, loop.time()
        self._now = self.since
        self._url, self._headers = b"", list[tuple[bytes, bytes]]()
        self._incoming: Request | None = None  # its headers are there, its body may not be
        self._reading = False  # a request has begun, and has not ended
        self._earlier = self._chunk = self._messages = 0
        self._current: Request | None = None  # is being answered
        self._queue: deque[Request] = deque()
        self._had_turn = self._clogged = self._deaf = self._leaving = self._ended = False
        self._refusal: Answer | None = None  # of what came after the requests that wait
        self._stream: Stream | None = None  # a stream is being sent

    @property
    def busy(self) -> bool:
        """Whether a whole request waits for its answer, and not the answer for its client."""
        if self._clogged:
            return False
        return self._stream is not None or self._current is not None or bool(self._queue)

    def is_late(self, now: float) -> bool:
        """Return whether the connection has waited too long for its present phase."""
        if self._stream is not None:
            return self._stream.is_late(now)
        limits = self.owner.limits
        patience = {
            HEAD: limits.header_timeout,
            BODY: limits.body_timeout,
            ANSWER: ANSWER_SECONDS,
            IDLE: limits.idle_timeout,
            LINGER: LINGER_SECONDS,
        }
        return now - self.since > patience[ANSWER if self.busy else self.phase]

    # Events of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.parser = None  # which refers to the connection
        self._queue.clear()
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self.owner.forget(self)

    def pause_writing(self) -> None:
        """Answer nothing more until the client has read."""
        self._clogged = True
        if self._stream is not None:
            self._stream.pause()

    def resume_writing(self) -> None:
        self._clogged = False
        if self._stream is not None:
            self._stream.resume()
            return
        self._settle(self.loop.time())
        self._take_turn()

    def data_received(self, data: bytes) -> None:
        """Parse bytes; refuse and close if they are not requests within the limits."""
        if self._stream is not None and self.transport is not None:
            self.transport.abort()  # who reads a stream has nothing to send
        if self._deaf or self.parser is None:
            return
        messages, self._chunk, self._now = self._messages, len(data), self.loop.time()
        self._had_turn = False
        try:
            self.parser.feed_data(data)
            if messages == self._messages and self.phase in (HEAD, BODY):
                self._earlier += self._chunk
                self._bound(self._earlier)  # of a header without end the parser calls nothing
        except httptools.HttpParserUpgrade:  # not done; what follows may be in any protocol
            self._deaf = True
        except RefusedError as error:
            self._turn_down(error.answer)
        except httptools.HttpParserError as error:
            inner = error.__context__
            if not isinstance(inner, RefusedError):
                inner = RefusedError(400, f"malformed HTTP request: {error}; send HTTP/1.1")
            self._turn_down(inner.answer)

    def eof_received(self) -> bool:
        """Answer the requests so far, then close; close at once if there are none.

        A client may shut down its sending side and read on. One that is gone looks the same until
        it is answered. A TLS connection cannot be kept, and a client that reads a stream is gone.
        """
        if self.transport is None or self.transport.get_extra_info("sslcontext") is not None:
            return False
        asked = self._current is not None or bool(self._queue)
        self._ended = asked and self._stream is None
        return self._ended

    # Events of the parser

    def on_message_begin(self) -> None:
        self._url, self._headers = b"", []
        self._messages += 1
        self._earlier, self._reading = 0, True
        self.phase, self.since = HEAD, self._now

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self._headers) >= MAX_HEADERS:
            raise RefusedError(431, f"the request has more than {MAX_HEADERS} headers; send fewer")
        self._headers.append((name.lower(), value))

    def _bound(self, size: int) -> None:
        most = self.owner.limits.max_header_bytes
        if size > most:
            raise RefusedError(431, f"the headers are too large; up to {most} bytes are accepted")

    def on_headers_complete(self) -> None:
        """Answer at once if the headers are enough to refuse the request."""
        if len(self._queue) >= MAX_AHEAD:
            sentence = f"more than {MAX_AHEAD} requests wait; read the answers first"
            raise RefusedError(429, sentence, (b"retry-after", b"1"))
        headers = self._headers
        if self._earlier + self._chunk > self.owner.limits.max_header_bytes:  # perhaps
            self._bound(len(self._url) + sum(len(name) + len(value) for name, value in headers))
        self._earlier = self._chunk = 0
        self.phase, self.since = BODY, self._now
        assert self.parser is not None  # noqa: S101  it calls
        parser, url = self.parser, self._url
        if url[:1] != b"/":
            self._overrule_host(headers)
        route = self.api.known(url) if len(url) <= LONGEST_KNOWN else self.api.locate(url)
        version = parser.get_http_version()
        lasting = parser.should_keep_alive() and version != "1.0" and not parser.should_upgrade()
        method, fields = parser.get_method(), dict(headers)
        self._incoming = request = Request(method, route, headers, fields, version, lasting)
        self._headers = []  # a trailer after the body is not part of the request
        request.answer = self.api.refuse(request)
        if request.answer is not None:
            self._enqueue(request)
        elif b"expect" in request.fields:
            self._invite()

    def _overrule_host(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Replace the header Host by the host in `GET http://host/`, if there is one."""
        if host := httptools.parse_url(self._url).host:
            literal = b"[%s]" % host if b":" in host else host
            headers[:] = [header for header in headers if header[0] != b"host"]
            headers.append((b"host", literal))

    def on_body(self, body: bytes) -> None:
        self._earlier = self._chunk = 0
        request = self._incoming
        if request is None or request.answer is not None:
            return
        if not request.body:  # it mostly comes in one piece
            request.body = body
        else:
            if isinstance(request.body, bytes):
                request.body = bytearray(request.body)
            request.body += body
        if len(request.body) > request.most:
            request.answer = self.api.refuse_body(request)
            self._enqueue(request)

    def on_message_complete(self) -> None:
        request, self._incoming, self._reading = self._incoming, None, False
        if request is None:
            return
        self._deaf = self._deaf or not request.lasting
        if request.answer is None:
            self._enqueue(request)
        if self.phase == BODY:  # it waits, or was answered before
            self._settle(self._now)

    # Answering

    def _enqueue(self, request: Request) -> None:
        """Answer a request now if it is its turn; a client gets one turn per call."""
        if self._stream is not None:
            return
        if self._current or self._queue or self._clogged or self._had_turn:
            self._queue.append(request)
            if self.transport is not None:
                self.transport.pause_reading()
            if self._had_turn and len(self._queue) == 1:
                self.loop.call_soon(self._take_turn)
            return
        self._had_turn, self._current = True, request
        if request.answer is not None:
            self._reply(request.answer)
        else:
            self.api.serve(request, self._reply)

    def _take_turn(self) -> None:
        if self._current or self._clogged or not self._queue:
            return
        if self.transport is None or self.transport.is_closing():
            return
        self._current = request = self._queue.popleft()
        if request.answer is not None:
            self._reply(request.answer)
        else:
            self.api.serve(request, self._reply)
        if not self._queue:
            self.transport.resume_reading()

    def _reply(self, answer: Answer) -> None:
        request, transport = self._current, self.transport
        self._current = None
        if request is None or transport is None or transport.is_closing():
            return
        self.served += 1
        lasting = request.lasting and not self._leaving
        if self._ended and not self._queue and self._refusal is None:
            lasting = False
        whole = request.method != b"HEAD"
        transport.write(encode(answer, self.owner.date, lasting, whole))
        if answer.begin is not None and whole and not self._leaving:
            self._begin_stream(answer.begin, transport)
            return
        if not lasting or answer.begin is not None:
            self._deaf = True
            transport.close()
        elif self._queue:
            self.loop.call_soon(self._take_turn)
        elif self._refusal is not None:
            self._refuse(self._refusal)
        elif self._incoming is not None:
            self._invite()
        self._settle(self.loop.time())

    def _begin_stream(self, begin: Begin, transport: asyncio.Transport) -> None:
        """Send a stream; what the client has asked after it is not answered."""
        self._deaf, self.phase = True, STREAM
        self._queue.clear()
        self._stream = Stream(self.api, begin, transport, self.loop)
        if self._clogged:
            self._stream.pause()

    def _settle(self, now: float) -> None:
        """Note what the connection waits for, unless it is the rest of a request."""
        if not self._reading and self.phase not in (LINGER, STREAM):
            waits = self._current or self._queue or self._clogged
            self.phase, self.since = ANSWER if waits else IDLE, now

    def _invite(self) -> None:
        """Ask for the body of a request whose client waits to be asked."""
        request = self._incoming
        if request is None or request.answer is not None or self._current or self._queue:
            return
        if self.transport is not None and request.fields.get(b"expect", b"").lower() == CONTINUE:
            request.fields.pop(b"expect")
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # Ending

    def leave(self) -> None:
        """Close once the request that has begun is answered; a stream has no end of its own."""
        self._leaving = True
        waits = self._stream is None and (self.busy or self.phase == BODY)
        if self.transport is not None and not waits:
            self.transport.close()

    def _turn_down(self, answer: Answer) -> None:
        if self._deaf or self.transport is None:
            return  # it came after the last request
        self._deaf = True
        self.owner.note_refusal(answer)
        begun = self._incoming is not None and self._incoming.answer is not None
        if begun:
            self.transport.abort()  # it would be taken for the answer to the next request
        elif self._current or self._queue:
            self._refusal = answer  # in its turn, or it would be taken for that to an earlier one
        else:
            self._refuse(answer)

    def _refuse(self, answer: Answer) -> None:
        assert self.transport is not None  # noqa: S101  something came over it
        self.phase, self.since = LINGER, self.loop.time()
        self.transport.write(encode(answer, self.owner.date, lasting=False))
        if self.transport.can_write_eof() and not self._ended:
            self.transport.write_eof()  # closing now could take the answer from the client
        else:
            self.transport.close()


class Stream:
    """Moves a stream to its client.

    Parameters
    ----------
    site : Site
        Counts open streams.
    begin : callable
        Begins the stream.
    transport : Transport
        The connection.
    loop : AbstractEventLoop
        The running event loop.
    """

    def __init__(
        self,
        site: Site,
        begin: Begin,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.site, self.transport, self.loop = site, transport, loop
        self._clogged, self._since, self._sent = False, loop.time(), loop.time()
        self._due = loop.time()
        self._timer: asyncio.TimerHandle | None = None
        made = transport.get_extra_info("socket")
        with contextlib.suppress(OSError, AttributeError):  # a stream without it is only older
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        self._pull = begin()
        site.streams += 1
        self._turn()

    def pause(self) -> None:
        self._clogged, self._since = True, self.loop.time()

    def resume(self) -> None:
        self._clogged = False

    def is_late(self, now: float) -> bool:
        return self._clogged and now - self._since > STALL_SECONDS

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.site.streams -= 1

    def _turn(self) -> None:
        if not self._clogged:
            try:
                news = self._pull()
            except Exception:  # one failing stream must not stop the server
                log.exception("a stream failed")
                self.transport.abort()
                return
            now = self.loop.time()
            if news or now - self._sent >= ALIVE_SECONDS:
                self._sent = now
                self.transport.write(news or ALIVE)
        self._due = max(self._due + PERIOD, self.loop.time())  # at a steady pace
        self._timer = self.loop.call_at(self._due, self._turn)
