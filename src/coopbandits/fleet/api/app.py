"""The API as an ASGI application: one table of paths, one pipeline for every request.

Eight fixed paths need no router. A request is checked in this order: token, path, method, size and
content type of its body. Then its endpoint is called, a plain function from bytes to an answer.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple

import msgspec

from coopbandits.fleet.api.answers import JSON, Answer, accepted, failed, refused
from coopbandits.fleet.api.messages import (
    ArmAnswer,
    ArmsAnswer,
    ChoiceAnswer,
    ChooseRequest,
    ObserveRequest,
    ReadyAnswer,
    ReceiptAnswer,
)
from coopbandits.fleet.api.metrics import CONTENT_TYPE, Meter, render
from coopbandits.fleet.api.openapi import describe
from coopbandits.fleet.service import Service

MAX_BODY = 64 * 1024

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_decode_choose = msgspec.json.Decoder(ChooseRequest).decode
_decode_observe = msgspec.json.Decoder(ObserveRequest).decode


class Endpoint(NamedTuple):
    """The method and function behind a path."""

    method: str
    call: Callable[[bytes], Answer]


class Api:
    """An agent's HTTP API.

    Parameters
    ----------
    service : Service
        The agent.
    token : str, optional
        Required of every request as `Authorization: Bearer …`.
    public : collection of str
        Paths that need no token.
    """

    def __init__(
        self, service: Service, token: str | None = None, public: Collection[str] = ()
    ) -> None:
        self.service = service
        self.token = token.encode() if token else None
        self.public = frozenset(public)
        self.meter = Meter()
        self.endpoints = {
            "/choose": Endpoint("POST", self.choose),
            "/observe": Endpoint("POST", self.observe),
            "/arms": Endpoint("GET", self.arms),
            "/health": Endpoint("GET", self.health),
            "/ready": Endpoint("GET", self.ready),
            "/metrics": Endpoint("GET", self.metrics),
            "/openapi.json": Endpoint("GET", self.openapi),
            "/": Endpoint("GET", self.index),
        }

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        path, headers = scope["path"], dict(scope["headers"])
        answer = self._refuse(path, scope["method"], headers)
        if answer is None:
            answer = await self._answer(path, headers, receive)
        if answer is not None:
            self.meter.count(path if path in self.endpoints else "other", answer.status)
            await _send(send, answer)

    def choose(self, body: bytes) -> Answer:
        """Choose an option."""
        allowed = _decode_choose(body).allowed if body else None
        return accepted(ChoiceAnswer(*self.service.choose(allowed)))

    def observe(self, body: bytes) -> Answer:
        """Count a reward."""
        request = _decode_observe(body)
        return accepted(ReceiptAnswer(*self.service.observe(request.ticket, request.reward)))

    def arms(self, _: bytes) -> Answer:
        """Return an estimate of every option."""
        return accepted(ArmsAnswer([ArmAnswer(*arm) for arm in self.service.arms()]))

    def health(self, _: bytes) -> Answer:
        """Return the agent's state."""
        return accepted(self.service.health())

    def ready(self, _: bytes) -> Answer:
        """Return whether the agent can serve."""
        reason = self.service.ready()
        return accepted(ReadyAnswer(True)) if reason is None else refused(503, reason)

    def metrics(self, _: bytes) -> Answer:
        """Return all metrics in Prometheus' format."""
        return Answer(200, render(self.service.metrics(), self.meter), CONTENT_TYPE)

    def openapi(self, _: bytes) -> Answer:
        """Describe this API."""
        return Answer(200, self._description)

    def index(self, _: bytes) -> Answer:
        """List the paths."""
        lines = [f"{endpoint.method} {path}\n" for path, endpoint in self.endpoints.items()]
        return Answer(200, "".join(lines).encode(), b"text/plain; charset=utf-8")

    @cached_property
    def _description(self) -> bytes:
        arms = [estimate.arm for estimate in self.service.arms()]
        return msgspec.json.encode(describe(arms, self.token is not None, self.public))

    def _refuse(self, path: str, method: str, headers: dict[bytes, bytes]) -> Answer | None:
        """Return an error if the request's head is enough to refuse it."""
        if not self._admits(path, headers):
            sentence = "a valid token is needed; send it in a header Authorization: Bearer TOKEN"
            return refused(401, sentence, (b"www-authenticate", b"Bearer"))
        if path not in self.endpoints:
            return refused(404, f"there is nothing at {path!r}; GET / lists what there is")
        accepts = ["GET", "HEAD"] if self.endpoints[path].method == "GET" else ["POST"]
        if method not in accepts:
            sentence = f"{path} does not take {method}; use {accepts[0]}"
            return refused(405, sentence, (b"allow", ", ".join(accepts).encode()))
        return None

    def _admits(self, path: str, headers: dict[bytes, bytes]) -> bool:
        if self.token is None or path in self.public:
            return True
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.token)

    async def _answer(
        self, path: str, headers: dict[bytes, bytes], receive: Receive
    ) -> Answer | None:
        """Return the endpoint's answer; None if the client hung up before sending its body."""
        method, call = self.endpoints[path]
        body = await _read(receive) if method == "POST" else b""
        if body is None:
            return None
        return _refuse_body(body, headers) or await self._call(path, call, body)

    async def _call(self, path: str, call: Callable[[bytes], Answer], body: bytes) -> Answer:
        started = perf_counter()
        try:
            answer = call(body)
            if self.endpoints[path].method == "POST":
                await self.service.stored()
            return answer
        except Exception as error:  # one failing request must not stop the server
            return failed(error)
        finally:
            self.meter.time(path, perf_counter() - started)


async def _read(receive: Receive) -> bytes | None:
    """Return a body, read only a little beyond the limit; None if the client hung up."""
    body = b""
    while len(body) <= MAX_BODY:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return body


def _refuse_body(body: bytes, headers: dict[bytes, bytes]) -> Answer | None:
    if len(body) > MAX_BODY:
        return refused(413, f"the body is too large; up to {MAX_BODY} bytes are taken")
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if body and kind != JSON:
        sent = kind.decode("latin-1") or "no content type"
        return refused(
            415, f"the body is JSON only, got {sent}; send Content-Type: {JSON.decode()}"
        )
    return None


async def _send(send: Send, answer: Answer) -> None:
    headers = [
        (b"content-type", answer.content_type),
        (b"content-length", b"%d" % len(answer.body)),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
