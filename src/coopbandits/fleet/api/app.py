"""The API without its sockets: one table of paths, one pipeline for every request.

A few fixed paths need no router. A request is checked in this order: host and origin, token, path,
method, content type and size of its body. Then its endpoint is called, a plain function from bytes
to an answer.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection
from functools import cached_property, partial
from time import perf_counter
from typing import NamedTuple

import msgspec

from coopbandits.fleet.api.answers import JSON, Answer, accepted, failed, refused
from coopbandits.fleet.api.callers import PREFLIGHT, Callers, Headers
from coopbandits.fleet.api.messages import (
    AliveAnswer,
    ArmAnswer,
    ArmsAnswer,
    ChoiceAnswer,
    ChooseRequest,
    ObserveRequest,
    ReadyAnswer,
    ReceiptAnswer,
    reader,
)
from coopbandits.fleet.api.metrics import CONTENT_TYPE, Meter, render
from coopbandits.fleet.api.openapi import describe
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.service import Service, UnavailableError

PUBLIC = ("/alive", "/ready")
"""For probes, which have no token; they tell one bit each."""

Reply = Callable[[Answer], None]

_read_choose, _read_observe = reader(ChooseRequest), reader(ObserveRequest)


class Request:
    """One request.

    Parameters
    ----------
    method : bytes
        GET, HEAD, POST or another.
    path : str
        What is asked.
    headers : list of (name, value)
        The headers, with names in lower case.
    version : str
        Of HTTP.
    lasting : bool
        Whether the connection is kept for another one.

    Attributes
    ----------
    fields : dict
        The headers by name; of those with the same name, the last.
    body : bytes or bytearray
        As much of it as has come.
    answer : Answer or None
        The answer, if there is one before the request is whole.
    """

    __slots__ = ("answer", "body", "fields", "headers", "lasting", "method", "path", "version")

    def __init__(
        self, method: bytes, path: str, headers: Headers, version: str, lasting: bool
    ) -> None:
        self.method, self.path, self.headers = method, path, headers
        self.version, self.lasting = version, lasting
        self.fields = dict(headers)
        self.body: bytes | bytearray = b""
        self.answer: Answer | None = None

    def add(self, piece: bytes) -> None:
        """Add to the body, which mostly comes in one piece."""
        if not self.body:
            self.body = piece
            return
        if isinstance(self.body, bytes):
            self.body = bytearray(self.body)
        self.body += piece


class Endpoint(NamedTuple):
    """The method and function behind a path."""

    method: str
    call: Callable[[bytes | bytearray], Answer]


class Api:
    """An agent's HTTP API.

    Parameters
    ----------
    service : Service
        The agent.
    token : str, optional
        Required of every request as `Authorization: Bearer …`.
    public : collection of str
        Paths that need no token; without it, errors there do not say why.
    callers : Callers, optional
        Who is answered; without it, who calls this machine by its own names.
    limits : ApiLimits
        The size of bodies.
    """

    def __init__(
        self,
        service: Service,
        token: str | None = None,
        public: Collection[str] = PUBLIC,
        *,
        callers: Callers | None = None,
        limits: ApiLimits | None = None,
    ) -> None:
        self.service, self.callers = service, callers or Callers()
        self.max_body = (limits or ApiLimits()).max_body_bytes
        self.token = token.encode() if token else None
        self.public = frozenset(public)
        self.meter = Meter()
        self.endpoints = {
            "/choose": Endpoint("POST", self.choose),
            "/observe": Endpoint("POST", self.observe),
            "/arms": Endpoint("GET", self.arms),
            "/health": Endpoint("GET", self.health),
            "/ready": Endpoint("GET", self.ready),
            "/alive": Endpoint("GET", self.alive),
            "/metrics": Endpoint("GET", self.metrics),
            "/openapi.json": Endpoint("GET", self.openapi),
            "/": Endpoint("GET", self.index),
        }
        self.paths = {path.encode(): path for path in self.endpoints}

    def refuse(self, request: Request) -> Answer | None:
        """Return an answer if the request's head is enough for one."""
        if not self.callers.is_usual(request.headers, request.fields):
            answer = self.callers.refuse(request.headers, request.version)
            if answer is not None:
                self._count(request, answer)
                return answer
        answer = self._refuse(request)
        return None if answer is None else self._finished(request, answer)

    def refuse_body(self, request: Request) -> Answer:
        """Return the answer to a body that is too large."""
        sentence = f"the body is too large; up to {self.max_body} bytes are taken"
        return self._finished(request, refused(413, sentence))

    def serve(self, request: Request, reply: Reply) -> None:
        """Answer a request that was not refused, once what it changes is on disk."""
        started = perf_counter()
        method, call = self.endpoints[request.path]
        try:
            answer = call(request.body)
        except Exception as error:  # one failing request must not stop the server
            self._finish(request, started, reply, failed(error))
            return
        finish = partial(self._finish, request, started, reply, answer)
        if method == "POST":
            self.service.stored(finish)
        else:
            finish()

    def _finish(
        self,
        request: Request,
        started: float,
        reply: Reply,
        answer: Answer,
        error: UnavailableError | None = None,
    ) -> None:
        self.meter.time(request.path, perf_counter() - started)
        reply(self._finished(request, failed(error) if error else answer))

    def _finished(self, request: Request, answer: Answer) -> Answer:
        """Count an answer; return it as this client may see it."""
        if answer.status >= 500 and not self._is_proven(request.fields):
            answer = refused(answer.status, "the agent cannot serve; show the token to be told why")
        self._count(request, answer)
        grants = self.callers.grants(request.headers)
        return answer._replace(headers=answer.headers + grants) if grants else answer

    def _count(self, request: Request, answer: Answer) -> None:
        path = request.path if request.path in self.endpoints else "other"
        self.meter.count(path, answer.status)

    def choose(self, body: bytes | bytearray) -> Answer:
        """Choose an option."""
        allowed = _read_choose(body).allowed if body else None
        return accepted(ChoiceAnswer(*self.service.choose(allowed)))

    def observe(self, body: bytes | bytearray) -> Answer:
        """Count a reward."""
        request = _read_observe(body)
        return accepted(ReceiptAnswer(*self.service.observe(request.ticket, request.reward)))

    def arms(self, _: bytes | bytearray) -> Answer:
        """Return an estimate of every option."""
        return accepted(ArmsAnswer([ArmAnswer(*arm) for arm in self.service.arms()]))

    def health(self, _: bytes | bytearray) -> Answer:
        """Return the agent's state."""
        return accepted(self.service.health())

    def ready(self, _: bytes | bytearray) -> Answer:
        """Return whether the agent can serve."""
        reason = self.service.ready()
        return accepted(ReadyAnswer(True)) if reason is None else refused(503, reason)

    def alive(self, _: bytes | bytearray) -> Answer:
        """Return that there is somebody."""
        return accepted(AliveAnswer(True))

    def metrics(self, _: bytes | bytearray) -> Answer:
        """Return all metrics in Prometheus' format."""
        return Answer(200, render(self.service.metrics(), self.meter), CONTENT_TYPE)

    def openapi(self, _: bytes | bytearray) -> Answer:
        """Describe this API."""
        return Answer(200, self._description)

    def index(self, _: bytes | bytearray) -> Answer:
        """List the paths."""
        lines = [f"{endpoint.method} {path}\n" for path, endpoint in self.endpoints.items()]
        return Answer(200, "".join(lines).encode(), b"text/plain; charset=utf-8")

    @cached_property
    def _description(self) -> bytes:
        arms = [estimate.arm for estimate in self.service.arms()]
        return msgspec.json.encode(describe(arms, self.token is not None, self.public))

    def _refuse(self, request: Request) -> Answer | None:
        path, method = request.path, request.method.decode()
        if method == "OPTIONS" and b"origin" in request.fields:  # a browser asks if it may ask
            return Answer(204, b"", headers=PREFLIGHT)
        if path not in self.public and not self._is_proven(request.fields):
            sentence = "a valid token is needed; send it in a header Authorization: Bearer TOKEN"
            return refused(401, sentence, (b"www-authenticate", b"Bearer"))
        endpoint = self.endpoints.get(path)
        if endpoint is None:
            return refused(404, f"there is nothing at {path!r}; GET / lists what there is")
        if method == endpoint.method:
            return _refuse_kind(request.fields) if method == "POST" else None
        if method == "HEAD" and endpoint.method == "GET":
            return None
        accepts = "GET, HEAD" if endpoint.method == "GET" else "POST"
        sentence = f"{path} does not take {method}; use {endpoint.method}"
        return refused(405, sentence, (b"allow", accepts.encode()))

    def _is_proven(self, fields: dict[bytes, bytes]) -> bool:
        if self.token is None:
            return True
        scheme, _, token = fields.get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.token)


def _refuse_kind(fields: dict[bytes, bytes]) -> Answer | None:
    """Refuse all but JSON, the one kind that a web page may not send unasked."""
    if fields.get(b"content-type") == JSON:
        return None
    kind = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind == JSON:
        return None
    sent = kind.decode("latin-1") or "no content type"
    return refused(415, f"POST takes JSON only, got {sent}; send Content-Type: {JSON.decode()}")
