"""Both clients, and an agent in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coopbandits.fleet.api import ApiServer

from ..api.running import running
from ..api.stand_in import StandIn
from .driving import Driven, Make, Threaded


@pytest.fixture(params=[Threaded, Driven], ids=["blocking", "asynchronous"])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with running(StandIn()) as server:
        yield server
