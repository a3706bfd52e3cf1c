"""One HTTP connection, with bounds on what it sends and on how long it takes.

uvicorn parses and answers. It bounds neither headers nor the time for them, and takes any number of
requests ahead of their answers; all that is added here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from coopbandits.fleet.api.answers import Answer, refused
from coopbandits.fleet.config import ApiLimits

MAX_HEADERS = 100
MAX_AHEAD = 16
"""Requests that a client may send before the first of them is answered."""

ANSWER_SECONDS = 30.0
"""For the answer and for the client to read it; a slow disk takes a second."""

LINGER_SECONDS = 1.0
"""For a refused client to read why, while what it still sends is thrown away."""

HEAD, BODY, ANSWER, IDLE, LINGER = "headers", "body", "answer", "idle", "refused"


class RefusedError(Exception):
    """Ends parsing with an answer."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.answer = refused(status, sentence, (b"connection", b"close"))


class Guarded(HttpToolsProtocol):
    """A connection within its limits.

    Parameters
    ----------
    limits : ApiLimits
        The limits.
    gone : callable
        Called with the connection when it has ended.
    turned_down : callable
        Called with an answer that is sent to something that is no request within the limits.
    settings
        What uvicorn needs.

    Attributes
    ----------
    phase : str
        What the connection waits for.
    since : float
        When that began, by the event loop's clock.
    served : int
        Requests answered.
    connected : bool
        Whether hands are shaken, where there is TLS.
    """

    def __init__(
        self,
        limits: ApiLimits,
        gone: Callable[[Guarded], None],
        turned_down: Callable[[Answer], None],
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.limits, self.gone, self.turned_down = limits, gone, turned_down
        self.patience = {
            HEAD: limits.header_timeout,
            BODY: limits.body_timeout,
            ANSWER: ANSWER_SECONDS,
            IDLE: limits.idle_timeout,
            LINGER: LINGER_SECONDS,
        }
        self.served, self.connected = 0, False
        self._earlier = self._chunk = self._messages = 0
        self._deaf = False
        self.phase, self.since = HEAD, self.loop.time()

    @property
    def busy(self) -> bool:
        """Whether a whole request waits for its answer, and not the answer for its client."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or self.flow.write_paused:
            return False
        return bool(self.pipeline) or not cycle.more_body

    def is_late(self, now: float) -> bool:
        """Return whether what the connection waits for takes too long."""
        return now - self.since > self.patience[ANSWER if self.busy else self.phase]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        self.connected = True
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self.gone(self)

    def data_received(self, data: bytes) -> None:
        """Parse bytes; refuse and close if they are not requests within the limits."""
        if self._deaf or self.parser is None:
            return
        messages, self._chunk, self._now = self._messages, len(data), self.loop.time()
        try:
            self.parser.feed_data(data)
            if self.phase == HEAD and messages == self._messages:
                self._earlier += self._chunk
                self._bound(self._earlier)  # of a header without end nothing else is told
        except httptools.HttpParserUpgrade:  # not done; what follows may be in any protocol
            self._deaf = True
            if self.cycle is not None:
                self.cycle.keep_alive = False
        except RefusedError as error:
            self._turn_down(error.answer)
        except httptools.HttpParserError as error:
            inner = error.__context__
            known = inner if isinstance(inner, RefusedError) else _malformed(error)
            self._turn_down(known.answer)

    def on_message_begin(self) -> None:
        """Start to count."""
        super().on_message_begin()
        self._messages += 1
        self._earlier = 0
        self.phase, self.since = HEAD, self._now

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, if there are not too many."""
        if len(self.headers) >= MAX_HEADERS:
            raise RefusedError(431, f"the request has more than {MAX_HEADERS} headers; send fewer")
        super().on_header(name, value)

    def _bound(self, size: int) -> None:
        most = self.limits.max_header_bytes
        if size > most:
            raise RefusedError(431, f"the headers are too large; up to {most} bytes are taken")

    def on_headers_complete(self) -> None:
        """Queue the request."""
        if len(self.pipeline) >= MAX_AHEAD:
            raise RefusedError(429, f"more than {MAX_AHEAD} requests wait; read the answers first")
        if self._earlier + self._chunk > self.limits.max_header_bytes:  # perhaps
            self._bound(len(self.url) + sum(len(name) + len(value) for name, value in self.headers))
        if not self.url.startswith(b"/"):
            self._name_host()
        self.phase, self.since = BODY, self._now
        super().on_headers_complete()
        self.headers = []  # what comes after the body is none of the request's

    def _name_host(self) -> None:
        """Let the host in the target, as in `GET http://host/`, overrule the header."""
        host = httptools.parse_url(self.url).host
        if host:
            literal = b"[%s]" % host if b":" in host else host
            self.headers[:] = [header for header in self.headers if header[0] != b"host"]
            self.headers.append((b"host", literal))

    def on_message_complete(self) -> None:
        """Wait for the answer, or for the next request."""
        super().on_message_complete()
        self.phase = IDLE if self.cycle.response_complete else ANSWER
        self.since = self._now

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for it; no timer, since late ones are swept up."""
        self.served += 1
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
        else:
            self.flow.resume_reading()
            if self.phase == ANSWER:
                self.phase = IDLE
        if self.phase in (ANSWER, IDLE):
            self.since = self.loop.time()

    def _turn_down(self, answer: Answer) -> None:
        self._deaf = True
        self.turned_down(answer)
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()  # it would be taken for the answer to an earlier request
            return
        self.phase, self.since = LINGER, self._now
        self.transport.write(_encode(answer))
        if self.transport.can_write_eof():
            self.transport.write_eof()  # closing now could take the answer from the client
        else:
            self.transport.close()


def _malformed(error: Exception) -> RefusedError:
    return RefusedError(400, f"this is no HTTP request: {error}; send HTTP/1.1")


def _encode(answer: Answer) -> bytes:
    head = [
        b"HTTP/1.1 %d %s" % (answer.status, HTTPStatus(answer.status).phrase.encode()),
        b"content-type: " + answer.content_type,
        b"content-length: %d" % len(answer.body),
        *(name + b": " + value for name, value in answer.headers),
    ]
    return b"\r\n".join([*head, b"", answer.body])
