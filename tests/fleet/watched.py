"""Stand-in agents behind real servers, and a watch over them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from coopbandits.dashboard.watch import Watch
from coopbandits.fleet.api import ApiServer
from coopbandits.page.state import AgentState, NeighborState

from .api.running import running
from .api.stand_in import StandIn

PATIENCE = 90.0


class Agent(StandIn):
    """A stand-in with a name, for a cluster of them."""

    def __init__(self, name: str) -> None:
        super().__init__(clock=time.time)
        self.name, self.incarnation = name, 1

    def state(self, since: int = 0) -> AgentState:
        return replace(super().state(since), id=self.name, incarnation=self.incarnation)


def neighbor(name: str, api: str | None = None) -> NeighborState:
    return NeighborState(name, True, "", 10, 0.1, api)


def watching(
    addresses: list[str], scenario: Callable[[Watch], Awaitable[None]], **settings: Any
) -> Watch:
    """Run a scenario beside a watch."""

    async def play() -> Watch:
        watch = Watch(addresses, **settings)
        task = asyncio.create_task(watch.run())
        try:
            async with asyncio.timeout(PATIENCE):
                await scenario(watch)
        finally:
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()
        return watch

    return asyncio.run(play())


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


def up(watch: Watch) -> set[str]:
    return {name for name, seen in watch.feed.agents.items() if seen.up and seen.state}


@contextmanager
def fleet(*names: str, **settings: Any) -> Iterator[list[ApiServer]]:
    """Serve agents, each of which names the next one."""
    with ExitStack() as stack:
        agents = [Agent(name) for name in names]
        servers = [stack.enter_context(running(agent, **settings)) for agent in agents]
        for at, agent in enumerate(agents):
            after = (at + 1) % len(agents)
            agent.neighbors = [neighbor(names[after], f"http://{servers[after].address}")]
        yield servers


def agent_of(server: ApiServer) -> Agent:
    """Return the agent behind a server of `fleet`."""
    return server.api.service  # type: ignore[attr-defined,no-any-return]  # it has that here


def lone(watch: Watch) -> Any:
    (seen,) = watch.feed.agents.values()
    return seen
