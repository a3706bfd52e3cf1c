"""The page over a real fleet of processes, in a real browser, while one is killed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from coopbandits.dashboard.watch import shown_beside
from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.local.agents import (
    BANDIT,
    Members,
    Place,
    prepared,
    reserve_port,
    write_configs,
)
from coopbandits.fleet.local.settings import make_settings
from coopbandits.fleet.service import UnavailableError

from .browser import Browser, text, wait_for

pytestmark = pytest.mark.plays

T = TypeVar("T")

SOON = 2.0
"""Seconds in which the page shows that an agent has died, or is back."""

PAUSE = 0.2


class RealFleet:
    """Processes, their applications and a dashboard that knows one of them, in a thread."""

    def __init__(self, places: list[Place]) -> None:
        self.places, self.page = places, ""
        self.loop = asyncio.new_event_loop()
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self.loop.run_until_complete, args=[self._run()])

    async def _run(self) -> None:
        try:
            async with Members(self.places) as self.members:
                applications = [asyncio.create_task(self._play(place)) for place in self.places]
                async with shown_beside(self._told, [f"http://{self.places[3].api}"]):
                    await self._over.wait()
                for application in applications:
                    application.cancel()
        finally:
            self._ready.set()

    def _told(self, address: str) -> None:
        self.page = address
        self._ready.set()

    async def _play(self, place: Place) -> None:
        async with AsyncClient(place.api, bandit=BANDIT) as client:
            while True:
                with contextlib.suppress(UnreachableError, UnavailableError):
                    choice = await client.choose()
                    await client.observe(choice.ticket, float(choice.arm == "arm-1"))
                await asyncio.sleep(PAUSE)

    def do(self, what: Awaitable[T]) -> T:
        """Do something in the fleet's thread."""

        async def work() -> T:
            return await what

        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(60)

    def __enter__(self) -> RealFleet:
        self._thread.start()
        assert self._ready.wait(90)
        assert self.page
        return self

    def __exit__(self, *error: object) -> None:
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(60)
        self.loop.close()


@pytest.fixture
def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RealFleet]:
    settings = make_settings(request.param, "0.1,0.9,0.2")
    with prepared(tmp_path, settings) as places, contextlib.ExitStack() as held:
        reachable = [place._replace(api=str(reserve_port(held))) for place in places]
        write_configs(reachable, settings, {})
        with RealFleet(reachable) as fleet:
            yield fleet


def row_of(tab: Any, name: str) -> Any:
    return tab.locator("#agent-table tbody tr", has_text=name)


@pytest.mark.slow
@pytest.mark.parametrize("fleet", ["cycle:8"], indirect=True)
def test_an_agent_that_is_killed_and_returns(browser: Browser, fleet: RealFleet) -> None:
    tab = browser.open(fleet.page)
    wait_for(tab, "#connection", "live")
    wait_for(tab, "#figures", "8 of 8")  # all were found from one
    wait_for(tab, "#ahead", "arm-1 is ahead")
    assert text(tab, "#title") == "local"
    victim = fleet.members.all[5]
    began = time.monotonic()
    fleet.do(victim.kill())
    wait_for(tab, "#figures", "7 of 8")
    died = time.monotonic() - began
    wait_for(tab, "#events", "a05 does not answer")
    assert "up" not in row_of(tab, "a05").locator("td").nth(1).text_content()
    fleet.do(fleet.members.restart(victim))
    began = time.monotonic()
    wait_for(tab, "#figures", "8 of 8")
    returned = time.monotonic() - began
    wait_for(tab, "#events", "a05 was started again")
    wait_for(tab, "#events", "link to a05 is up")
    print(f"the page showed the death after {died:.2f} s and the return after {returned:.2f} s")
    assert died < SOON
    assert returned < SOON
    assert browser.complaints == []


@pytest.mark.parametrize("fleet", ["cycle:4"], indirect=True)
def test_the_page_of_one_agent_shows_it_and_its_neighbours(
    browser: Browser, fleet: RealFleet
) -> None:
    tab = browser.open(f"http://{fleet.places[0].api}/ui/")
    wait_for(tab, "#connection", "live")
    wait_for(tab, "#figures", "3 of 3")
    for name, rows in (("a00", 1), ("a01", 1), ("a02", 0), ("a03", 1)):
        assert row_of(tab, name).count() == rows
    assert browser.complaints == []
