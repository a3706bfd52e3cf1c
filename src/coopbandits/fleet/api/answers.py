"""Answers to requests, and the status of each error."""

from __future__ import annotations

import logging
import math
from typing import NamedTuple

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.api.messages import ErrorAnswer
from coopbandits.fleet.service import (
    ExpiredTicketError,
    OtherRewardError,
    TooManyTicketsError,
    UnavailableError,
    UnknownTicketError,
)

JSON = b"application/json"

STATUS: dict[type[InputError], int] = {
    UnknownTicketError: 404,
    OtherRewardError: 409,
    ExpiredTicketError: 410,
    TooManyTicketsError: 429,
}

logger = logging.getLogger(__name__)


class Answer(NamedTuple):
    """Status, body and headers of an answer."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


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
        case msgspec.ValidationError():
            sentence = f"the body does not fit: {error}; see GET /openapi.json for what does"
            return refused(422, sentence)
        case msgspec.DecodeError() | UnicodeDecodeError():
            return refused(400, f"the body is not JSON: {error}; send a JSON object in UTF-8")
    logger.error("a request failed", exc_info=error)
    return refused(500, "the agent failed at this request; its log says why")
