"""Simulated applications: each asks its own agent for a choice and hands in the reward.

A reward is a function of the seed, the agent, the number of the choice and the arm. A call that
fails because the agent is dead or paused is retried, a reward with the same ticket, until it is
acknowledged. Acknowledged rewards are logged as evidence for the audit.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from coopbandits.core.draws import normals, stream_key, uniforms, words
from coopbandits.core.errors import InputError
from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.local.layout import Place, arm_names
from coopbandits.fleet.local.members import FleetError
from coopbandits.fleet.service import UnavailableError
from coopbandits.problems import Problem

T = TypeVar("T")

CALL_SECONDS = 1.0
"""A call without an answer by then is retried over a new connection."""

PAUSE = 0.05


class Reward(NamedTuple):
    """A reward that an agent has acknowledged.

    Attributes
    ----------
    ticket : str
        Its ticket.
    arm : int
        The arm that was pulled.
    reward : float
        Its value.
    duplicate : bool
        Whether the agent had counted it before, because its first answer got lost.
    """

    ticket: str
    arm: int
    reward: float
    duplicate: bool


class Tape:
    """Rewards of one agent's choices, as in run 0 of a simulation with the same seed.

    Parameters
    ----------
    problem : Problem
        Generates the rewards.
    seed, agent : int
        The seed, and the agent's number.
    """

    def __init__(self, problem: Problem, seed: int, agent: int) -> None:
        self.problem = problem
        agents = words(stream_key(seed, 0, 0), np.array([agent], dtype=np.uint64))
        self._key = int(agents[0])

    def reward(self, number: int, arm: int) -> float:
        """Return the reward of an arm at the choice of this number, counted from 0."""
        word = words(self._key, np.array([number], dtype=np.uint64))
        variate = normals(word) if self.problem.variate == "normal" else uniforms(word)
        return float(self.problem.rewards(np.array([arm]), variate)[0])


class Player:
    """The application of one agent.

    Parameters
    ----------
    place : Place
        The agent's folder and addresses.
    tape : Tape
        The rewards.
    pace : float
        Choices per second.

    Attributes
    ----------
    rewards : list of Reward
        Rewards acknowledged.
    pulls : array of int
        Their number by arm.
    retries : int
        Calls that were retried.
    """

    def __init__(self, place: Place, tape: Tape, pace: float) -> None:
        self.place, self.tape, self.period = place, tape, 1.0 / pace
        self.numbers = {name: arm for arm, name in enumerate(arm_names(tape.problem.num_arms))}
        self.rewards: list[Reward] = []
        self.pulls = np.zeros(tape.problem.num_arms, dtype=np.int64)
        self.retries = 0

    async def play(self, ending: Ending) -> None:
        """Choose and hand in rewards until told to end; an open choice is still completed."""
        loop = asyncio.get_running_loop()
        due, number = loop.time(), 0
        async with AsyncClient(self.place.api, timeout=CALL_SECONDS) as client:
            while not await ending.within(due - loop.time()):
                await self._pull(client, number)
                number += 1
                due = max(due + self.period, loop.time())

    async def _pull(self, client: AsyncClient, number: int) -> None:
        while not (choice := await self._retry(client.choose)).ticket:
            self.retries += 1  # an agent that cannot write gives advice alone
            await asyncio.sleep(PAUSE)
        arm = self.numbers[choice.arm]
        reward = self.tape.reward(number, arm)
        receipt = await self._retry(lambda: client.observe(choice.ticket, reward))
        self._note(Reward(choice.ticket, arm, receipt.reward, receipt.duplicate))

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until it is answered."""
        while True:
            try:
                return await call()
            except (UnreachableError, UnavailableError):
                self.retries += 1
                await asyncio.sleep(PAUSE)
            except InputError as error:
                raise FleetError(
                    f"agent {self.place.id} refused its application: {error}"
                ) from error

    def _note(self, reward: Reward) -> None:
        self.rewards.append(reward)
        self.pulls[reward.arm] += 1
        with self.log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(reward._asdict()) + "\n")

    @property
    def log(self) -> Path:
        """Return the log of acknowledged rewards, one JSON object per line."""
        return self.place.folder / "client.jsonl"


class Ending(asyncio.Event):
    """An event that is set when no more choices are to be made.

    Attributes
    ----------
    interrupted : bool
        Whether a signal set it early.
    """

    interrupted = False

    async def within(self, seconds: float) -> bool:
        """Wait for it, at most this long; return whether it is set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wait()
        return self.is_set()

    def interrupt(self) -> None:
        """End early."""
        self.interrupted = True
        self.set()
