"""Answers to requests, and the status of each error."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.api.messages import ErrorAnswer
from coopbandits.fleet.service import (
    ExpiredTicketError,
    OtherRewardError,
    TooManyTicketsError,
    UnavailableError,
    UnknownBanditError,
    UnknownTicketError,
)

JSON = b"application/json"
STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %s\r\ndate: " % (status, status.phrase.encode())
    for status in HTTPStatus
}

STATUS: dict[type[InputError], int] = {
    UnknownBanditError: 404,
    UnknownTicketError: 404,
    OtherRewardError: 409,
    ExpiredTicketError: 410,
    TooManyTicketsError: 429,
}

logger = logging.getLogger(__name__)


Begin = Callable[[], Callable[[], bytes]]
"""Begins what follows the head of an answer without end: a function that returns what is new since
it was last called. While the client is slow, it is not."""


class Answer(NamedTuple):
    """Status, body and headers of an answer; instead of a body, it may begin a stream."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    begin: Begin | None = None


def encode(answer: Answer, date: bytes, lasting: bool, whole: bool = True) -> bytes:
    """Return an answer as it is sent.

    Parameters
    ----------
    answer : Answer
        The answer.
    date : bytes
        The header Date.
    lasting : bool
        Whether the connection is kept.
    whole : bool
        Whether the body is sent too.
    """
    status, body, kind, headers, begin = answer
    more = b"" if lasting and not begin else b"connection: close\r\n"
    for header in headers:
        more += b"%s: %s\r\n" % header
    if status in (204, 304):
        return b"%s%s\r\n%s\r\n" % (STATUS_LINES[status], date, more)
    if begin:  # it ends with the connection
        return b"%s%s\r\ncontent-type: %s\r\n%s\r\n" % (STATUS_LINES[status], date, kind, more)
    return b"%s%s\r\ncontent-type: %s\r\ncontent-length: %d\r\n%s\r\n%s" % (
        STATUS_LINES[status], date, kind, len(body), more, body if whole else b"",
    )  # fmt: skip


def accepted(message: object) -> Answer:
    """Answer with a result."""
    return Answer(200, msgspec.json.encode(message))


def refused(status: int, sentence: str, *headers: tuple[bytes, bytes]) -> Answer:
    """Answer with an error."""
    return Answer(status, msgspec.json.encode(ErrorAnswer(sentence)), headers=headers)


def failed(error: Exception) -> Answer:
    """Answer with the error that a call raised."""
    match error:
        case TooManyTicketsError():
            seconds = max(1, math.ceil(error.retry_after))
            return refused(429, str(error), (b"retry-after", b"%d" % seconds))
        case InputError():
            return refused(STATUS.get(type(error), 422), str(error))
        case UnavailableError():
            return refused(503, str(error))
        case msgspec.DecodeError() | UnicodeDecodeError():
            return refused(400, "the body is not JSON; send a JSON object in UTF-8")
    logger.error("a request failed", exc_info=error)
    return refused(500, "the agent failed at this request; its log says why")
