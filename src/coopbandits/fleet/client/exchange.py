"""What is asked of an agent, and the meaning of its answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, show_place
from coopbandits.fleet.client.wire import Reply, Request
from coopbandits.fleet.service import (
    ArmEstimate,
    BanditState,
    Choice,
    Context,
    ExpiredTicketError,
    OtherRewardError,
    Receipt,
    Recommendation,
    TooManyTicketsError,
    UnavailableError,
    UnknownBanditError,
    UnknownTicketError,
    require_context,
)

HEALTH, BANDITS = Request("GET", "/health"), Request("GET", "/bandits")
CLUSTER = Request("GET", "/cluster")
READY, ALIVE = Request("GET", "/ready"), Request("GET", "/alive")

ERRORS: dict[int, type[InputError]] = {
    404: UnknownTicketError,
    409: OtherRewardError,
    410: ExpiredTicketError,
}

T = TypeVar("T")
Content = dict[str, Any]


class UnreachableError(ConnectionError):
    """No agent answered in time."""


def prefix_of(bandit: str | None) -> str:
    """Return where the paths of a bandit begin; "" for the only one of an agent."""
    if bandit is None:
        return ""
    if not isinstance(bandit, str) or not bandit:
        raise InputError(f"bandit is {bandit!r}; name one of the agent's, or leave it out")
    return f"/bandits/{quote(bandit, safe='')}"


def choose_request(allowed: list[str] | None, context: Context | None, prefix: str = "") -> Request:
    """Return the request for an option."""
    told = {"allowed": allowed, "context": context}
    body = {name: value for name, value in told.items() if value is not None}
    return Request("POST", f"{prefix}/choose", _json(body) if body else b"")


def arms_request(context: Context | None, prefix: str = "") -> Request:
    """Return the request for estimates, for requests of an application like this if told."""
    if context is None:
        return Request("GET", f"{prefix}/arms")
    told = json.dumps(require_context(context))
    return Request("GET", f"{prefix}/arms?{urlencode({'context': told})}")


def observe_request(ticket: str, reward: float, prefix: str = "") -> Request:
    """Return the request that hands in a reward."""
    body = _json({"ticket": ticket, "reward": reward})
    return Request("POST", f"{prefix}/observe", body)


def drain_request(seconds: float | None) -> Request:
    """Return the request that stops an agent in order."""
    return Request("POST", "/drain", b"" if seconds is None else _json({"seconds": seconds}))


def state_request(since: int, bandit: str = "") -> Request:
    """Return the request for what a page shows, with what happened after an event."""
    of = f"&{urlencode({'bandit': bandit})}" if bandit else ""
    return Request("GET", f"/ui/state?since={int(since)}{of}")


def recommendation_request(confidence: float, prefix: str = "") -> Request:
    """Return the request for a recommendation."""
    return Request("GET", f"{prefix}/recommendation?{urlencode({'confidence': confidence})}")


def export_request(prefix: str = "") -> Request:
    """Return the request for everything learned."""
    return Request("GET", f"{prefix}/export")


def adopt_request(signed: bytes) -> Request:
    """Return the request that hands over a document of the cluster, which is JSON already."""
    return Request("POST", "/cluster/document", signed)


def _json(body: Content) -> bytes:
    return json.dumps(body).encode()  # msgspec is as large as the rest of the client together


def choice_in(content: Content) -> Choice:
    """Return the choice in an answer."""
    return Choice(content["ticket"], content["arm"])


def receipt_in(content: Content) -> Receipt:
    """Return the receipt in an answer."""
    return Receipt(content["ticket"], content["arm"], content["reward"], content["duplicate"])


def arms_in(content: Content) -> list[ArmEstimate]:
    """Return the estimates in an answer."""
    return [_estimate(arm) for arm in content["arms"]]


def _estimate(arm: Content) -> ArmEstimate:
    """Return an estimate with its interval as a tuple, which JSON does not have."""
    interval = arm["confidence"]
    known = {name: arm[name] for name in ArmEstimate._fields}
    return ArmEstimate(**{**known, "confidence": interval and tuple(interval)})


def bandits_in(content: Content) -> list[BanditState]:
    """Return the bandits in an answer."""
    known = BanditState._fields
    return [BanditState(**{name: each[name] for name in known}) for each in content["bandits"]]


def recommendation_in(content: Content) -> Recommendation:
    """Return the recommendation in an answer."""
    return Recommendation(**{name: content[name] for name in Recommendation._fields})


def content_in(content: Content) -> Content:
    """Return an answer as it is."""
    return content


def unpack(reply: Reply, place: Address | Path, read: Callable[[Content], T]) -> T:
    """Return what is read in an agent's answer, or raise the error that it refused with."""
    try:
        content = json.loads(reply.body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _no_agent(reply, place, "is not a JSON object")
    try:
        if reply.status == 200:
            return read(content)
    except (KeyError, TypeError):
        raise _no_agent(reply, place, "has not the fields of one") from None
    sentence = str(content.get("error", f"the agent answered {reply.status}"))
    if reply.status == 429:
        raise TooManyTicketsError(sentence, _seconds(reply.headers.get(b"retry-after", b"1")))
    if reply.status >= 500:
        raise UnavailableError(sentence)
    if reply.status == 404 and read is not receipt_in:  # only rewards have tickets
        raise UnknownBanditError(sentence)
    raise ERRORS.get(reply.status, InputError)(sentence)


def _seconds(header: bytes) -> float:
    return float(header) if header.isdigit() else 1.0  # a proxy may send a date


def _no_agent(reply: Reply, place: Address | Path, why: str) -> UnreachableError:
    return UnreachableError(
        f"what answers at {show_place(place)} is no agent: its answer, status {reply.status}, "
        f"{why}; check the address"
    )
