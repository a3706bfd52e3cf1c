"""HTTP without sockets: requests as bytes, and the replies in the bytes that come back."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from httptools import HttpParserError, HttpResponseParser

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address

# Failures of a connection that a new one repairs if the agent was only restarted.
BROKEN = (OSError, EOFError, HttpParserError)


LARGEST = 1 << 22
"""Bytes of an answer that are taken; whoever answers at the address may be no agent of ours."""


class Request(NamedTuple):
    """An HTTP request; one with a body is JSON."""

    method: str
    path: str
    body: bytes = b""


class Reply(NamedTuple):
    """An HTTP response."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


def head_of(place: Address | Path, token: str | None) -> bytes:
    """Return the headers that every request to an agent has."""
    head = f"host: {'localhost' if isinstance(place, Path) else place}\r\n"
    if token is not None:
        if not (token.isascii() and token.isprintable() and token.strip() == token != ""):
            raise InputError(
                "the token has characters that no header can carry; use printable ASCII, without "
                "spaces or line ends around it"
            )
        head += f"authorization: Bearer {token}\r\n"
    return head.encode()


def encode(request: Request, head: bytes) -> bytes:
    """Return the bytes of a request."""
    method, path, body = request
    if method == "POST":
        head += b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
    return b"%s %s HTTP/1.1\r\n%s\r\n%s" % (method.encode(), path.encode(), head, body)


class Wire:
    """What comes back over one connection, as replies.

    Attributes
    ----------
    reusable : bool
        Whether another request may follow.
    """

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self._reply: Reply | None = None
        self._begun = self.reusable = False
        self._size = 0  # of all that came since the last reply, headers and announcements too

    def feed(self, data: bytes) -> Reply | None:
        """Take received bytes, b"" at the end of the connection; return a reply once complete."""
        if not data:
            return self._end()
        self._size += len(data)
        if self._size > LARGEST:
            raise EOFError(f"the answer is larger than {LARGEST} bytes")
        self._parser.feed_data(data)
        reply, self._reply = self._reply, None
        if reply is not None:
            self._size = 0
        if reply is not None and self._begun:  # there is more than was asked for
            self.reusable = False
        if reply is not None and reply.status == 408:  # a proxy gave up an idle connection
            self.reusable = False
            raise EOFError("the connection was given up")
        return reply

    def _end(self) -> Reply:
        """Return the reply that lasts until the end of the connection."""
        if not self._begun or self._is_framed():
            raise EOFError("the connection was closed")
        self.reusable = False
        return Reply(self._parser.get_status_code(), self._headers, b"".join(self._parts))

    def _is_framed(self) -> bool:
        """Whether the reply says itself where it ends, or has not come so far."""
        known = {b"content-length", b"transfer-encoding"}
        return not self._headed or not known.isdisjoint(self._headers)

    # What follows is called by the parser.

    def on_message_begin(self) -> None:
        """Begin a reply."""
        self._begun, self._headed = True, False
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Note that the body begins."""
        self._headed = True

    def on_body(self, part: bytes) -> None:
        """Add to the body."""
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """Finish a reply; one that only announces another is left out."""
        self._begun = False
        status = self._parser.get_status_code()
        if self._reply is not None:
            self.reusable = False  # the first was the answer, and nobody asked for another
        elif status >= 200:
            self.reusable = self._parser.should_keep_alive()
            self._reply = Reply(status, self._headers, b"".join(self._parts))
