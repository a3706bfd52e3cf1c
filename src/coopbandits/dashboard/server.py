"""The page over a stored simulation: its scene, tracks and agents over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.dashboard.serving import Shown
from coopbandits.dashboard.stored import StoredRun
from coopbandits.fleet.api.messages import JSON, Answer
from coopbandits.fleet.api.site import EVENTS, FRESH, ROOT, Endpoint, Request


class StoredSite(Shown):
    """The page over a stored simulation.

    Parameters
    ----------
    run : StoredRun
        What is shown.
    """

    def __init__(self, run: StoredRun) -> None:
        super().__init__()
        self.shown = run
        self._scene = b"event: scene\ndata: %s\n\n" % msgspec.json.encode(run.scene())
        self._tracks: dict[int, Answer] = {}
        self.endpoints |= {
            f"{ROOT}events": Endpoint("GET", self.events),
            f"{ROOT}track": Endpoint("GET", self.track),
            f"{ROOT}agent": Endpoint("GET", self.agent),
        }

    def events(self, _: Request) -> Answer:
        """Tell the scene; nothing follows, and the open stream says that the server is there."""
        return self.streamed(EVENTS, lambda: partial(next, iter([self._scene]), b""), FRESH)

    def track(self, request: Request) -> Answer:
        """Return one policy by frame, computed when it is first asked for."""
        (panel,) = _numbers(request, "panel")
        if panel not in self._tracks:
            self._tracks[panel] = _data(self.shown.track(panel))
        return self._tracks[panel]

    def agent(self, request: Request) -> Answer:
        """Return one agent by frame."""
        return _data(self.shown.agent(*_numbers(request, "panel", "agent")))


def _numbers(request: Request, *names: str) -> list[int]:
    given = dict(parse_qsl(request.query))
    for name in names:
        if not (given.get(name, "").isdecimal() and len(given[name]) < 10):
            example = "&".join(f"{each}=0" for each in names)
            raise InputError(
                f"{name} is {given.get(name, '')[:40]!r}; ask {request.path}?{example}"
            )
    return [int(given[name]) for name in names]


def _data(found: dict[str, Any]) -> Answer:
    """Return an answer; numbers that are none become null."""
    return Answer(200, msgspec.json.encode(found), JSON, (FRESH,))
