"""The API of an agent: its paths, and what is answered at each."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import msgspec

from coopbandits.fleet.api.answers import Answer, accepted, refused
from coopbandits.fleet.api.callers import Callers
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
from coopbandits.fleet.api.metrics import CONTENT_TYPE, render
from coopbandits.fleet.api.openapi import describe
from coopbandits.fleet.api.site import Endpoint, Request, Site
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.service import Service, Stored

PUBLIC = ("/alive", "/ready")
"""For probes, which have no token; they tell one bit each."""

_read_choose, _read_observe = reader(ChooseRequest), reader(ObserveRequest)


class Api(Site):
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
        super().__init__(token, callers=callers, limits=limits)
        self.service, self.public = service, frozenset(public)
        self.endpoints = {
            path: Endpoint(method, call, path in self.public)
            for method, path, call in (
                ("POST", "/choose", self.choose),
                ("POST", "/observe", self.observe),
                ("GET", "/arms", self.arms),
                ("GET", "/health", self.health),
                ("GET", "/ready", self.ready),
                ("GET", "/alive", self.alive),
                ("GET", "/metrics", self.metrics),
                ("GET", "/openapi.json", self.openapi),
                ("GET", "/", self.index),
            )
        }

    def stored(self, then: Stored) -> None:
        """Call `then` once all that was chosen and observed so far is on disk."""
        self.service.stored(then)

    def choose(self, request: Request) -> Answer:
        """Choose an option."""
        allowed = _read_choose(request.body).allowed if request.body else None
        return accepted(ChoiceAnswer(*self.service.choose(allowed)))

    def observe(self, request: Request) -> Answer:
        """Count a reward."""
        sent = _read_observe(request.body)
        return accepted(ReceiptAnswer(*self.service.observe(sent.ticket, sent.reward)))

    def arms(self, _: Request) -> Answer:
        """Return an estimate of every option."""
        return accepted(ArmsAnswer([ArmAnswer(*arm) for arm in self.service.arms()]))

    def health(self, _: Request) -> Answer:
        """Return the agent's state."""
        return accepted(self.service.health())

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

    def index(self, _: Request) -> Answer:
        """List the paths."""
        lines = [f"{endpoint.method} {path}\n" for path, endpoint in self.endpoints.items()]
        return Answer(200, "".join(lines).encode(), b"text/plain; charset=utf-8")

    @cached_property
    def _description(self) -> bytes:
        arms = [estimate.arm for estimate in self.service.arms()]
        return msgspec.json.encode(describe(arms, self.token is not None, self.public))
