"""What clients send to an agent, and what its answers mean: no sockets, no waiting.

A `Request` is one call of the API: its bytes, and how its answer is read. A `ReplyParser` turns the
bytes that come back over one connection into `Reply` objects, and `unpack` turns a reply into the
result of the call or the error that the agent answered with.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args
from urllib.parse import quote, urlencode

from httptools import HttpParserError, HttpResponseParser

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, show_place
from coopbandits.fleet.service import (
    ArmEstimate,
    BanditState,
    Choice,
    Context,
    DrainingError,
    ExpiredTicketError,
    OtherRewardError,
    RateLimitError,
    Receipt,
    Recommendation,
    UnauthorizedError,
    UnavailableError,
    UnknownBanditError,
    UnknownTicketError,
    require_context,
)

BROKEN = (OSError, EOFError, HttpParserError)
"""Failures of a connection that a new one repairs if the agent was only restarted."""

LARGEST = 1 << 22
"""Bytes of an answer that are read; what answers at the address may be something else."""

ERRORS: dict[int, type[InputError]] = {
    401: UnauthorizedError,
    403: UnauthorizedError,
    404: UnknownTicketError,
    409: OtherRewardError,
    410: ExpiredTicketError,
}

T = TypeVar("T")
Content = dict[str, Any]


Reason = Literal[
    "unreachable",
    "timeout",
    "tls",
    "unreadable",
    "unauthorized",
    "unknown_bandit",
    "rejected",
    "rate_limited",
    "draining",
    "failed",
]
"""Why a client returned its default; docs/fleet/api.md says what each of them means."""

REASONS: tuple[Reason, ...] = get_args(Reason)


class CutOffError(EOFError):
    """An answer began, and ended too early or would not end."""


class UnreachableError(ConnectionError):
    """No agent answered in time.

    Attributes
    ----------
    reason : str
        Which of `REASONS` it is: "unreachable", "timeout", "tls" or "unreadable".
    """

    def __init__(self, sentence: str, reason: Reason = "unreachable") -> None:
        super().__init__(sentence)
        self.reason = reason


def reason_of(error: UnreachableError | UnavailableError | InputError) -> Reason:
    """Return why a call failed, by the error that it raised."""
    match error:
        case UnreachableError():
            return error.reason
        case UnauthorizedError():
            return "unauthorized"
        case UnknownBanditError():
            return "unknown_bandit"
        case RateLimitError():
            return "rate_limited"
        case DrainingError():
            return "draining"
        case UnavailableError():
            return "failed"
    return "rejected"


class Reply(NamedTuple):
    """An HTTP response."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Request(NamedTuple, Generic[T]):
    """One call of the API; `read` takes the result out of the JSON object of its answer."""

    method: str
    path: str
    read: Callable[[Content], T]
    body: bytes = b""

    def encode(self, head: bytes) -> bytes:
        """Return the bytes to send; `head` has the headers that all requests have."""
        if self.method == "POST":
            kind = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(self.body)
            head += kind
        line = f"{self.method} {self.path} HTTP/1.1\r\n".encode()
        return b"%s%s\r\n%s" % (line, head, self.body)


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


# The calls of the API. `prefix` is where the paths of a bandit begin, "" for the agent's default.


def prefix_of(bandit: str | None) -> str:
    if bandit is None:
        return ""
    if not isinstance(bandit, str) or not bandit:
        raise InputError(f"bandit is {bandit!r}; name one of the agent's, or leave it out")
    return f"/bandits/{quote(bandit, safe='')}"


def _json(body: Content) -> bytes:
    return json.dumps(body).encode()  # msgspec is as large as the rest of the client together


def _content(content: Content) -> Content:
    return content


def _receipt(content: Content) -> Receipt:
    return Receipt(content["ticket"], content["arm"], content["reward"], content["duplicate"])


# Fields that a later version of the agent adds are left out.


def _arms(content: Content) -> list[ArmEstimate]:
    found = []
    for arm in content["arms"]:
        interval = arm["confidence"]  # a list in JSON
        known = {name: arm[name] for name in ArmEstimate._fields}
        found.append(ArmEstimate(**known | {"confidence": interval and tuple(interval)}))
    return found


def _bandits(content: Content) -> list[BanditState]:
    return [BanditState(**{k: x[k] for k in BanditState._fields}) for x in content["bandits"]]


def _recommendation(content: Content) -> Recommendation:
    return Recommendation(**{name: content[name] for name in Recommendation._fields})


def choose_request(
    prefix: str, allowed: list[str] | None, context: Context | None, unit: str | None
) -> Request[Choice]:
    given = {"allowed": allowed, "context": context, "unit": unit}
    body = {name: value for name, value in given.items() if value is not None}

    def read(content: Content) -> Choice:
        choice = Choice(content["ticket"], content["arm"], content.get("sticky"))
        if not (isinstance(choice.ticket, str) and isinstance(choice.arm, str)):
            raise TypeError("ticket and arm must be strings")
        return choice

    return Request("POST", f"{prefix}/choose", read, _json(body) if body else b"")


def observe_request(prefix: str, ticket: str, reward: float) -> Request[Receipt]:
    body = _json({"ticket": ticket, "reward": reward})
    return Request("POST", f"{prefix}/observe", _receipt, body)


def arms_request(prefix: str, context: Context | None) -> Request[list[ArmEstimate]]:
    query = ""
    if context is not None:
        query = "?" + urlencode({"context": json.dumps(require_context(context))})
    return Request("GET", f"{prefix}/arms{query}", _arms)


def recommendation_request(prefix: str, confidence: float) -> Request[Recommendation]:
    query = urlencode({"confidence": confidence})
    return Request("GET", f"{prefix}/recommendation?{query}", _recommendation)


def export_request(prefix: str) -> Request[Content]:
    return Request("GET", f"{prefix}/export", _content)


def state_request(since: int, bandit: str) -> Request[Content]:
    of = f"&{urlencode({'bandit': bandit})}" if bandit else ""
    return Request("GET", f"/ui/state?since={int(since)}{of}", _content)


def adopt_request(signed: bytes) -> Request[Content]:
    return Request("POST", "/cluster/document", _content, signed)  # it is JSON already


def drain_request(seconds: float | None) -> Request[Content]:
    body = b"" if seconds is None else _json({"seconds": seconds})
    return Request("POST", "/drain", _content, body)


BANDITS = Request("GET", "/bandits", _bandits)
HEALTH, CLUSTER = Request("GET", "/health", _content), Request("GET", "/cluster", _content)
READY, ALIVE = Request("GET", "/ready", _content), Request("GET", "/alive", _content)


def unpack(reply: Reply, request: Request[T], place: Address | Path) -> T:
    """Return the result of a call, or raise the error that the agent answered with."""
    try:
        content = json.loads(reply.body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _no_agent(reply, place, "is not a JSON object")
    status = reply.status
    try:
        if status == 200:
            return request.read(content)
    except (KeyError, TypeError):
        raise _no_agent(reply, place, "lacks fields of one") from None
    sentence = str(content.get("error", f"the agent answered {status}"))
    if status == 429:
        header = reply.headers.get(b"retry-after", b"1")
        # A proxy may send a date.
        raise RateLimitError(sentence, float(header) if header.isdigit() else 1.0)
    if status >= 500:
        is_draining = content.get("reason") == "draining"
        raise (DrainingError if is_draining else UnavailableError)(sentence)
    if status == 404 and request.read is not _receipt:  # only rewards have tickets
        raise UnknownBanditError(sentence)
    raise ERRORS.get(status, InputError)(sentence)


def _no_agent(reply: Reply, place: Address | Path, why: str) -> UnreachableError:
    return UnreachableError(
        f"what answers at {show_place(place)} is no agent: its answer, status {reply.status}, "
        f"{why}; check the address",
        "unreadable",
    )


class ReplyParser:
    """The bytes that come back over one connection, as replies.

    Attributes
    ----------
    reusable : bool
        Whether another request may follow.
    """

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self._reply: Reply | None = None
        self._begun = self.reusable = False
        self._size = 0  # of all that came since the last reply, headers and 1xx replies included

    def feed(self, data: bytes) -> Reply | None:
        """Add received bytes, b"" at the end of the connection; return a reply once complete.

        Raises
        ------
        EOFError, HttpParserError
            No reply will come over this connection.
        """
        if not data:
            # Without a length, a reply lasts until the end of the connection.
            framed = {b"content-length", b"transfer-encoding"}
            if not self._begun or not self._headed or not framed.isdisjoint(self._headers):
                if self._begun:
                    raise CutOffError("the connection was closed in the middle of the answer")
                raise EOFError("the connection was closed")
            self.reusable = False
            return Reply(self._parser.get_status_code(), self._headers, b"".join(self._parts))
        self._size += len(data)
        if self._size > LARGEST:
            raise CutOffError(f"the answer is larger than {LARGEST} bytes")
        self._parser.feed_data(data)
        reply, self._reply = self._reply, None
        if reply is None:
            return None
        self._size = 0
        if self._begun:  # there is more than was asked for
            self.reusable = False
        if reply.status == 408:  # a proxy gave up an idle connection
            self.reusable = False
            raise EOFError("the connection was given up")
        return reply

    # Called by the parser

    def on_message_begin(self) -> None:
        self._begun, self._headed = True, False
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._headed = True

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        self._begun = False
        status = self._parser.get_status_code()
        if self._reply is not None:
            self.reusable = False  # the first was the answer, and nobody asked for another
        elif status >= 200:  # others only announce one
            self.reusable = self._parser.should_keep_alive()
            self._reply = Reply(status, self._headers, b"".join(self._parts))
