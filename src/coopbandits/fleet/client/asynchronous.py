"""The client for asyncio programs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from coopbandits.fleet.client.breaker import GLANCE
from coopbandits.fleet.client.caller import AWAY, Call, Caller, Shared
from coopbandits.fleet.client.exchange import (
    ALIVE,
    BANDITS,
    CLUSTER,
    HEALTH,
    READY,
    Content,
    adopt_request,
    arms_in,
    arms_request,
    bandits_in,
    choice_in,
    content_in,
    drain_request,
    export_request,
    receipt_in,
    recommendation_in,
    recommendation_request,
    state_request,
    unpack,
)
from coopbandits.fleet.client.pool import Pool
from coopbandits.fleet.client.streams import StreamLink
from coopbandits.fleet.client.wire import BROKEN, Reply, Request
from coopbandits.fleet.service import (
    CONFIDENCE,
    ArmEstimate,
    BanditState,
    Choice,
    Context,
    Receipt,
    Recommendation,
)

T = TypeVar("T")


class SharedStreams(Shared):
    """Connections on one event loop.

    Attributes
    ----------
    loop : AbstractEventLoop or None
        Whose connections these are; None before the first call.
    probing : Task or None
        Looks whether the agent is back.
    pool : Pool
        The connections.
    line : Semaphore
        Lets as many calls pass as there may be connections.
    """

    def begin(self) -> None:
        """Begin without connections."""
        super().begin()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.probing: asyncio.Task[None] | None = None
        self.pool = Pool[StreamLink]()
        self.line = asyncio.Semaphore(self.connections)

    def begin_after_fork(self) -> None:
        """Leave the connections to the parent, and begin anew."""
        # Kept alive: a transport that is closed here, or collected, tells the parent's event loop.
        self._of_parent = self.pool, self.probing
        self.begin()


class AsyncClient(Caller):
    """Like `Client`, with the same parameters, without blocking the event loop.

    Tasks may share a client. It belongs to the event loop that runs it; on another one, or after a
    fork, it begins with new connections.
    """

    _shared: SharedStreams

    def _make_shared(self) -> SharedStreams:
        return SharedStreams(self.connections)

    async def choose(
        self, allowed: Iterable[str] | None = None, context: Context | None = None
    ) -> Choice:
        """Return an option to use now, one of `allowed` if given, for a request like this."""
        request, names = self._choosing(allowed, context)
        try:
            return await self._ask(request, choice_in)
        except AWAY as error:
            return self._stand_in(names, error)

    async def observe(self, ticket: str, reward: float) -> Receipt:
        """Hand in the reward of a ticket."""
        request = self._observing(ticket, reward)
        return request if isinstance(request, Receipt) else await self._ask(request, receipt_in)

    async def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every option, for requests like this where a context is given."""
        return await self._ask(arms_request(context, self._prefix), arms_in)

    async def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return which option won so far, and how sure that is."""
        request = recommendation_request(confidence, self._prefix)
        return await self._ask(request, recommendation_in)

    async def bandits(self) -> list[BanditState]:
        """Return the agent's bandits."""
        return await self._ask(BANDITS, bandits_in)

    async def export(self) -> dict[str, Any]:
        """Return everything that the agent has learned, of one bandit or of all."""
        return await self._ask(export_request(self._prefix), content_in)

    async def health(self) -> dict[str, Any]:
        """Return the agent's state."""
        return await self._ask(HEALTH, content_in)

    async def state(self, since: int = 0, bandit: str = "") -> dict[str, Any]:
        """Return what a page shows of the agent, or of one bandit, and what happened since."""
        return await self._ask(state_request(since, bandit), content_in)

    async def cluster(self) -> dict[str, Any]:
        """Return the cluster's document, and who has which version of it."""
        return await self._ask(CLUSTER, content_in)

    async def adopt(self, signed: bytes) -> dict[str, Any]:
        """Hand over a signed document of the cluster, as JSON; return what `cluster` does."""
        return await self._ask(adopt_request(signed), content_in)

    async def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason."""
        try:
            await self._ask(READY, content_in)
        except AWAY as error:
            return str(error)
        return None

    async def drain(self, seconds: float | None = None) -> None:
        """Stop the agent in order, waiting so long for open tickets, or as it is configured."""
        await self._ask(drain_request(seconds), content_in)

    async def close(self) -> None:
        """Close the connections; the next call opens a new one."""
        shared = self._shared
        old, shared.pool = shared.pool, Pool[StreamLink]()
        probing, shared.probing = shared.probing, None
        if shared.loop is not asyncio.get_running_loop():
            return
        if probing is not None:
            probing.cancel()
            await asyncio.wait([probing])
        links = list(old.all)
        old.close()
        for link in links:
            await link.closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _ask(self, request: Request, read: Callable[[Content], T]) -> T:
        if self._shared.loop is not asyncio.get_running_loop():
            self._shared.begin()
            self._shared.loop = asyncio.get_running_loop()
        if self._is_hopeless(request):
            await self._probe()
            if self._is_hopeless(request):
                raise self._hopeless()
        call = Call(self, request)
        while True:
            try:
                reply = await self._attempt(call)
                break
            except BROKEN as error:
                pause = call.pause_after(error)
            await asyncio.sleep(pause)
        call.succeed()
        return unpack(reply, self.place, read)

    async def _attempt(self, call: Call) -> Reply:
        line, pool = self._shared.line, self._shared.pool
        try:
            async with asyncio.timeout(call.left()):
                await line.acquire()
        except TimeoutError:
            raise call.in_line() from None
        try:
            async with asyncio.timeout(call.left()):
                kept = pool.reuse()
                link = kept or await self._connect(pool)
                with pool.using(link, kept=kept is not None):
                    return await link.ask(call.data)
        finally:
            line.release()

    async def _connect(self, pool: Pool[StreamLink]) -> StreamLink:
        loop = asyncio.get_running_loop()
        if isinstance(self.place, Path):
            _, link = await loop.create_unix_connection(StreamLink, str(self.place))
        else:
            host, port = self.place
            _, link = await loop.create_connection(StreamLink, host, port, ssl=self.tls)
        pool.all.add(link)
        return link

    async def _probe(self) -> None:
        """See from time to time whether the agent is back, without keeping the caller waiting."""
        breaker = self._shared.breaker
        if not breaker.begin_probe():
            return

        async def ask() -> None:
            try:
                call = Call(self, ALIVE)
                await self._attempt(call)
                call.succeed()
            except BROKEN:
                pass
            finally:
                breaker.end_probe()

        self._shared.probing = asyncio.create_task(ask(), name="coopbandits-probe")
        await asyncio.wait([self._shared.probing], timeout=GLANCE)
