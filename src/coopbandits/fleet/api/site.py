"""A site without sockets: a table of paths, and one pipeline for every request.

A few fixed paths need no router. The checks of a request, in this order: its host and origin, its
token, path and method, the type and size of its body. Then its endpoint is called, a plain function
from a request to an answer.

**Hosts and origins.** A browser sends requests wherever a web page tells it to, to this machine
too. It names the page in `Origin`, and in `Host` the name that it was given. A page whose own name
was made to point here (DNS rebinding) is recognised by that name: an agent answers to its own names
only. Other pages are let in by a list of origins, and POST takes JSON alone, which a browser does
not send without asking first.

**The page** under /ui/ is the same on every site: files, and a stream of a feed. The files hold no
data, so they need no token.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote

import httptools
import msgspec

from coopbandits.fleet.address import Address
from coopbandits.fleet.api.messages import JSON, Answer, Begin, failed, refused
from coopbandits.fleet.api.metrics import Meter
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.service import BanditService, Pending, Stored, UnavailableError
from coopbandits.page import assets
from coopbandits.page.feed import Feed

PAGE, ROOT = "/ui", "/ui/"
EVENTS = b"text/event-stream"
FRESH = (b"cache-control", b"no-store")
"""For data; files are requested again too, but need not be sent again."""

HOST = re.compile(
    r"(\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(:[0-9]{0,5})?", re.ASCII
)

PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, HEAD, POST"),
    (b"access-control-allow-headers", b"authorization, content-type"),
)

MOST_KNOWN_HOSTS = 100

MOST_KNOWN, LONGEST_KNOWN = 1000, 300
"""Targets whose routes are remembered, and the bytes of the longest one.

Callers without a token fill this memory too."""

Scoped = Mapping[str, frozenset[str]]
"""What each of some tokens opens, beside the token that opens everything."""

Headers = Sequence[tuple[bytes, bytes]]
Reply = Callable[[Answer], None]


class Endpoint(NamedTuple):
    """What serves a path.

    Attributes
    ----------
    method : str
        GET, which answers HEAD too, or POST.
    call : callable
        Returns the answer, or what it will come from.
    public : bool
        Whether it needs no token.
    most : int
        Bytes of its longest body, where that is more than those of all paths may have.
    body : type or None
        The message in its body, for errors.
    scopes : tuple of str
        Tokens of these scopes open it; any token does where there are none.
    """

    method: str
    call: Callable[[Request], Answer | Pending[Answer]]
    public: bool = False
    most: int = 0
    body: type[msgspec.Struct] | None = None
    scopes: tuple[str, ...] = ()


class Route(NamedTuple):
    """Where a request leads.

    Attributes
    ----------
    path, query : str
        Its path, decoded, and what stands after it and a question mark, as it was sent.
    endpoint : Endpoint or None
        What serves it; None where there is nothing.
    label, timed : str
        The paths under which answers are counted and timed: of a few, whatever was requested.
    bandit : str or None
        The bandit in the path.
    """

    path: str
    query: str
    endpoint: Endpoint | None
    label: str
    timed: str
    bandit: str | None = None


class Request(msgspec.Struct):
    """One request.

    Parameters
    ----------
    method : bytes
        GET, HEAD, POST or another.
    route : Route
        What serves it.
    headers : list of (name, value)
        The headers, with names in lower case.
    fields : dict
        The headers by name; of those with the same name, the last.
    version : str
        Of HTTP.
    lasting : bool
        Whether the connection is kept for another one.

    Attributes
    ----------
    body : bytes or bytearray
        As much of it as has come.
    most : int
        Bytes that the body may have.
    answer : Answer or None
        The answer, if there is one before the request is complete.
    bandit : BanditService or None
        The bandit whose token was checked.
    """

    method: bytes
    route: Route
    headers: Headers
    fields: dict[bytes, bytes]
    version: str
    lasting: bool
    body: bytes | bytearray = b""
    most: int = 0
    answer: Answer | None = None
    bandit: BanditService | None = None


class Callers:
    """Decides by host and origin who is answered.

    Parameters
    ----------
    place : Address, Path or None
        Where the agent listens; None for this machine alone.
    limits : ApiLimits
        Further hosts and origins.
    any_host : bool
        Whether hosts need no check: TLS has proved the name, and no browser reaches a Unix socket.

    Attributes
    ----------
    known : set of bytes
        Headers Host that passed; a request with one of them and no origin needs no other check.
    origins : frozenset of bytes
        Origins of pages elsewhere that are answered.
    """

    def __init__(
        self,
        place: Address | Path | None = None,
        limits: ApiLimits | None = None,
        *,
        any_host: bool = False,
    ) -> None:
        limits = limits or ApiLimits()
        own = [place.host] if isinstance(place, Address) else []
        named = [_normal(host) for host in (*own, *limits.hosts)]
        self.hosts = frozenset(named)
        self.any_host = any_host or isinstance(place, Path)
        self.any_address = any(not isinstance(h, str) and h.is_unspecified for h in named)
        self.origins = frozenset(origin.encode() for origin in limits.origins)
        self.known: set[bytes] = set()

    def refuse(self, headers: Headers, http_version: str) -> Answer | None:
        """Return an error for a caller that is not answered."""
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 and (hosts or http_version != "1.0"):
            return refused(400, f"the request has {len(hosts)} headers Host; send one")
        if hosts and not self._answers_to(hosts[0]):
            return refused(
                421,
                f"host {_shown(hosts[0])} is not served here; use the agent's address, or list the "
                "name under hosts in [api_limits]",
            )
        origin = _origin(headers)
        if origin is None or origin.lower() in self.origins:
            return None
        # Browsers name the origin of pages served here, too, when they load a module.
        for host in hosts:
            if origin.lower() in (b"http://" + host.lower(), b"https://" + host.lower()):
                return None
        return refused(
            403,
            f"web pages of origin {_shown(origin)} are not allowed; list it under origins in "
            "[api_limits] to allow them",
        )

    def grants(self, headers: Headers) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers by which a browser lets an allowed page read the answer."""
        origin = _origin(headers)
        if origin is None:
            return ()
        return (b"access-control-allow-origin", origin), (b"vary", b"origin")

    def _answers_to(self, header: bytes) -> bool:
        if not self.any_host:
            found = HOST.fullmatch(header.decode("latin-1"))
            if found is None:
                return False
            host = _normal(found["six"] or found["name"])
            if isinstance(host, str):
                own = host == "localhost" or host.endswith(".localhost")
            else:
                own = self.any_address or host.is_loopback
            if not own and host not in self.hosts:
                return False
        if len(self.known) < MOST_KNOWN_HOSTS:
            self.known.add(header)
        return True


def _normal(host: str) -> str | IPv4Address | IPv6Address:
    try:
        return ip_address(host)
    except ValueError:
        return host.lower().removesuffix(".")


def _origin(headers: Headers) -> bytes | None:
    """Return the header Origin; several become one that is in no list."""
    found = [value for key, value in headers if key == b"origin"]
    return b", ".join(found) if found else None


def _shown(value: bytes) -> str:
    return repr(value[:100].decode("latin-1"))


class Site:
    """Answers requests; derived classes fill `endpoints`.

    Parameters
    ----------
    token : str, optional
        Required of every request as `Authorization: Bearer …`.
    scoped : mapping
        Tokens that open some paths each.
    callers : Callers, optional
        Who is answered; without it, callers that use a name of this machine.
    limits : ApiLimits, optional
        The size of bodies, and how many streams there may be.

    Attributes
    ----------
    token : bytes or None
        The token that opens everything.
    needs_token : bool
        Whether requests must show a token; a bandit may need one in any case.
    endpoints : dict of str to Endpoint
        By path.
    known : callable
        What `locate` returns, looked up once for targets that are requested again and again.
    streams : int
        How many are open.
    stored : callable
        Calls its argument once all that was changed so far is on disk; here nothing changes.
    """

    def __init__(
        self,
        token: str | None = None,
        *,
        scoped: Scoped = MappingProxyType({}),
        callers: Callers | None = None,
        limits: ApiLimits | None = None,
    ) -> None:
        limits = limits or ApiLimits()
        self.callers, self._max_body = callers or Callers(), limits.max_body_bytes
        self.set_tokens(token, scoped)
        self.meter = Meter()
        self.streams, self.max_streams = 0, limits.max_streams
        self.stored: Callable[[Stored], None] = lambda then: then(None)
        self._page = Endpoint("GET", self.page_file, public=True)
        self._moved = Endpoint("GET", self.page_moved, public=True)
        self.endpoints: dict[str, Endpoint] = {ROOT: self._page}
        self.known: Callable[[bytes], Route] = lru_cache(MOST_KNOWN)(self.locate)

    def set_tokens(self, token: str | None, scoped: Scoped) -> None:
        """Require these tokens from now on."""
        self.token = token.encode() if token else None
        self._scoped = {each.encode(): scopes for each, scopes in scoped.items()}
        self.needs_token = self.token is not None or bool(scoped)

    def locate(self, url: bytes) -> Route:
        """Return where a request with this target leads."""
        parsed = httptools.parse_url(url)
        path = unquote((parsed.path or b"/").decode("ascii"))
        return self.find(path, (parsed.query or b"").decode("latin-1"))

    def find(self, path: str, query: str) -> Route:
        if path in self.endpoints:
            return Route(path, query, self.endpoints[path], path, path)
        if path.startswith(ROOT) and assets.find(path.removeprefix(ROOT)):
            return Route(path, query, self._page, ROOT, path)
        if path == PAGE:
            return Route(path, query, self._moved, ROOT, path)
        return Route(path, query, None, "other", path)

    def tokens(self, request: Request) -> list[bytes]:
        """Return the tokens that open a path."""
        found = [] if self.token is None else [self.token]
        if not self._scoped:
            return found
        endpoint = request.route.endpoint
        needed = endpoint.scopes if endpoint else ()
        opening = (each for each, of in self._scoped.items() if not needed or of & {*needed})
        return [*found, *opening]

    def _lacks_token(self, request: Request) -> bool:
        """Return whether a request shows no token that opens its path, and needs one."""
        tokens = self.tokens(request)
        return bool(tokens or self.needs_token) and not _shows(request, tokens)

    def _locked(self, request: Request) -> Answer:
        """Return the error for a request without a token that opens its path."""
        path, _, endpoint = request.route[:3]
        for token, scopes in self._scoped.items():
            if endpoint and _shows(request, [token]):
                return refused(
                    403,
                    f"this token has the scope {' and '.join(sorted(scopes))}, and {path} needs a "
                    f"token with the scope {' or '.join(endpoint.scopes)}",
                )
        sentence = "a valid token is needed; send it in a header Authorization: Bearer TOKEN"
        return refused(401, sentence, (b"www-authenticate", b"Bearer"))

    def refuse(self, request: Request) -> Answer | None:
        """Return an answer if the request's head is enough for one."""
        route, headers, fields = request.route, request.headers, request.fields
        endpoint, path = route.endpoint, route.path
        request.most = max(self._max_body, endpoint.most) if endpoint else self._max_body
        # Almost always the host is known, there is one, and no page asks.
        if (
            fields.get(b"host") not in self.callers.known
            or b"origin" in fields
            or len(fields) != len(headers)
        ):
            answer = self.callers.refuse(headers, request.version)
            if answer is not None:  # and a page may not read it
                self.meter.requests[route.label, answer.status] += 1
                return _confined(answer) if path.startswith(PAGE) else answer
        method = request.method.decode()
        if method == "OPTIONS" and b"origin" in fields:  # a browser asks if it may ask
            answer = Answer(204, b"", headers=PREFLIGHT)
        elif (
            # As if it were an image: other pages could not read a stream, but there are only so
            # many. Browsers say where a request comes from; those with an origin passed above.
            path == f"{ROOT}events"
            and fields.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin")
            and b"origin" not in fields
        ):
            answer = refused(403, "only the page that is served here may open a stream")
        elif not (endpoint and endpoint.public) and self._lacks_token(request):
            answer = self._locked(request)
        elif endpoint is None:
            sentence = f"there is nothing at {path!r}; GET / lists what there is"
            answer = refused(404, sentence)
        elif method != endpoint.method:
            if method == "HEAD" and endpoint.method == "GET":
                return None
            accepts = "GET, HEAD" if endpoint.method == "GET" else "POST"
            sentence = f"{path} does not accept {method}; use {endpoint.method}"
            answer = refused(405, sentence, (b"allow", accepts.encode()))
        elif method != "POST" or fields.get(b"content-type") == JSON:
            return None
        else:  # JSON is the one kind that a web page may not send without asking first
            kind = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind == JSON:
                return None
            sent = kind.decode("latin-1") or "no content type"
            sentence = f"POST takes JSON only, got {sent}; send Content-Type: {JSON.decode()}"
            answer = refused(415, sentence)
        return self._finished(request, answer)

    def refuse_body(self, request: Request) -> Answer:
        """Return the answer to a body that is too large."""
        sentence = f"the body is too large; up to {request.most} bytes are accepted"
        return self._finished(request, refused(413, sentence))

    def serve(self, request: Request, reply: Reply) -> None:
        """Answer a request that was not refused, once what it changes is on disk."""
        started = perf_counter()
        endpoint = request.route.endpoint
        assert endpoint is not None  # noqa: S101  it would have been refused
        try:
            answer = endpoint.call(request)
        except Exception as error:  # one failing request must not stop the server
            answer = failed(error, endpoint.body, request.body)
            self._finish(request, started, reply, answer)
            return
        if isinstance(answer, Pending):
            answer.then(partial(self._finish_later, request, started, reply))
        elif endpoint.method == "POST":
            self.stored(partial(self._finish, request, started, reply, answer))
        else:
            self._finish(request, started, reply, answer)

    def _finish_later(
        self, request: Request, started: float, reply: Reply, found: Answer | Exception
    ) -> None:
        """Answer with what came from another agent, or was done here instead."""
        if isinstance(found, Exception):
            self._finish(request, started, reply, failed(found))
        else:
            self.stored(partial(self._finish, request, started, reply, found))

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
        # Details of an error are for callers with a token alone.
        if answer.status >= 500 and self._lacks_token(request):
            sentence = "the agent cannot serve; show the token to be told why"
            answer = refused(answer.status, sentence)
        self.meter.requests[request.route.label, answer.status] += 1
        if self.callers.origins:
            answer = answer._replace(headers=answer.headers + self.callers.grants(request.headers))
        return _confined(answer) if request.route.path.startswith(PAGE) else answer

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

    def beat(self) -> None:
        """Do what is due about twice a second, with or without requests; here nothing."""

    def page_moved(self, _: Request) -> Answer:
        """Redirect to the page, whose addresses are relative to the slash."""
        return Answer(308, b"", b"text/plain", ((b"location", ROOT.encode()),))

    def page_file(self, request: Request) -> Answer:
        """Return a file of the page, unless the browser has it already."""
        asset = assets.find(request.route.path.removeprefix(ROOT))
        assert asset is not None  # noqa: S101  `find` has found it
        headers = (b"etag", asset.etag), (b"cache-control", b"no-cache")
        if request.fields.get(b"if-none-match") == asset.etag:
            return Answer(304, b"", headers=headers)
        return Answer(200, asset.body, asset.kind, headers)

    def page_stream(self, feed: Feed, refresh: Callable[[], None]) -> Answer:
        """Answer with the changes of a feed; `refresh` brings it up to date before each look."""

        def begin() -> Callable[[], bytes]:
            reader = feed.reader()

            def pull() -> bytes:
                refresh()
                return reader.take()

            return pull

        return self.streamed(EVENTS, begin, FRESH)


def _shows(request: Request, tokens: Sequence[bytes]) -> bool:
    """Return whether a request has one of these tokens."""
    scheme, _, token = request.fields.get(b"authorization", b"").partition(b" ")
    given = token.strip()
    return scheme.lower() == b"bearer" and any(hmac.compare_digest(given, each) for each in tokens)


def _confined(answer: Answer) -> Answer:
    """Return an answer, an error too, with the headers that confine a page."""
    if assets.HEADERS[0] in answer.headers:
        return answer
    return answer._replace(headers=answer.headers + assets.HEADERS)
