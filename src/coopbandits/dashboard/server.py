"""The page over a stored simulation: its scene, tracks and agents over HTTP."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.dashboard.serving import Shown
from coopbandits.dashboard.stored import StoredRun
from coopbandits.fleet.api.answers import JSON, Answer
from coopbandits.fleet.api.pages import EVENTS, FRESH, ROOT
from coopbandits.fleet.api.site import Endpoint, Request
from coopbandits.page import assets


class StoredSite(Shown):
    """The page over a stored simulation.

    Parameters
    ----------
    run : StoredRun
        What is shown.
    """

    def __init__(self, run: StoredRun) -> None:
        super().__init__()
        self._scene = b"event: scene\ndata: %s\n\n" % msgspec.json.encode(run.scene())
        self._track = cache(lambda panel: _data(run.track(panel)))
        self._agent = lambda panel, agent: _data(run.agent(panel, agent))
        for name, call in (
            ("events", lambda _: self.streamed(EVENTS, self._begin, FRESH, *assets.HEADERS)),
            ("track", lambda request: self._track(*_numbers(request, "panel"))),
            ("agent", lambda request: self._agent(*_numbers(request, "panel", "agent"))),
        ):
            self.endpoints[ROOT + name] = Endpoint("GET", call)

    def _begin(self) -> SceneStream:
        return SceneStream(self._scene)


class SceneStream:
    """Tells a scene; nothing follows, and the open stream says that the server is there."""

    def __init__(self, scene: bytes) -> None:
        self.rest = scene

    def pull(self) -> bytes:
        """Return the scene, once."""
        news, self.rest = self.rest, b""
        return news

    def close(self) -> None:
        """Nothing is kept for a reader."""


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
    return Answer(200, msgspec.json.encode(found), JSON, (FRESH, *assets.HEADERS))
