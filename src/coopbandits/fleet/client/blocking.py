"""The client for programs without an event loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
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
from coopbandits.fleet.client.line import Line
from coopbandits.fleet.client.pool import Pool
from coopbandits.fleet.client.sockets import SocketLink
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


class SharedSockets(Shared):
    """Connections for several threads, and their turns.

    Attributes
    ----------
    pool : Pool
        The connections.
    line : Line
        Whose turn it is.
    """

    def begin(self) -> None:
        """Begin without connections."""
        super().begin()
        self.pool = Pool[SocketLink]()
        self.line = Line(self.connections)

    def begin_after_fork(self) -> None:
        """Close the copies of the parent's connections, and begin anew."""
        for link in list(self.pool.all):
            link.forget()
        self.begin()


class Client(Caller):
    """Talks to an agent over a few connections, which are kept open and renewed if they break.

    Every call can be repeated safely: a reward counts once, and a choice whose answer got lost
    leaves a ticket that expires. So while the agent is away, for example restarting, a call retries
    until `timeout`. After three calls in a row that found nobody, calls of `choose` and `observe`
    fail at once, until the agent answers to one of the probes that are made meanwhile.

    Threads may share a client. So may processes that are forked, each of which gets connections of
    its own.

    Parameters
    ----------
    address : str
        `host:port` or `unix:/path` of the agent's API.
    token : str, optional
        The token that the agent requires.
    timeout : float
        Seconds a call may take in total, waiting for a free connection included. The look-up of a
        host name is not bounded by it.
    tls : ssl.SSLContext, optional
        For an API that serves HTTPS.
    connections : int
        The most connections at a time; further threads wait for their turn.
    default : str, optional
        The option that `choose` returns when the agent is away or cannot serve; the first of
        `allowed` if it is not among them. `is_default` of such a choice is true. Its reward may be
        handed in like any, and is counted nowhere.
    bandit : str, optional
        Which of the agent's bandits is asked; none where it has one only.

    Raises
    ------
    UnreachableError
        By any call, if no agent answered in time; by `choose` only without a default. Refusals of
        the agent are raised as the errors of `coopbandits.fleet.service`.
    """

    _shared: SharedSockets

    def _make_shared(self) -> SharedSockets:
        return SharedSockets(self.connections)

    def choose(
        self, allowed: Iterable[str] | None = None, context: Context | None = None
    ) -> Choice:
        """Return an option to use now, one of `allowed` if given, for a request like this."""
        request, names = self._choosing(allowed, context)
        try:
            return self._ask(request, choice_in)
        except AWAY as error:
            return self._stand_in(names, error)

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Hand in the reward of a ticket."""
        request = self._observing(ticket, reward)
        return request if isinstance(request, Receipt) else self._ask(request, receipt_in)

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every option, for requests like this where a context is given."""
        return self._ask(arms_request(context, self._prefix), arms_in)

    def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return which option won so far, and how sure that is."""
        request = recommendation_request(confidence, self._prefix)
        return self._ask(request, recommendation_in)

    def bandits(self) -> list[BanditState]:
        """Return the agent's bandits."""
        return self._ask(BANDITS, bandits_in)

    def export(self) -> dict[str, Any]:
        """Return everything that the agent has learned, of one bandit or of all."""
        return self._ask(export_request(self._prefix), content_in)

    def health(self) -> dict[str, Any]:
        """Return the agent's state."""
        return self._ask(HEALTH, content_in)

    def state(self, since: int = 0) -> dict[str, Any]:
        """Return what a page shows of the agent, with what happened after an event."""
        return self._ask(state_request(since), content_in)

    def cluster(self) -> dict[str, Any]:
        """Return the cluster's document, and who has which version of it."""
        return self._ask(CLUSTER, content_in)

    def adopt(self, signed: bytes) -> dict[str, Any]:
        """Hand over a signed document of the cluster, as JSON; return what `cluster` does."""
        return self._ask(adopt_request(signed), content_in)

    def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason."""
        try:
            self._ask(READY, content_in)
        except AWAY as error:
            return str(error)
        return None

    def drain(self, seconds: float | None = None) -> None:
        """Stop the agent in order, waiting so long for open tickets, or as it is configured."""
        self._ask(drain_request(seconds), content_in)

    def close(self) -> None:
        """Close the connections; the next call opens a new one."""
        shared = self._shared
        old, shared.pool = shared.pool, Pool[SocketLink]()
        old.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(self, request: Request, read: Callable[[Content], T]) -> T:
        if self._is_hopeless(request):
            self._probe()
            if self._is_hopeless(request):
                raise self._hopeless()
        call = Call(self, request)
        while True:
            try:
                reply = self._attempt(call)
                break
            except BROKEN as error:
                pause = call.pause_after(error)
            time.sleep(pause)
        call.succeed()
        return unpack(reply, self.place, read)

    def _attempt(self, call: Call) -> Reply:
        line, pool = self._shared.line, self._shared.pool
        if not line.enter(call.left()):
            raise call.in_line()
        try:
            kept = pool.reuse()
            link = kept or self._connect(pool, call)
            with pool.using(link, kept=kept is not None):
                return link.ask(call)
        finally:
            line.leave()

    def _connect(self, pool: Pool[SocketLink], call: Call) -> SocketLink:
        link = SocketLink()
        pool.all.add(link)
        try:
            link.open(self.place, call, self.tls)
        except BaseException:
            pool.drop(link)
            raise
        return link

    def _probe(self) -> None:
        """See from time to time whether the agent is back, without keeping the caller waiting."""
        breaker = self._shared.breaker
        if not breaker.begin_probe():
            return

        def ask() -> None:
            try:
                call = Call(self, ALIVE)
                self._attempt(call)
                call.succeed()
            except BROKEN:
                pass
            finally:
                breaker.end_probe()

        thread = threading.Thread(target=ask, name="coopbandits-probe", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads, or the interpreter is about to end
            breaker.end_probe()
        else:
            thread.join(GLANCE)
