"""The middlewares of the examples answer 200, whatever their agent does."""

from __future__ import annotations

import asyncio
import importlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coopbandits.fleet.client import AsyncClient, Client

from ..api.running import running
from ..api.stand_in import StandIn
from ..process.agents import TOKEN, Agent, lonely, wait
from .driving import answer, answering
from .test_default import REFUSALS

EXAMPLES = Path(__file__).parents[3] / "examples" / "fleet"
TIMEOUT = 0.2
SECOND = "fedcba9876543210"
CHOSEN = answer("200 OK", b'{"ticket": "x", "arm": "red"}')
BLUE, RED = (f'<h1 style="color: {colour}">Welcome</h1>'.encode() for colour in ("blue", "red"))


class Page(NamedTuple):
    """What a visitor gets, and why the client returned its default."""

    status: int
    body: bytes
    reasons: set[str]


Between = Callable[[], object]
"""Called by the application, between the choice and its reward."""


def wsgi_page(
    address: str, between: Between = lambda: None, reward: Any = 1.0, **settings: Any
) -> Page:
    """Request a page of the WSGI example."""
    example = importlib.import_module("wsgi_middleware")

    def app(environ: Any, start_response: Any) -> Any:
        between()
        environ["bandit.reward"] = reward
        return example.shop(environ, start_response)

    settings = {"timeout": TIMEOUT} | settings
    with Client(address, default="blue", **settings) as client:
        statuses: list[str] = []
        served = example.Bandit(app, client)({}, lambda status, *_: statuses.append(status))
        body = b"".join(served)
        (status,) = statuses
        return Page(int(status[:3]), body, _present(client))


def asgi_page(
    address: str, between: Between = lambda: None, reward: Any = 1.0, **settings: Any
) -> Page:
    """Request a page of the ASGI example."""
    example = importlib.import_module("asgi_middleware")
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.to_thread(between)
        scope["bandit.reward"] = reward
        await example.shop(scope, receive, send)

    async def send(message: Any) -> None:
        sent.append(message)

    async def request() -> Page:
        async with AsyncClient(address, default="blue", **settings) as client:
            await example.Bandit(app, client)({"type": "http"}, asyncio.Queue().get, send)
            start, body = sent
            return Page(start["status"], body["body"], _present(client))

    settings = {"timeout": TIMEOUT} | settings
    return asyncio.run(request())


def _present(client: Client | AsyncClient) -> set[str]:
    return {reason for reason, count in client.defaults.items() if count}


@pytest.fixture(params=[wsgi_page, asgi_page], ids=["wsgi", "asgi"])
def page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Page]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    made: Callable[..., Page] = request.param
    return made


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_page_is_served_whatever_is_answered(page: Callable[..., Page], refusal: str) -> None:
    reason, reply = REFUSALS[refusal]
    with answering(lambda _: reply) as address:
        assert page(address) == (200, BLUE, {reason})
    # The same answer to the reward of a real choice:
    with answering(lambda data: CHOSEN if b"/choose" in data else reply) as address:
        assert page(address) == (200, RED, set())


def test_a_page_is_served_while_the_agent_hangs(page: Callable[..., Page]) -> None:
    with answering(lambda _: None) as address:
        assert page(address) == (200, BLUE, {"timeout"})
    with answering(lambda data: CHOSEN if b"/choose" in data else None) as address:
        assert page(address) == (200, RED, set())


@pytest.mark.parametrize("reward", [7.0, float("nan"), "good", None])
def test_a_page_is_served_when_its_reward_is_rejected(
    page: Callable[..., Page], reward: Any
) -> None:
    agent = StandIn()
    with running(agent) as server:
        assert page(server.address, reward=reward, timeout=20.0) == (200, BLUE, set())
        assert not agent.settled


def test_a_page_is_served_when_its_ticket_has_expired(page: Callable[..., Page]) -> None:
    now = [0.0]
    agent = StandIn(clock=lambda: now[0], lifetime=1.0)
    with running(agent) as server:
        served = page(server.address, lambda: now.append(now.pop() + 9.0), timeout=20.0)
        assert served == (200, BLUE, set())
        assert not agent.settled


def reload(agent: Agent) -> None:
    """Have an agent read its files again, and wait until it has."""
    before = len(agent.told())
    agent.send(signal.SIGHUP)
    wait(lambda: "the configuration was reloaded" in agent.told()[before:])


def test_a_page_is_served_through_every_change_of_an_agent(
    page: Callable[..., Page], tmp_path: Path
) -> None:
    with lonely(tmp_path, max_open_tickets=1, drain_seconds=60.0) as agent:
        del agent.tables["node"]["default_bandit"]  # which the file must declare
        button = agent.tables["bandits"]["button"]
        agent.write_token(TOKEN)
        agent.start()
        address = f"unix:{agent.folder / 'api'}"
        settings = {"bandit": "button", "timeout": 20.0, "token": TOKEN}

        def serves(reason: str = "", between: Between = lambda: None, **others: Any) -> None:
            served = page(address, between, **settings | others)
            assert (served.status, served.reasons) == (200, {reason} - {""})
            assert served.body == BLUE if reason else served.body in (BLUE, RED)

        serves()
        serves("unknown_bandit", bandit="banner")

        agent.tables["bandits"] = {"other": button}
        agent.write()
        serves("", lambda: reload(agent))  # a retired bandit accepts late rewards
        serves("unknown_bandit")
        agent.tables["bandits"] = {"button": button}
        agent.write()
        reload(agent)
        serves()

        agent.write_token(SECOND)
        serves("", lambda: reload(agent))
        serves("unauthorized")
        serves("unauthorized", token=None)
        serves(token=SECOND)  # which abandons the ticket whose reward was rejected
        with Client(address, bandit="button", token=SECOND) as client:
            client.choose()  # for whose reward it waits
        agent.send(signal.SIGTERM)
        wait(lambda: "draining" in agent.told())
        serves("draining", token=SECOND)
        agent.kill()
        serves("unreachable", timeout=TIMEOUT)


def test_a_page_is_served_when_the_agent_is_killed_meanwhile(
    page: Callable[..., Page], tmp_path: Path
) -> None:
    with lonely(tmp_path) as agent:
        agent.start()
        served = page(f"unix:{agent.folder / 'api'}", agent.kill, timeout=5.0)
        assert (served.status, served.reasons) == (200, set())
