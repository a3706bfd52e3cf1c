"""The API of an agent: its paths, and what is answered at each."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from urllib.parse import parse_qs

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.api.messages import (
    AliveAnswer,
    Answer,
    ArmAnswer,
    ArmsAnswer,
    BanditAnswer,
    BanditsAnswer,
    ChoiceAnswer,
    ChooseRequest,
    DrainAnswer,
    DrainRequest,
    ObserveRequest,
    ReadyAnswer,
    ReceiptAnswer,
    RecommendationAnswer,
    accepted,
    refused,
)
from coopbandits.fleet.api.metrics import CONTENT_TYPE, render
from coopbandits.fleet.api.openapi import LARGEST, OF_BANDIT, OF_DEFAULT, SCOPES, describe
from coopbandits.fleet.api.site import FRESH, Callers, Endpoint, Request, Route, Scoped, Site
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.service import (
    CONFIDENCE,
    BanditService,
    Choice,
    Context,
    Pending,
    Receipt,
    Service,
    UnknownBanditError,
    require_context,
)
from coopbandits.page.feed import Feed

log = logging.getLogger(__name__)

Drain = Callable[[float | None], None]

PUBLIC = ("/alive", "/ready")
"""Paths for probes, which have no token; each answers with one bit."""

LONGEST_BODY = {"/cluster/document": 1 << 19}
"""Bytes of bodies that may be longer than `max_body_bytes`: a document with its signatures."""

LOOK_SECONDS, SAMPLE_SECONDS = 0.19, 0.9
"""Between two looks at the agent while a page is open, and while none is."""

BANDITS = "/bandits/"
"""Where the paths of single bandits begin."""

# Bound once: a request decodes and encodes without a call of Python's own.
_encode = msgspec.json.encode
_read_choose = msgspec.json.Decoder(ChooseRequest).decode
_read_observe = msgspec.json.Decoder(ObserveRequest).decode


class Api(Site):
    """An agent's HTTP API, and a page that shows the agent.

    Parameters
    ----------
    service : Service
        The agent.
    token : str, optional
        Opens every path, shown as `Authorization: Bearer …`.
    scoped : mapping
        Tokens that open the paths of some scopes each; where there are any tokens, every request
        must show one.
    public : collection of str
        Paths that need no token; without it, errors there do not say why.
    callers : Callers, optional
        Who is answered; without it, callers that use a name of this machine.
    limits : ApiLimits
        The size of bodies.
    drain : callable, optional
        Stops the agent once open tickets have their rewards, or after some seconds; without it,
        `POST /drain` is refused.
    """

    def __init__(
        self,
        service: Service,
        token: str | None = None,
        public: Collection[str] = PUBLIC,
        *,
        scoped: Scoped = MappingProxyType({}),
        callers: Callers | None = None,
        limits: ApiLimits | None = None,
        drain: Drain | None = None,
    ) -> None:
        super().__init__(token, scoped=scoped, callers=callers, limits=limits)
        self.service, self._drain, self.stored = service, drain, service.stored
        calls: list[tuple[str, str, Callable[[Request], Answer | Pending[Answer]]]] = [
            ("POST", "/choose", self.choose),
            ("POST", "/observe", self.observe),
            ("POST", "/drain", self.drain),
            ("GET", "/arms", self.arms),
            ("GET", "/recommendation", self.recommendation),
            ("GET", "/bandits", self.bandits),
            ("GET", "/export", self.export),
            ("GET", "/health", self.health),
            ("GET", "/cluster", self.cluster),
            ("POST", "/cluster/document", self.adopt),
            ("GET", "/ready", self.ready),
            ("GET", "/alive", self.alive),
            ("GET", "/metrics", self.metrics),
            ("GET", "/openapi.json", self.openapi),
            ("GET", "/ui/state", self.state),
            ("GET", "/ui/events", self.events),
            ("GET", "/", self.index),
        ]
        bodies: dict[str, type[msgspec.Struct]] = {
            "/choose": ChooseRequest,
            "/observe": ObserveRequest,
            "/drain": DrainRequest,
        }
        for method, path, call in calls:
            most, body = LONGEST_BODY.get(path, 0), bodies.get(path)
            scopes = SCOPES.get(path, ())
            self.endpoints[path] = Endpoint(method, call, path in public, most, body, scopes)
        # A bandit of several needs its own token, or the agent's, even where the path is public.
        self.of_bandit = {
            path[1:]: self.endpoints[path]._replace(public=False) for path in OF_BANDIT
        }
        self._feeds: dict[str | None, _Watched] = {None: _Watched()}
        self._description: tuple[object, bytes] | None = None  # and what it was made of
        self._failed = False

    def find(self, path: str, query: str) -> Route:
        """Return where a path leads, also of a bandit by name."""
        if path.startswith(BANDITS):
            name, _, call = path.removeprefix(BANDITS).partition("/")
            if call in self.of_bandit:
                endpoint, label = self.of_bandit[call], f"{BANDITS}NAME/{call}"
                return Route(path, query, endpoint, label, f"/{call}", name)
        return super().find(path, query)

    def tokens(self, request: Request) -> list[bytes]:
        """Return the agent's tokens that open a path, and that of the bandit if it has one."""
        own, route = None, request.route
        if route.bandit is not None or route.timed in OF_DEFAULT:
            with suppress(UnknownBanditError):  # raised again for callers with the agent's token
                request.bandit = self.service.bandit(route.bandit)
                own = request.bandit.token
        tokens = super().tokens(request)
        return [*tokens, own.encode()] if own else tokens

    def choose(self, request: Request) -> Answer | Pending[Answer]:
        """Choose an option."""
        bandit = request.bandit or self.service.bandit(request.route.bandit)
        if request.body:
            sent = _read_choose(request.body)
            if sent.unit is not None:
                found = bandit.choose_for(sent.unit, sent.allowed, sent.context)
                return found.map(_chosen) if isinstance(found, Pending) else _chosen(found)
            choice = bandit.choose(sent.allowed, sent.context)
        else:
            choice = bandit.choose()
        return Answer(200, _encode(ChoiceAnswer(choice.ticket, choice.arm)))

    def observe(self, request: Request) -> Answer | Pending[Answer]:
        """Count a reward."""
        bandit = request.bandit or self.service.bandit(request.route.bandit)
        sent = _read_observe(request.body)
        found = bandit.submit(sent.ticket, sent.reward)
        return found.map(_counted) if isinstance(found, Pending) else _counted(found)

    def drain(self, request: Request) -> Answer:
        """Stop the agent once open tickets have their rewards."""
        body = request.body or b"{}"
        sent = msgspec.json.decode(body, type=DrainRequest)
        if self._drain is None:
            return refused(
                403,
                "this API has no authentication, so it cannot stop the agent; give it a "
                "token_file, [api_tls] or a Unix socket, or send its process SIGTERM",
            )
        self._drain(sent.seconds)
        return accepted(DrainAnswer(True))

    def arms(self, request: Request) -> Answer:
        """Return an estimate of every option, for requests like this where a context is given."""
        found = self.service.bandit(request.route.bandit).arms(_context(request.route.query))
        return accepted(ArmsAnswer([ArmAnswer(*arm) for arm in found]))

    def recommendation(self, request: Request) -> Answer:
        """Return which option won so far, and how sure that is."""
        confidence = _asked(request.route.query, "confidence", str(CONFIDENCE))
        try:
            asked = float(confidence)
        except ValueError:
            raise InputError(
                f"confidence is {confidence!r}; it must be a probability between 0 and 1, such as "
                "0.95"
            ) from None
        found = self.service.bandit(request.route.bandit).recommendation(asked)
        return accepted(RecommendationAnswer(*found))

    def bandits(self, _: Request) -> Answer:
        """Return all bandits."""
        return accepted(BanditsAnswer([BanditAnswer(*each) for each in self.service.bandits()]))

    def export(self, request: Request) -> Answer:
        """Return everything learned, of one bandit or of all."""
        return accepted(self._shown(request.route.bandit).export())

    def _shown(self, bandit: str | None) -> Service | BanditService:
        """Return a bandit by name; without one, the agent."""
        return self.service if bandit is None else self.service.bandit(bandit)

    def health(self, _: Request) -> Answer:
        """Return the agent's state."""
        return accepted(self.service.health())

    def cluster(self, _: Request) -> Answer:
        """Return the cluster's document, and which agent has which version of it."""
        return accepted(self.service.cluster())

    def adopt(self, request: Request) -> Answer:
        """Apply a new document of the cluster."""
        return accepted(self.service.adopt(request.body))

    def ready(self, _: Request) -> Answer:
        """Return whether the agent can serve."""
        reason = self.service.ready()
        return accepted(ReadyAnswer(True)) if reason is None else refused(503, reason)

    def alive(self, _: Request) -> Answer:
        """Return that there is an agent."""
        return accepted(AliveAnswer(True))

    def metrics(self, _: Request) -> Answer:
        """Return all metrics in Prometheus' format."""
        return Answer(200, render(self.service.metrics(), self.meter), CONTENT_TYPE)

    def openapi(self, _: Request) -> Answer:
        """Describe this API."""
        described = self.service.schemas(), self.needs_token
        if self._description is None or self._description[0] != described:
            public = [path for path, endpoint in self.endpoints.items() if endpoint.public]
            # It takes milliseconds, in which no other request is answered.
            self._description = described, _encode(describe(*described, public))
        return Answer(200, self._description[1])

    def state(self, request: Request) -> Answer:
        """Return what a page shows, with events after `since`."""
        since = _asked(request.route.query, "since", "0")
        is_number = since.isascii() and since.isdigit() and len(since) < 20
        if not (is_number and int(since) <= LARGEST):
            raise InputError(
                f"since is {since!r}; it must be the number of an event, or be left out"
            )
        state = self._shown(_shown_bandit(request.route.query)).state(int(since))
        return accepted(state)._replace(headers=(FRESH,))

    def events(self, request: Request) -> Answer:
        """Stream everything that changes about a bandit, or the first, to a page."""
        name = _shown_bandit(request.route.query)
        self._shown(name)  # raises an error where there is no such bandit
        watched = self._feeds.setdefault(name, _Watched())
        return self.page_stream(watched.feed, partial(self._look, name))

    def _look(self, name: str | None = None, apart: float = LOOK_SECONDS) -> None:
        """Bring a feed up to date, unless that was done just before."""
        watched, now = self._feeds[name], time.monotonic()
        if now - watched.asked >= apart:
            watched.asked = now
            watched.feed.update(self._shown(name).state(), time.time())
            watched.feed.step(time.time())

    def beat(self) -> None:
        """Record the present even without a viewer, so that a page can show the past."""
        try:
            self._look(apart=SAMPLE_SECONDS)
        except Exception:  # an agent goes on without a page
            if not self._failed:
                log.exception("cannot read the agent's state for its page")
            self._failed = True

    def index(self, _: Request) -> Answer:
        """List the paths."""
        paths = self.endpoints | {f"{BANDITS}NAME/{k}": v for k, v in self.of_bandit.items()}
        lines = [f"{endpoint.method} {path}\n" for path, endpoint in paths.items()]
        return Answer(200, "".join(lines).encode(), b"text/plain; charset=utf-8")


def _chosen(choice: Choice) -> Answer:
    sticky = msgspec.UNSET if choice.sticky is None else choice.sticky
    return Answer(200, _encode(ChoiceAnswer(choice.ticket, choice.arm, sticky)))


def _counted(receipt: Receipt) -> Answer:
    return Answer(200, _encode(ReceiptAnswer(*receipt)))


class _Watched:
    """What pages are shown of one bandit, and when it was last looked at."""

    def __init__(self) -> None:
        self.feed, self.asked = Feed("agent", time.time()), -math.inf


def _shown_bandit(query: str) -> str | None:
    """Return the bandit that a page asks for; None for the first."""
    found = _fields(query).get("bandit")
    return None if found is None else found[-1][:63]


def _asked(query: str, name: str, default: str) -> str:
    """Return a field of a query, cut to a length that can be shown."""
    return _fields(query).get(name, [default])[-1][:50]


def _fields(query: str) -> dict[str, list[str]]:
    try:
        return parse_qs(query, max_num_fields=10)
    except ValueError:
        raise InputError("the query has more than 10 fields; ask for one thing at a time") from None


def _context(query: str) -> Context | None:
    """Return the context in a query; the service knows which there are."""
    found = _fields(query).get("context")
    try:
        return None if found is None else require_context(msgspec.json.decode(found[-1]))
    except (msgspec.DecodeError, RecursionError):
        raise InputError(
            f"context is {found and found[-1][:50]!r}; it must be JSON such as "
            '{"hour": 13, "country": "PT"}, with what a query cannot hold escaped'
        ) from None
