"""The API of an agent: its paths, and what is answered at each."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cached_property, partial
from urllib.parse import parse_qs

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.api.callers import Callers
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
    reader,
    refused,
)
from coopbandits.fleet.api.metrics import CONTENT_TYPE, render
from coopbandits.fleet.api.openapi import LARGEST, describe
from coopbandits.fleet.api.pages import FRESH, PageSite
from coopbandits.fleet.api.site import Endpoint, Request, Route
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.service import (
    CONFIDENCE,
    BanditService,
    Context,
    Service,
    Stored,
    UnknownBanditError,
    require_context,
)
from coopbandits.page.feed import Feed

log = logging.getLogger(__name__)

Drain = Callable[[float | None], None]

PUBLIC = ("/alive", "/ready")
"""For probes, which have no token; they tell one bit each."""

LONGEST_BODY = {"/cluster/document": 1 << 19}
"""Bytes of bodies that may be longer than `max_body_bytes`: a document with its signatures."""

LOOK_SECONDS, SAMPLE_SECONDS = 0.19, 0.9
"""Between two looks at the agent while a page is open, and while none is."""

BANDITS = "/bandits/"
"""Where the paths of single bandits begin."""

_read_choose, _read_observe = reader(ChooseRequest), reader(ObserveRequest)
_read_drain = reader(DrainRequest)


class Api(PageSite):
    """An agent's HTTP API, and a page that shows the agent.

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
    drain : callable, optional
        Stops the agent in order, within some seconds or those of its configuration; without it,
        nobody may ask for that here.
    """

    def __init__(
        self,
        service: Service,
        token: str | None = None,
        public: Collection[str] = PUBLIC,
        *,
        callers: Callers | None = None,
        limits: ApiLimits | None = None,
        drain: Drain | None = None,
    ) -> None:
        super().__init__(token, callers=callers, limits=limits)
        self.service, self._drain = service, drain
        self.endpoints |= {
            path: Endpoint(method, call, path in public, LONGEST_BODY.get(path, 0))
            for method, path, call in (
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
            )
        }
        self.of_bandit = {
            "choose": Endpoint("POST", self.choose),
            "observe": Endpoint("POST", self.observe),
            "arms": Endpoint("GET", self.arms),
            "recommendation": Endpoint("GET", self.recommendation),
            "export": Endpoint("GET", self.export),
        }
        self._feeds: dict[str | None, _Watched] = {None: _Watched()}
        self._failed = False

    def stored(self, then: Stored) -> None:
        """Call `then` once all that was chosen and observed so far is on disk."""
        self.service.stored(then)

    def find(self, path: str) -> Route:
        """Return where a path leads, one below a bandit too."""
        if path.startswith(BANDITS):
            name, _, call = path.removeprefix(BANDITS).partition("/")
            if call in self.of_bandit:
                return Route(self.of_bandit[call], f"{BANDITS}NAME/{call}", f"/{call}", name)
        return super().find(path)

    def token_for(self, route: Route) -> bytes | None:
        """Return the token of the bandit that is asked, if it has one of its own."""
        if route.bandit is not None:
            with suppress(UnknownBanditError):  # which is said to callers with the agent's token
                token = self.service.bandit(route.bandit).token
                return token.encode() if token else None
        elif route.timed[1:] in self.of_bandit:
            token = self.service.token  # of the one bandit that is asked without being named
            return token.encode() if token else None
        return None

    def _bandit(self, request: Request) -> Service | BanditService:
        """Return the bandit that is asked, or all where none is named."""
        name = request.route.bandit
        return self.service if name is None else self.service.bandit(name)

    def choose(self, request: Request) -> Answer:
        """Choose an option."""
        sent = _read_choose(request.body) if request.body else ChooseRequest()
        return accepted(ChoiceAnswer(*self._bandit(request).choose(sent.allowed, sent.context)))

    def observe(self, request: Request) -> Answer:
        """Count a reward."""
        sent = _read_observe(request.body)
        return accepted(ReceiptAnswer(*self._bandit(request).observe(sent.ticket, sent.reward)))

    def drain(self, request: Request) -> Answer:
        """Stop in order."""
        sent = _read_drain(request.body) if request.body else DrainRequest()
        if self._drain is None:
            return refused(
                403,
                "anybody on this machine could stop this agent, so nobody may here; give it a "
                "token_file, [api_tls] or a Unix socket, or send its process SIGTERM",
            )
        self._drain(sent.seconds)
        return accepted(DrainAnswer(True))

    def arms(self, request: Request) -> Answer:
        """Return an estimate of every option, for requests like this where a context is given."""
        found = self._bandit(request).arms(_context(request.query))
        return accepted(ArmsAnswer([ArmAnswer(*arm) for arm in found]))

    def recommendation(self, request: Request) -> Answer:
        """Return which option won so far, and how sure that is."""
        found = self._bandit(request).recommendation(_confidence(request.query))
        return accepted(RecommendationAnswer(*found))

    def bandits(self, _: Request) -> Answer:
        """Return all bandits."""
        return accepted(BanditsAnswer([BanditAnswer(*each) for each in self.service.bandits()]))

    def export(self, request: Request) -> Answer:
        """Return everything learned."""
        return accepted(self._bandit(request).export())

    def health(self, _: Request) -> Answer:
        """Return the agent's state."""
        return accepted(self.service.health())

    def cluster(self, _: Request) -> Answer:
        """Return the cluster's document, and who has which version of it."""
        return accepted(self.service.ruling())

    def adopt(self, request: Request) -> Answer:
        """Take a new document of the cluster."""
        return accepted(self.service.adopt(request.body))

    def ready(self, _: Request) -> Answer:
        """Return whether the agent can serve."""
        reason = self.service.ready()
        return accepted(ReadyAnswer(True)) if reason is None else refused(503, reason)

    def alive(self, _: Request) -> Answer:
        """Return that there is somebody."""
        return accepted(AliveAnswer(True))

    def metrics(self, _: Request) -> Answer:
        """Return all metrics in Prometheus' format."""
        return Answer(200, render(self.service.metrics(), self.meter), CONTENT_TYPE)

    def openapi(self, _: Request) -> Answer:
        """Describe this API."""
        return Answer(200, self._description)

    def state(self, request: Request) -> Answer:
        """Return what a page shows, with events after `since`."""
        state = self._shown(_bandit(request.query)).state(_since(request.query))
        return accepted(state)._replace(headers=(FRESH,))

    def events(self, request: Request) -> Answer:
        """Tell a page of everything that changes about a bandit, or the first."""
        name = _bandit(request.query)
        self._shown(name)  # refuses one that there is not
        watched = self._feeds.setdefault(name, _Watched())
        return self.page_stream(watched.feed, partial(self._look, name))

    def _shown(self, name: str | None) -> Service | BanditService:
        return self.service if name is None else self.service.bandit(name)

    def _look(self, name: str | None = None, apart: float = LOOK_SECONDS) -> None:
        """Bring a feed up to date, unless that was done just before."""
        watched, now = self._feeds[name], time.monotonic()
        if now - watched.asked >= apart:
            watched.asked = now
            watched.feed.update(self._shown(name).state(), time.time())
            watched.feed.step(time.time())

    def beat(self) -> None:
        """Remember the present even if nobody watches, so that a page can show the past."""
        try:
            self._look(apart=SAMPLE_SECONDS)
        except Exception:  # an agent goes on without a page
            if not self._failed:
                log.exception("the page cannot be told of this agent")
            self._failed = True

    def index(self, _: Request) -> Answer:
        """List the paths."""
        paths = self.endpoints | {f"{BANDITS}NAME/{k}": v for k, v in self.of_bandit.items()}
        lines = [f"{endpoint.method} {path}\n" for path, endpoint in paths.items()]
        return Answer(200, "".join(lines).encode(), b"text/plain; charset=utf-8")

    @cached_property
    def _description(self) -> bytes:
        told = [state.arms for state in self.service.bandits() if not state.retired]
        arms = told[0] if len(told) == 1 else []
        public = [path for path, endpoint in self.endpoints.items() if endpoint.public]
        context = self.service.context_schema()
        return msgspec.json.encode(describe(arms or None, self.token is not None, public, context))


class _Watched:
    """What pages are told of one bandit, and when it was last looked at."""

    def __init__(self) -> None:
        self.feed, self.asked = Feed("agent", time.time()), -math.inf


def _bandit(query: str) -> str | None:
    """Return the bandit that a page asks for; None for the first."""
    found = _fields(query).get("bandit")
    return None if found is None else found[-1][:63]


def _asked(query: str, name: str, default: str) -> str:
    """Return what a query asks for under a name, cut to a length that can be shown."""
    return _fields(query).get(name, [default])[-1][:50]


def _fields(query: str) -> dict[str, list[str]]:
    try:
        return parse_qs(query, max_num_fields=10)
    except ValueError:
        raise InputError("the query has more than 10 fields; ask for one thing at a time") from None


def _context(query: str) -> Context | None:
    """Return the context that is asked for; the service knows which there are."""
    found = _fields(query).get("context")
    try:
        return None if found is None else require_context(msgspec.json.decode(found[-1]))
    except (msgspec.DecodeError, RecursionError):
        raise InputError(
            f"context is {found and found[-1][:50]!r}; it must be JSON such as "
            '{"hour": 13, "country": "PT"}, with what a query cannot hold escaped'
        ) from None


def _confidence(query: str) -> float:
    """Return the confidence that is asked for; the service knows which there are."""
    found = _asked(query, "confidence", str(CONFIDENCE))
    try:
        return float(found)
    except ValueError:
        raise InputError(
            f"confidence is {found!r}; it must be a probability between 0 and 1, such as 0.95"
        ) from None


def _since(query: str) -> int:
    """Return the number after which events are asked for; 0 for all."""
    found = _asked(query, "since", "0")
    if not (found.isascii() and found.isdigit() and len(found) < 20 and int(found) <= LARGEST):
        raise InputError(f"since is {found!r}; it must be the number of an event, or be left out")
    return int(found)
