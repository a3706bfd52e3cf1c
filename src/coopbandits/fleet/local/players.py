"""The applications of a fleet: each asks its own agent what to use, and hands in what it brought.

The reward of a choice is a function of seed, agent and number of the choice, and of the arm. A call
that fails because the agent is dead or paused is made again: a reward with the same ticket, until
it is acknowledged. What was acknowledged is written down, as evidence.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from coopbandits.core.draws import normals, stream_key, uniforms, words
from coopbandits.core.errors import InputError
from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.local.ending import Ending
from coopbandits.fleet.local.layout import Place, arm_names
from coopbandits.fleet.local.members import FleetError
from coopbandits.fleet.service import UnavailableError
from coopbandits.problems import Problem

T = TypeVar("T")

CALL_SECONDS = 1.0
"""After so long without an answer a call is made anew, over another connection."""

PAUSE = 0.05


class Reward(NamedTuple):
    """A reward that an agent has acknowledged.

    Attributes
    ----------
    ticket : str
        Its ticket.
    arm : int
        Which arm brought it.
    reward : float
        How much.
    duplicate : bool
        Whether the agent had counted it before: then its first answer was lost.
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
        Where they come from.
    seed, agent : int
        Whose they are.
    """

    def __init__(self, problem: Problem, seed: int, agent: int) -> None:
        self.problem = problem
        agents = words(stream_key(seed, 0, 0), np.array([agent], dtype=np.uint64))
        self._key = int(agents[0])

    def reward(self, number: int, arm: int) -> float:
        """Return what an arm brings at the choice of this number, counted from 0."""
        word = words(self._key, np.array([number], dtype=np.uint64))
        variate = normals(word) if self.problem.variate == "normal" else uniforms(word)
        return float(self.problem.rewards(np.array([arm]), variate)[0])


class Player:
    """The application of one agent.

    Parameters
    ----------
    place : Place
        Where the agent is.
    tape : Tape
        What choices bring.
    pace : float
        Choices per second.

    Attributes
    ----------
    rewards : list of Reward
        Those acknowledged.
    pulls : array of int
        How many they are, by arm.
    retries : int
        Calls that were made again.
    """

    def __init__(self, place: Place, tape: Tape, pace: float) -> None:
        self.place, self.tape, self.period = place, tape, 1.0 / pace
        self.numbers = {name: arm for arm, name in enumerate(arm_names(tape.problem.num_arms))}
        self.rewards: list[Reward] = []
        self.pulls = np.zeros(tape.problem.num_arms, dtype=np.int64)
        self.retries = 0

    async def play(self, ending: Ending) -> None:
        """Choose and hand in until told to end; what is open then is still handed in."""
        loop = asyncio.get_running_loop()
        due, number = loop.time(), 0
        async with AsyncClient(self.place.api, timeout=CALL_SECONDS) as client:
            while not await ending.within(due - loop.time()):
                await self._pull(client, number)
                number += 1
                due = max(due + self.period, loop.time())

    async def _pull(self, client: AsyncClient, number: int) -> None:
        choice = await self._insist(client.choose)
        arm = self.numbers[choice.arm]
        reward = self.tape.reward(number, arm)
        receipt = await self._insist(lambda: client.observe(choice.ticket, reward))
        self._note(Reward(choice.ticket, arm, receipt.reward, receipt.duplicate))

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call until it is answered."""
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
        """Return the file that holds what was acknowledged, one JSON object per line."""
        return self.place.folder / "client.jsonl"
