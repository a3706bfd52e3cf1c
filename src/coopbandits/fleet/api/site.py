"""A table of paths and one pipeline for every request, without sockets.

A few fixed paths need no router. A request is checked in this order: host and origin, token, path,
method, content type and size of its body. Then its endpoint is called, a plain function from a
request to an answer.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import cached_property, partial
from time import perf_counter
from typing import NamedTuple

from coopbandits.fleet.api.callers import PREFLIGHT, Callers, Headers
from coopbandits.fleet.api.messages import JSON, Answer, Begin, failed, refused
from coopbandits.fleet.api.metrics import Meter
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.service import Stored, UnavailableError

Reply = Callable[[Answer], None]


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
    query : str
        What stands after the path and a question mark, as it was sent.

    Attributes
    ----------
    fields : dict
        The headers by name; of those with the same name, the last.
    body : bytes or bytearray
        As much of it as has come.
    answer : Answer or None
        The answer, if there is one before the request is whole.
    route : Route
        What serves it.
    """

    __slots__ = (
        "answer", "body", "fields", "headers", "lasting", "method", "path", "query", "route",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        method: bytes,
        path: str,
        headers: Headers,
        version: str,
        lasting: bool,
        query: str = "",
    ) -> None:
        self.method, self.path, self.headers = method, path, headers
        self.version, self.lasting, self.query = version, lasting, query
        self.fields = dict(headers)
        self.body: bytes | bytearray = b""
        self.answer: Answer | None = None
        self.route = NOWHERE

    def add(self, piece: bytes) -> None:
        """Add to the body, which mostly comes in one piece."""
        if not self.body:
            self.body = piece
            return
        if isinstance(self.body, bytes):
            self.body = bytearray(self.body)
        self.body += piece


class Endpoint(NamedTuple):
    """The method and function behind a path, whether it needs no token, and its longest body."""

    method: str
    call: Callable[[Request], Answer]
    public: bool = False
    most: int = 0


class Route(NamedTuple):
    """Where a path leads, looked up once per request.

    Attributes
    ----------
    endpoint : Endpoint or None
        What serves it; None where there is nothing.
    label, timed : str
        The paths under which answers are counted and timed: of a few, whatever was asked.
    bandit : str or None
        The bandit in the path.
    """

    endpoint: Endpoint | None
    label: str
    timed: str
    bandit: str | None = None


NOWHERE = Route(None, "other", "other")


class Site:
    """Answers requests; whoever derives from it fills `endpoints`.

    Parameters
    ----------
    token : str, optional
        Required of every request as `Authorization: Bearer …`.
    callers : Callers, optional
        Who is answered; without it, who calls this machine by its own names.
    limits : ApiLimits, optional
        The size of bodies, and how many streams there may be.

    Attributes
    ----------
    endpoints : dict of str to Endpoint
        By path.
    streams : int
        How many are open.
    """

    def __init__(
        self,
        token: str | None = None,
        *,
        callers: Callers | None = None,
        limits: ApiLimits | None = None,
    ) -> None:
        limits = limits or ApiLimits()
        self.callers, self._max_body = callers or Callers(), limits.max_body_bytes
        self.token = token.encode() if token else None
        self.meter = Meter()
        self.streams, self.max_streams = 0, limits.max_streams
        self.endpoints: dict[str, Endpoint] = {}

    @cached_property
    def paths(self) -> dict[bytes, str]:
        """The paths as they stand in most requests."""
        return {path.encode(): path for path in self.endpoints}

    def refuse(self, request: Request) -> Answer | None:
        """Return an answer if the request's head is enough for one."""
        request.route = self.routes.get(request.path) or self.find(request.path)
        if not self.callers.is_usual(request.headers, request.fields):
            answer = self.callers.refuse(request.headers, request.version)
            if answer is not None:
                self._count(request, answer)
                return self.dressed(request, answer)
        answer = self.refuse_head(request)
        return None if answer is None else self._finished(request, answer)

    def refuse_body(self, request: Request) -> Answer:
        """Return the answer to a body that is too large."""
        most = self.max_body(request)
        sentence = f"the body is too large; up to {most} bytes are taken"
        return self._finished(request, refused(413, sentence))

    def max_body(self, request: Request) -> int:
        """Return how many bytes a request's body may have."""
        endpoint = request.route.endpoint
        return max(self._max_body, endpoint.most) if endpoint else self._max_body

    def serve(self, request: Request, reply: Reply) -> None:
        """Answer a request that was not refused, once what it changes is on disk."""
        started = perf_counter()
        endpoint = request.route.endpoint
        assert endpoint is not None  # noqa: S101  it would have been refused
        try:
            answer = endpoint.call(request)
        except Exception as error:  # one failing request must not stop the server
            self._finish(request, started, reply, failed(error))
            return
        finish = partial(self._finish, request, started, reply, answer)
        if endpoint.method == "POST":
            self.stored(finish)
        else:
            finish()

    def stored(self, then: Stored) -> None:
        """Call `then` once all that was changed so far is on disk; here nothing changes."""
        then(None)

    def streamed(self, kind: bytes, begin: Begin, *headers: tuple[bytes, bytes]) -> Answer:
        """Answer with a stream, if another one may be opened."""
        if self.streams >= self.max_streams:
            return refused(
                503,
                f"{self.streams} streams are open, and no more may be; close a page that watches, "
                "or raise max_streams in [api_limits]",
                (b"retry-after", b"5"),
            )
        return Answer(200, b"", kind, headers, begin)

    @cached_property
    def routes(self) -> dict[str, Route]:
        """Where the fixed paths lead."""
        return {path: Route(endpoint, path, path) for path, endpoint in self.endpoints.items()}

    def find(self, path: str) -> Route:
        """Return where a path leads that is not one of the fixed ones; here nowhere."""
        return NOWHERE._replace(timed=path)

    def beat(self) -> None:
        """Do what is due about twice a second, whether or not anybody asks."""

    def _finish(
        self,
        request: Request,
        started: float,
        reply: Reply,
        answer: Answer,
        error: UnavailableError | None = None,
    ) -> None:
        self.meter.time(request.route.timed, perf_counter() - started)
        reply(self._finished(request, failed(error) if error else answer))

    def _finished(self, request: Request, answer: Answer) -> Answer:
        """Count an answer; return it as this client may see it."""
        if answer.status >= 500 and not self._is_proven(request):
            answer = refused(answer.status, "the agent cannot serve; show the token to be told why")
        self._count(request, answer)
        grants = self.callers.grants(request.headers)
        if grants:
            answer = answer._replace(headers=answer.headers + grants)
        return self.dressed(request, answer)

    def dressed(self, request: Request, answer: Answer) -> Answer:
        """Return an answer with the headers that all answers at its path have; here none."""
        del request
        return answer

    def _count(self, request: Request, answer: Answer) -> None:
        self.meter.count(request.route.label, answer.status)

    def token_for(self, route: Route) -> bytes | None:
        """Return a token that opens a path, besides the one that opens all; here none."""
        del route
        return None

    def refuse_head(self, request: Request) -> Answer | None:
        """Return an answer to a request without token, to nothing, or of a wrong kind."""
        path, method = request.path, request.method.decode()
        if method == "OPTIONS" and b"origin" in request.fields:  # a browser asks if it may ask
            return Answer(204, b"", headers=PREFLIGHT)
        endpoint = request.route.endpoint
        if not (endpoint and endpoint.public) and not self._is_proven(request):
            sentence = "a valid token is needed; send it in a header Authorization: Bearer TOKEN"
            return refused(401, sentence, (b"www-authenticate", b"Bearer"))
        if endpoint is None:
            return refused(404, f"there is nothing at {path!r}; GET / lists what there is")
        if method == endpoint.method:
            return _refuse_kind(request.fields) if method == "POST" else None
        if method == "HEAD" and endpoint.method == "GET":
            return None
        accepts = "GET, HEAD" if endpoint.method == "GET" else "POST"
        sentence = f"{path} does not take {method}; use {endpoint.method}"
        return refused(405, sentence, (b"allow", accepts.encode()))

    def _is_proven(self, request: Request) -> bool:
        tokens = [each for each in (self.token, self.token_for(request.route)) if each is not None]
        if not tokens:
            return True
        scheme, _, token = request.fields.get(b"authorization", b"").partition(b" ")
        given = token.strip()
        return scheme.lower() == b"bearer" and any(
            hmac.compare_digest(given, each) for each in tokens
        )


def _refuse_kind(fields: dict[bytes, bytes]) -> Answer | None:
    """Refuse all but JSON, the one kind that a web page may not send unasked."""
    if fields.get(b"content-type") == JSON:
        return None
    kind = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind == JSON:
        return None
    sent = kind.decode("latin-1") or "no content type"
    return refused(415, f"POST takes JSON only, got {sent}; send Content-Type: {JSON.decode()}")
