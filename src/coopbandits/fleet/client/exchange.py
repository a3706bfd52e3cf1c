"""What both clients share: HTTP without sockets, and the meaning of answers.

A `Wire` turns a request into bytes and bytes into a reply; the clients move the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import h11
import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, show_place
from coopbandits.fleet.service import (
    ArmEstimate,
    ExpiredTicketError,
    OtherRewardError,
    TooManyTicketsError,
    UnavailableError,
    UnknownTicketError,
)

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5

# Failures of a connection that a new one repairs if the agent was only restarted.
BROKEN = (OSError, EOFError, h11.RemoteProtocolError)

ERRORS: dict[int, type[InputError]] = {
    HTTPStatus.NOT_FOUND: UnknownTicketError,
    HTTPStatus.CONFLICT: OtherRewardError,
    HTTPStatus.GONE: ExpiredTicketError,
}


class UnreachableError(ConnectionError):
    """No agent answered in time."""


class Request(NamedTuple):
    """An HTTP request."""

    method: str
    path: str
    body: bytes = b""


class Reply(NamedTuple):
    """An HTTP response."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Wire:
    """The HTTP state of one connection.

    Parameters
    ----------
    place : Address or Path
        Where it is connected to.
    token : str, optional
        Sent with every request.
    """

    def __init__(self, place: Address | Path, token: str | None) -> None:
        self._http = h11.Connection(h11.CLIENT)
        self._headers = [("host", "localhost" if isinstance(place, Path) else str(place))]
        if token is not None:
            self._headers.append(("authorization", f"Bearer {token}"))
        self._head: h11.Response | None = None
        self._body = b""

    @property
    def reusable(self) -> bool:
        """Whether another request may follow."""
        return self._http.our_state is h11.IDLE

    def encode(self, request: Request) -> bytes:
        """Return the bytes of a request."""
        headers = [*self._headers, ("content-length", str(len(request.body)))]
        if request.method == "POST":
            headers.append(("content-type", "application/json"))
        head = h11.Request(method=request.method, target=request.path, headers=headers)
        events = (head, h11.Data(data=request.body), h11.EndOfMessage())
        return b"".join(self._http.send(event) or b"" for event in events)

    def feed(self, data: bytes) -> Reply | None:
        """Take received bytes, b"" at the end of the connection; return a reply once complete."""
        self._http.receive_data(data)
        while True:
            match self._http.next_event():
                case h11.Response() as head:
                    self._head, self._body = head, b""
                case h11.Data() as part:
                    self._body += part.data
                case h11.EndOfMessage():
                    return self._finish()
                case h11.ConnectionClosed():
                    raise EOFError("the connection was closed")
                case h11.NEED_DATA:
                    return None

    def _finish(self) -> Reply:
        assert self._head is not None  # noqa: S101  h11 gives the head first
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return Reply(self._head.status_code, dict(self._head.headers), self._body)


def choose_request(allowed: Sequence[str] | None) -> Request:
    """Return the request for an option."""
    body = b"" if allowed is None else msgspec.json.encode({"allowed": list(allowed)})
    return Request("POST", "/choose", body)


def observe_request(ticket: str, reward: float) -> Request:
    """Return the request that hands in a reward."""
    if not math.isfinite(reward):
        raise InputError(f"a reward must be a finite number, got {reward!r}")
    return Request("POST", "/observe", msgspec.json.encode({"ticket": ticket, "reward": reward}))


def arms_in(content: dict[str, Any]) -> list[ArmEstimate]:
    """Return the estimates in an answer."""
    return [ArmEstimate(**_with_interval(arm)) for arm in content["arms"]]


def _with_interval(arm: dict[str, Any]) -> dict[str, Any]:
    """Return an arm with its interval as a tuple, which JSON does not have."""
    interval = arm["confidence"]
    return {**arm, "confidence": interval and tuple(interval)}


def unpack(reply: Reply, place: Address | Path) -> dict[str, Any]:
    """Return an agent's answer, or raise the error that it refused with."""
    content = _content(reply, place)
    if reply.status == HTTPStatus.OK:
        return content
    sentence = str(content.get("error", f"the agent answered {reply.status}"))
    if reply.status == HTTPStatus.TOO_MANY_REQUESTS:
        raise TooManyTicketsError(sentence, float(reply.headers.get(b"retry-after", b"1")))
    if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise UnavailableError(sentence)
    raise ERRORS.get(reply.status, InputError)(sentence)


def unreachable(place: Address | Path, timeout: float, cause: BaseException) -> UnreachableError:
    """Return the error for an agent that did not answer in time."""
    reason = str(cause) or type(cause).__name__
    return UnreachableError(
        f"no agent answered at {show_place(place)} within {timeout:g} s ({reason}); is it running "
        "there?"
    )


def pauses() -> Iterator[float]:
    """Yield the pause before each retry; the first is 0, as the kept connection may be stale."""
    yield 0.0
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


def _content(reply: Reply, place: Address | Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(reply.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UnreachableError(
            f"what answers at {show_place(place)} is no agent: its answer, status {reply.status}, "
            "is not a JSON object; check the address"
        ) from None
