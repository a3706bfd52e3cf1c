"""The bodies of requests and answers, and the status of each error.

The schemas of the API's description are made from them (`openapi.py`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.fleet.config.values import NotNegative, read_value
from coopbandits.fleet.service import (
    LONGEST_UNIT,
    DrainingError,
    ExpiredTicketError,
    OtherRewardError,
    OwnerAwayError,
    RateLimitError,
    UnavailableError,
    UnknownBanditError,
    UnknownTicketError,
    require_allowed,
    require_context,
    require_reward,
    require_ticket,
    require_unit,
)

Ticket = Annotated[
    str, Meta(description="Stands for one choice.", examples=["0b7c5f3a90c2e845-17@shop-1"])
]
Arm = Annotated[str, Meta(description="The name of an option.")]
Reward = Annotated[float, Meta(description="What the option brought.", examples=[1.0])]


Unit = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_UNIT,
        description="The id of a user or session, which is given the same option for a while.",
        examples=["user-17"],
    ),
]


class ChooseRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Which options may be used, all unless given, the features of the request, and for whom."""

    allowed: (
        Annotated[list[Arm], Meta(min_length=1, extra_json_schema={"uniqueItems": True})] | None
    ) = None
    context: dict[str, float | str] | None = None
    unit: Unit | None = None


class ChoiceAnswer(msgspec.Struct, omit_defaults=True):
    """An option to use now, and the ticket with which to submit its reward.

    `sticky` is there if a unit was given: whether its owner has chosen, and so remembers the
    option.
    """

    ticket: Ticket
    arm: Arm
    sticky: bool | msgspec.UnsetType = msgspec.UNSET


class ObserveRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The reward of a choice."""

    ticket: Ticket
    reward: Reward


class ReceiptAnswer(msgspec.Struct):
    """What became of a reward; a duplicate had been submitted before and changed nothing."""

    ticket: Ticket
    arm: Arm
    reward: Reward
    duplicate: bool


class ArmAnswer(msgspec.Struct):
    """What the agent knows of one option.

    `mean`, `pulls` and `confidence` are of the whole network as this agent sees it; `own_pulls`,
    `own_reward` (a sum) and `open` are of its own application.
    """

    arm: Arm
    mean: float | None
    pulls: float
    confidence: tuple[float, float] | None
    own_pulls: int
    own_reward: float
    open: int


class ArmsAnswer(msgspec.Struct):
    """What the agent knows of every option."""

    arms: list[ArmAnswer]


class BanditAnswer(msgspec.Struct):
    """One bandit in one line."""

    name: str
    number: int
    policy: str
    arms: list[Arm]
    pinned: Arm | None
    frozen: list[Arm]
    retired: bool
    round: int
    rewards: int
    open_tickets: int
    era: int


class BanditsAnswer(msgspec.Struct):
    """All bandits of an agent."""

    bandits: list[BanditAnswer]


class RecommendationAnswer(msgspec.Struct):
    """Which option won so far: `lead` is a lower bound on its lead, with `confidence`."""

    arm: Arm | None
    lead: float | None
    pulls: float
    confidence: float
    certain: bool
    sentence: str


class ReadyAnswer(msgspec.Struct):
    """The agent can serve."""

    ready: bool


class AliveAnswer(msgspec.Struct):
    """The process is alive."""

    alive: bool


class DrainRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Seconds to wait for open tickets; as configured unless given."""

    seconds: Annotated[float, Meta(ge=0.0, examples=[30.0])] | None = None


class DrainAnswer(msgspec.Struct):
    """The agent makes no more choices, and stops once it is done."""

    draining: bool


class ErrorAnswer(msgspec.Struct, omit_defaults=True):
    """What was wrong and what to do, in one sentence; nothing was changed.

    `reason` is "draining" where an agent is about to stop, and otherwise left out.
    """

    error: str
    reason: str = ""


_EXAMPLES = {
    ChooseRequest: '{"allowed": ["blue", "green"]}, or no body',
    ObserveRequest: '{"ticket": "0b7c5f3a90c2e845-17@shop-1", "reward": 1.0}',
    DrainRequest: '{"seconds": 30.0}, or no body',
}
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "allowed": require_allowed,
    "context": require_context,
    "ticket": require_ticket,
    "reward": require_reward,
    "unit": require_unit,
    "seconds": partial(read_value, "seconds", kind=NotNegative),
}


def misfit(kind: type[msgspec.Struct], body: bytes | bytearray) -> str:
    """Return why a body does not fit a message: the first thing that is wrong with it."""
    fields, send = kind.__struct_fields__, f"send {_EXAMPLES[kind]}"
    required = {field.name for field in msgspec.structs.fields(kind) if field.required}
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return f"a number in it is out of range, or it is nested too deeply; {send}"
    if not isinstance(content, dict):
        return f"it is not a JSON object; {send}"
    for name in content:
        if name not in fields:
            return str(unknown_name("field", name, fields))
    for name in fields:
        if content.get(name) is None and name not in required:
            continue
        if name not in content:
            return f"the field {name!r} is missing; {send}"
        try:
            _CHECKS[name](content[name])
        except InputError as error:
            return str(error)
    return f"reward must be a number, not true or false; {send}"


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
    RateLimitError: 429,
}

logger = logging.getLogger(__name__)


Begin = Callable[[], Callable[[], bytes]]
"""Begins a stream: returns a function that returns what is new since its last call.

While the client is slow, it is not called."""


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


def failed(
    error: Exception,
    kind: type[msgspec.Struct] | None = None,
    body: bytes | bytearray = b"",
) -> Answer:
    """Answer with the error that a call raised, whose body should be of a kind."""
    match error:
        case RateLimitError():
            seconds = max(1, math.ceil(error.retry_after))
            return refused(429, str(error), (b"retry-after", b"%d" % seconds))
        case InputError():
            return refused(STATUS.get(type(error), 422), str(error))
        case DrainingError():
            return Answer(503, msgspec.json.encode(ErrorAnswer(str(error), "draining")))
        case OwnerAwayError():
            return refused(503, str(error), (b"retry-after", b"1"))
        case UnavailableError():
            return refused(503, str(error))
        case msgspec.ValidationError() if kind is not None:
            return refused(422, f"the body does not fit: {misfit(kind, body)}")
        case msgspec.DecodeError() | UnicodeDecodeError():
            return refused(400, "the body is not JSON; send a JSON object in UTF-8")
    logger.error("a request failed", exc_info=error)
    return refused(500, "internal error; see the agent's log")
