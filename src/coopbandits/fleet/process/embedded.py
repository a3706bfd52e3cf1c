"""`LocalAgent`: an agent embedded in your own program, in a thread and without HTTP."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Self, TypeVar

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig, read_config
from coopbandits.fleet.process.declarations import Declarations
from coopbandits.fleet.process.runtime import Runtime, make_runtime
from coopbandits.fleet.service import (
    CONFIDENCE,
    ArmEstimate,
    BanditService,
    BanditState,
    Choice,
    Context,
    Metric,
    Pending,
    Receipt,
    Recommendation,
    UnavailableError,
    require_reward,
    require_ticket,
)
from coopbandits.page.state import AgentState

T = TypeVar("T")


class LocalAgent:
    """One agent of a fleet inside your own program; all methods can be called from any thread.

    Parameters
    ----------
    config : NodeConfig or path
        The agent's configuration, or its TOML file. The API address is not used.
    insecure : bool
        Accept a configuration without [tls], for agents on one machine.

    Examples
    --------
    ::

        with LocalAgent("node.toml") as agent:
            button = agent.bandit("checkout-button")
            choice = button.choose()
            button.observe(choice.ticket, reward=use(choice.arm))
    """

    def __init__(self, config: NodeConfig | str | Path, *, insecure: bool = False) -> None:
        if not isinstance(config, NodeConfig):
            config = read_config(Path(config), now=time.time(), insecure=insecure)
        self.config = config
        self._default = LocalBandit(self, None)
        self._loop: asyncio.AbstractEventLoop | None = None  # None unless it runs
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()  # of calls that other agents have not answered

    def start(self) -> None:
        """Open the journal and start to gossip."""
        with self._lock:
            if self._loop is not None:
                raise InputError(f"agent {self.config.id} is already running; start it once")
            loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=loop.run_forever, name=f"agent {self.config.id}")
            self._thread.start()
            try:
                self._runtime = asyncio.run_coroutine_threadsafe(self._begin(), loop).result()
            except BaseException:
                self._end(loop)
                raise
            self._loop = loop

    async def _begin(self) -> Runtime:
        runtime = make_runtime(self.config)
        try:
            await runtime.start()
        except BaseException:
            await runtime.stop()
            raise
        return runtime

    def stop(self) -> None:
        """Stop, with all acknowledged rewards on disk."""
        with self._lock:  # from here on, calls raise InputError
            loop, self._loop = self._loop, None
        if loop is not None:
            stopping = asyncio.run_coroutine_threadsafe(self._runtime.stop(), loop)
            wait([stopping])
            self._end(loop)
            for answer in self._waiting.copy():
                answer.set_exception(UnavailableError(f"agent {self.config.id} was stopped"))
            self._waiting.clear()  # even after a failure: a thread would keep the program alive
            stopping.result()

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def choose(
        self,
        allowed: Sequence[str] | None = None,
        context: Context | None = None,
        unit: str | None = None,
    ) -> Choice:
        """Return an arm of the default bandit, one of `allowed` if given, and a ticket.

        A `unit` is a user or session, which is given the same arm for `sticky_seconds`.
        """
        return self._default.choose(allowed, context, unit)

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Count the reward of a ticket of the default bandit, also of another agent's.

        The call is idempotent.
        """
        return self._default.observe(ticket, reward)

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every arm of the default bandit."""
        return self._default.arms(context)

    def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return the best arm of the default bandit so far, and how certain that is."""
        return self._default.recommendation(confidence)

    def bandit(self, name: str) -> LocalBandit:
        """Return one bandit of the agent."""
        return LocalBandit(self, name)

    def bandits(self) -> list[BanditState]:
        """Return all bandits."""
        return self._ask(lambda: self._runtime.service.bandits())

    def export(self) -> dict[str, Any]:
        """Return everything learned."""
        return self._ask(lambda: self._runtime.service.export())

    def take(self, declared: Declarations) -> None:
        """Change the bandits to other declarations: all of them, or none."""
        self._ask(lambda: self._runtime.take(declared), stored=True)

    def health(self) -> dict[str, Any]:
        """Return the agent's state as plain data."""
        return self._ask(lambda: self._runtime.service.health())

    def state(self, since: int = 0) -> AgentState:
        """Return the state that a page shows, with the events after `since`."""
        return self._ask(lambda: self._runtime.service.state(since))

    def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason in one sentence."""
        return self._ask(lambda: self._runtime.service.ready())

    def metrics(self) -> list[Metric]:
        """Return the agent's metrics."""
        return self._ask(lambda: self._runtime.service.metrics())

    def cluster(self) -> dict[str, Any]:
        """Return the cluster's document, and every agent's version of it."""
        return self._ask(lambda: self._runtime.service.cluster())

    def adopt(self, signed: bytes) -> dict[str, Any]:
        """Adopt a signed document of the cluster, as JSON; return the same as `cluster`."""
        return self._ask(lambda: self._runtime.service.adopt(signed), stored=True)

    def _ask(self, question: Callable[[], T | Pending[T]], *, stored: bool = False) -> T:
        """Call in the agent's thread; with `stored`, wait until all events are on disk."""
        answer: Future[T] = Future()

        def work() -> None:
            try:
                found = question()
            except BaseException as error:  # raised in the caller's thread instead
                answer.set_exception(error)
                return
            if isinstance(found, Pending):
                self._waiting.add(answer)
                found.then(finish)
            else:
                finish(found)

        def finish(found: T | Exception) -> None:
            self._waiting.discard(answer)
            if isinstance(found, Exception):
                answer.set_exception(found)
                return

            def reply(error: UnavailableError | None) -> None:
                if error is None:
                    answer.set_result(found)
                else:
                    answer.set_exception(error)

            if stored:
                self._runtime.service.stored(reply)
            else:
                reply(None)

        with self._lock:
            if self._loop is None:
                raise InputError(f"agent {self.config.id} is not running; start it first")
            self._loop.call_soon_threadsafe(work)
        return answer.result()


class LocalBandit:
    """One bandit of an agent inside your own program; without a name, its default."""

    def __init__(self, agent: LocalAgent, name: str | None) -> None:
        self.agent, self.name = agent, name

    def _ask(
        self, question: Callable[[BanditService], T | Pending[T]], *, stored: bool = False
    ) -> T:
        agent = self.agent
        return agent._ask(lambda: question(agent._runtime.service.bandit(self.name)), stored=stored)

    def choose(
        self,
        allowed: Sequence[str] | None = None,
        context: Context | None = None,
        unit: str | None = None,
    ) -> Choice:
        """Return an arm for a request, one of `allowed` if given, and a ticket.

        A `unit` is a user or session, which is given the same arm for `sticky_seconds`.
        """
        if unit is None:
            return self._ask(lambda bandit: bandit.choose(allowed, context), stored=True)
        return self._ask(lambda bandit: bandit.choose_for(unit, allowed, context), stored=True)

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Count the reward of a ticket, also of another agent's; the call is idempotent."""
        ticket, value = require_ticket(ticket), require_reward(reward)
        return self._ask(lambda bandit: bandit.submit(ticket, value), stored=True)

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every arm, for requests with a context if given."""
        return self._ask(lambda bandit: bandit.arms(context))

    def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return the best arm so far, and how certain that is."""
        return self._ask(lambda bandit: bandit.recommendation(confidence))

    def export(self) -> dict[str, Any]:
        """Return everything learned by this bandit."""
        return self._ask(lambda bandit: bandit.export())
