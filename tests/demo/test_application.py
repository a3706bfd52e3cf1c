"""An application whose agent comes and goes; the real ones are in test_play.py."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest

from coopbandits.demo import applications
from coopbandits.demo.applications import (
    DEFAULT,
    OPTIONS,
    AdvisedApplication,
    BlindApplication,
    Supply,
)
from coopbandits.fleet.client import UnreachableError
from coopbandits.fleet.local.applications import Ending
from coopbandits.fleet.service import Choice, Receipt

SUPPLY = Supply([b"some text, " * 100], [b"a backup, " * 100])


class Agent:
    """Stands in for a client: each call to `observe` is answered as it was told."""

    def __init__(self, choices: list[str], answers: list[bool]) -> None:
        self.choices, self.answers = choices, answers
        self.told: list[tuple[str, float]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def choose(self) -> Choice:
        ticket = self.choices.pop(0)
        return Choice(ticket, DEFAULT if ticket.startswith("default") else "lzma-0")

    async def observe(self, ticket: str, reward: float) -> Receipt:
        if self.answers and not self.answers.pop(0):
            raise UnreachableError("it is away")
        self.told.append((ticket, reward))
        return Receipt(ticket, "lzma-0", reward, duplicate=False)


def work(made: Any, files: int) -> None:
    """Let an application compress some files."""

    async def run() -> None:
        ending = Ending()
        before = made.compress_one

        async def count() -> None:
            await before()
            if len(made.deeds) == files:
                ending.set()

        made.compress_one = count
        await made.work(ending)

    asyncio.run(run())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applications, "PERIOD", 0.001)


def advised(agent: Agent) -> AdvisedApplication:
    made = AdvisedApplication("a00", "127.0.0.1:1", SUPPLY)
    made._client = agent  # type: ignore[assignment]  # a stand-in
    return made


def test_what_an_agent_did_not_take_is_handed_in_later_in_order() -> None:
    agent = Agent(["t1", "t2", "t3"], [True, False, False])
    made = advised(agent)
    work(made, 3)
    assert [ticket for ticket, _ in agent.told] == ["t1", "t2", "t3"]
    assert [reward.ticket for reward in made.acknowledged] == ["t1", "t2", "t3"]
    assert [reward for _, reward in agent.told] == [deed.found.reward for deed in made.deeds]
    assert {reward.arm for reward in made.acknowledged} == {list(OPTIONS).index("lzma-0")}


def test_what_is_owed_in_the_end_is_still_handed_in() -> None:
    agent = Agent(["t1"], [False, False, False, True])
    work(advised(agent), 1)
    assert [ticket for ticket, _ in agent.told] == ["t1"]


def test_it_does_not_try_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applications, "FINISH_SECONDS", 0.02)
    agent = Agent(["t1"], [False] * 10_000)
    work(advised(agent), 1)
    assert agent.told == []


@pytest.mark.parametrize("ticket", ["default:zlib-9", ""])
def test_nothing_is_owed_for_a_default_or_mere_advice(ticket: str) -> None:
    agent = Agent([ticket], [])
    made = advised(agent)
    work(made, 1)
    assert agent.told == []
    assert len(made.deeds) == 1


def test_the_blind_application_takes_all_in_turn() -> None:
    made = BlindApplication(SUPPLY)
    work(made, 7)
    names = list(OPTIONS)
    assert [deed.option for deed in made.deeds] == [*names, *names[:2]]
    assert {deed.who for deed in made.deeds} == {"blind"}
    moments = [deed.moment for deed in made.deeds]
    assert moments == sorted(moments)
    assert made.deeds[0].found.size == len(b"some text, " * 100)
