"""The client for programs without an event loop: sockets that block, and turns for threads."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from coopbandits.fleet.client.calls import (
    CONNECTIONS,
    GLANCE,
    Call,
    Calls,
    Transport,
    quiet_check,
)
from coopbandits.fleet.client.exchange import Content, Reply, ReplyParser
from coopbandits.fleet.service import (
    CONFIDENCE,
    ArmEstimate,
    BanditState,
    Choice,
    Context,
    Receipt,
    Recommendation,
)

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

CHUNK = 2**14


def run(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whose transport blocks, so that it never suspends."""
    try:
        call.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("a coroutine of a blocking client was suspended")


class FairSemaphore:
    """Admits a number of threads at a time, in the order of their arrival.

    That of `threading` keeps no order: a thread that leaves and comes back at once would pass those
    that wait, again and again.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    def enter(self, timeout: float) -> bool:
        """Wait for a place; return whether there was one in time."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire(timeout=timeout)
        except BaseException:  # interrupted
            if not self._give_up(turn):
                self.leave()
            raise
        return not self._give_up(turn)

    def _give_up(self, turn: threading.Lock) -> bool:
        """Return whether a thread was still waiting; it is no longer."""
        with self._lock:
            if turn not in self._waiting:
                return False
            self._waiting.remove(turn)
            return True

    def leave(self) -> None:
        """Give the place to the thread that has waited longest."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1


class SocketLink:
    """A connection to the agent, open once `open` has returned."""

    def __init__(self) -> None:
        self.parser = ReplyParser()
        self._socket = socket.socket()

    def open(self, place: Path | tuple[str, int], call: Call, tls: ssl.SSLContext | None) -> None:
        """Connect to the first address of a place that answers."""
        if isinstance(place, Path):
            ends: list[tuple[int, Any]] = [(socket.AF_UNIX, str(place))]
        else:
            found = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)
            ends = [(family, end) for family, _, _, _, end in found]
        failure = OSError(f"{place} has no address")
        for family, end in ends:
            self.close()
            self._socket = socket.socket(family, socket.SOCK_STREAM)
            try:
                self._socket.settimeout(call.left())
                self._socket.connect(end)
                if family != socket.AF_UNIX:
                    self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    if tls is not None:
                        self._shake_hands(call, tls)
            except OSError as error:
                failure = error
            else:
                self.is_quiet = quiet_check(self._socket.fileno())
                return
        raise failure

    def _shake_hands(self, call: Call, tls: ssl.SSLContext) -> None:
        # Wrapped before the handshake, so that a fork meanwhile finds the socket.
        self._socket = secure = tls.wrap_socket(
            self._socket, server_hostname=call.host, do_handshake_on_connect=False
        )
        secure.settimeout(call.left())
        secure.do_handshake()

    async def ask(self, call: Call) -> Reply:
        """Send a request, and wait for the reply."""
        self._socket.settimeout(call.left())
        self._socket.sendall(call.data)
        while True:
            self._socket.settimeout(call.left())
            reply = self.parser.feed(self._socket.recv(CHUNK))
            if reply is not None:
                return reply

    def close(self) -> None:
        self._socket.close()

    def forget(self) -> None:
        """Close a copy that a fork made, whatever a thread of the parent does with it."""
        with contextlib.suppress(OSError):
            os.close(self._socket.detach())


class Sockets(Transport[SocketLink]):
    """Connections for several threads; its coroutines block, and never suspend."""

    def begin(self) -> None:
        super().begin()
        self.turns = FairSemaphore(self.most)

    def begin_after_fork(self) -> None:
        for link in list(self.pool.all):
            link.forget()
        self.begin()

    def attend(self) -> None:
        """Any thread may call at any time."""

    async def enter(self, call: Call) -> bool:
        return self.turns.enter(call.left())

    def leave(self) -> None:
        self.turns.leave()

    async def connect(self, call: Call) -> SocketLink:
        link, pool = SocketLink(), self.pool
        pool.all.add(link)
        try:
            link.open(self.place, call, self.tls)
        except BaseException:
            pool.drop(link)
            raise
        return link

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def glance(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        thread = threading.Thread(target=lambda: run(work()), name="coopbandits-probe", daemon=True)
        thread.start()
        thread.join(GLANCE)


class Client:
    """Calls an agent over a few connections, which are kept open and renewed if they break.

    Every call is idempotent: a reward counts once, and a choice whose answer got lost leaves a
    ticket that expires. So while the agent is away, for example restarting, a call retries until
    `timeout`. After three calls in a row that no agent answered, calls of `choose` and `observe`
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
        The most connections at a time; further calls wait for their turn.
    default : str, optional
        The option that `choose` returns when the agent does not choose, whatever the reason: it
        cannot be reached, rejects the call, or its answer cannot be read. The first of `allowed` if
        the default is not among them. `is_default` of such a choice is true. Its reward may be
        submitted as usual, and is not counted.
    bandit : str, optional
        Which of the agent's bandits is asked; without it, the `default_bandit` of the agent's
        configuration.

    Raises
    ------
    UnreachableError
        By any call, if no agent answered in time. Rejected calls raise the errors of
        `coopbandits.fleet.service`. With a default, `choose` raises neither.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        timeout: float = 2.0,
        tls: ssl.SSLContext | None = None,
        *,
        connections: int = CONNECTIONS,
        default: str | None = None,
        bandit: str | None = None,
    ) -> None:
        self._sockets = Sockets(address, tls, connections)
        self._calls = Calls(self._sockets, token, timeout, default, bandit)

    def bandit(self, name: str, *, default: str | None = None) -> Self:
        """Return a client for one bandit of the agent, which shares the connections of this one.

        Closing either closes them; the next call of either opens a new one.
        """
        made = copy(self)
        made._calls = self._calls.bandit(name, default=default)
        return made

    def choose(
        self,
        allowed: Iterable[str] | None = None,
        context: Context | None = None,
        unit: str | None = None,
    ) -> Choice:
        """Return an option to use now, one of `allowed` if given, for a request like this.

        A `unit` is a user or session, which is given the same option for `sticky_seconds`.
        """
        return run(self._calls.choose(allowed, context, unit))

    @property
    def defaults(self) -> Mapping[str, int]:
        """How often `choose` returned the default, by reason."""
        return self._calls.defaults

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Submit the reward of a ticket."""
        return run(self._calls.observe(ticket, reward))

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every option, for requests like this where a context is given."""
        return run(self._calls.arms(context))

    def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return which option won so far, and how sure that is."""
        return run(self._calls.recommendation(confidence))

    def bandits(self) -> list[BanditState]:
        """Return the agent's bandits."""
        return run(self._calls.bandits())

    def export(self) -> Content:
        """Return everything that the agent has learned, of one bandit or of all."""
        return run(self._calls.export())

    def health(self) -> Content:
        """Return the agent's state."""
        return run(self._calls.health())

    def state(self, since: int = 0, bandit: str = "") -> Content:
        """Return what a page shows of the agent, or of one bandit, with events after `since`."""
        return run(self._calls.state(since, bandit))

    def cluster(self) -> Content:
        """Return the cluster's document, and which agent has which version of it."""
        return run(self._calls.cluster())

    def adopt(self, signed: bytes) -> Content:
        """Submit a signed document of the cluster, as JSON; return what `cluster` does."""
        return run(self._calls.adopt(signed))

    def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason."""
        return run(self._calls.ready())

    def drain(self, seconds: float | None = None) -> None:
        """Stop the agent once open tickets have their rewards, or after some seconds.

        Without `seconds`, it waits as long as it is configured to.
        """
        run(self._calls.drain(seconds))

    def close(self) -> None:
        """Close the connections; the next call opens a new one."""
        self._sockets.renew_pool().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
