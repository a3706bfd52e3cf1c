"""Simulated applications of a local fleet, and the audit of what they were acknowledged.

Each application asks its own agent for a choice and submits the reward, which is a function of the
seed, the agent, the number of the choice and the arm. A call that fails because the agent is dead
or paused is retried, a reward with the same ticket, until it is acknowledged.

**The audit** shows that every acknowledged reward is held by the agents, and counted exactly once.
Three accounts are compared, as vectors of K reward sums and K numbers of pulls:

- *acknowledged*: what the applications logged when an agent had answered;
- *own*: what the agents have received from their own applications, summed;
- *held*: the estimate of every single agent where estimates become exact, as with flooding and
  trees; otherwise the sum of all agents' shares, after the same round where shares are mixtures.
  Where shares add up on average only, as with pull mixing, only the own account is compared.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from coopbandits.core.aggregate.aggregation import MIXED, OWN
from coopbandits.core.contract import Vector
from coopbandits.core.draws import normals, stream_key, uniforms, words
from coopbandits.core.errors import InputError
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.config.eligibility import traits_of
from coopbandits.fleet.local.agents import BANDIT, FleetError, Place, arm_names
from coopbandits.fleet.service import ArmEstimate, UnavailableError
from coopbandits.problems import Problem

T = TypeVar("T")

CALL_SECONDS = 1.0
"""Timeout of a call, which is then retried over a new connection."""

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
        Whether the agent had counted it before, and its first answer got lost.
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
        """Return the reward of an arm at choice `number`, counted from 0."""
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
        Number of retried calls.
    """

    def __init__(self, place: Place, tape: Tape, pace: float) -> None:
        self.place, self.tape, self.period = place, tape, 1.0 / pace
        self.numbers = {name: arm for arm, name in enumerate(arm_names(tape.problem.num_arms))}
        self.rewards: list[Reward] = []
        self.pulls = np.zeros(tape.problem.num_arms, dtype=np.int64)
        self.retries = 0

    async def play(self, ending: Ending) -> None:
        """Choose and submit rewards until `ending` is set; an open choice is still completed."""
        loop = asyncio.get_running_loop()
        due, number = loop.time(), 0
        async with AsyncClient(self.place.api, timeout=CALL_SECONDS, bandit=BANDIT) as client:
            while not await ending.within(due - loop.time()):
                await self._pull(client, number)
                number += 1
                due = max(due + self.period, loop.time())

    async def _pull(self, client: AsyncClient, number: int) -> None:
        while not (choice := await self._retry(client.choose)).ticket:
            self.retries += 1  # an agent that cannot write returns no ticket
            await asyncio.sleep(PAUSE)
        arm = self.numbers[choice.arm]
        reward = self.tape.reward(number, arm)
        receipt = await self._retry(lambda: client.observe(choice.ticket, reward))
        self.record(Reward(choice.ticket, arm, receipt.reward, receipt.duplicate))

    def record(self, reward: Reward) -> None:
        """Count and log an acknowledged reward."""
        self.rewards.append(reward)
        self.pulls[reward.arm] += 1
        with self.log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(reward._asdict()) + "\n")

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except (UnreachableError, UnavailableError):
                self.retries += 1
                await asyncio.sleep(PAUSE)
            except InputError as error:
                raise FleetError(
                    f"agent {self.place.id} rejected a call of its application: {error}"
                ) from error

    @property
    def log(self) -> Path:
        """The log of acknowledged rewards, one JSON object per line."""
        return self.place.folder / "client.jsonl"


class Ending(asyncio.Event):
    """The event that ends all choices.

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
        self.interrupted = True
        self.set()


# The audit

EXACT = 1e-9

OWN_REWARDS = "all agents' own rewards"


@dataclass(frozen=True)
class Verdict:
    """The result of an audit.

    Attributes
    ----------
    acknowledged, own : array of shape (2K,)
        The accounts above.
    held : dict of str to array
        The accounts above by holder; empty if the policy conserves on average only.
    scale : array of shape (2K,)
        The unit of differences: the rewards' magnitudes, and the numbers of pulls.
    problem : str
        Why the accounts could not be compared; empty if they could.
    best_found : int
        Agents that rank a best arm first.
    answering : int
        Agents that answered.
    """

    acknowledged: Vector
    own: Vector
    held: Mapping[str, Vector]
    scale: Vector
    problem: str
    best_found: int
    answering: int

    @property
    def accounts(self) -> dict[str, Vector]:
        """The accounts compared with the acknowledged one, by holder."""
        return {**self.held, OWN_REWARDS: self.own}

    @property
    def differences(self) -> Vector:
        """The largest difference from the acknowledged account, entry by entry."""
        accounts = self.accounts.values()
        found: Vector = np.stack([abs(each - self.acknowledged) for each in accounts]).max(axis=0)
        return found

    @property
    def holds(self) -> bool:
        return not self.problem and bool((self.differences <= EXACT * self.scale).all())

    @property
    def farthest(self) -> str:
        """The holder whose account differs most."""
        errors = {
            who: float((abs(each - self.acknowledged) / self.scale).max())
            for who, each in self.accounts.items()
        }
        return max(errors, key=lambda who: errors[who])


class Account(NamedTuple):
    """Acknowledged rewards, and the unit of differences from them."""

    total: Vector
    scale: Vector


def add_up(rewards: Iterable[Reward], num_arms: int) -> Account:
    """Return the account of some rewards; its scale is at least 1."""
    total, scale = np.zeros((2, num_arms)), np.ones((2, num_arms))
    for reward in rewards:
        total[:, reward.arm] += reward.reward, 1.0
        scale[:, reward.arm] += abs(reward.reward), 1.0
    return Account(total.ravel(), scale.ravel())


def judge(
    policy: str,
    best_arms: Sequence[bool],
    acknowledged: Account,
    arms: Mapping[str, list[ArmEstimate] | None],
    health: Mapping[str, dict[str, Any] | None],
    *,
    forgets: bool = False,
) -> Verdict:
    """Compare the accounts.

    Parameters
    ----------
    policy : str
        The policy's spelling.
    best_arms : sequence of bool
        Which arms are best.
    acknowledged : Account
        The rewards acknowledged to all applications.
    arms, health : mapping
        Each agent's answers to these requests; None if it did not answer.
    forgets : bool
        Whether agents have a half-life: what they hold decays, and only their own counts remain.
    """
    total, scale = acknowledged
    known = {who: answer for who, answer in arms.items() if answer is not None}
    silent = sorted(who for who in arms if arms[who] is None or health[who] is None)
    own = np.zeros_like(scale) + sum(own_account(answer) for answer in known.values())
    held, problem = ({OWN_REWARDS: own}, "") if forgets else _held(policy, known, health)
    if silent:
        problem = f"{', '.join(silent)} did not answer"
    best_found = 0
    for answer in known.values():
        means = [-np.inf if arm.mean is None else arm.mean for arm in answer]
        best_found += best_arms[int(np.argmax(means))] and max(means) > -np.inf
    return Verdict(total, own, held, scale, problem, best_found, len(arms) - len(silent))


def _held(
    policy: str,
    arms: Mapping[str, list[ArmEstimate]],
    health: Mapping[str, dict[str, Any] | None],
) -> tuple[dict[str, Vector], str]:
    found = traits_of(parse_policy(policy))
    if found.exact:
        return {who: estimate_account(answer) for who, answer in arms.items()}, ""
    shares: list[dict[str, list[float]]] = []  # of the one bandit, by round
    for each in health.values():
        if each is not None:
            (bandit,) = each["bandits"].values()
            shares.append(bandit["shares"])
    if found.shares == OWN:
        return {"all agents' shares": _sum([share[max(share, key=int)] for share in shares])}, ""
    if found.shares != MIXED:
        return {}, ""
    # Mixtures conserve the sum after each round, so all have to be of the same one.
    common = set.intersection(*map(set, shares)) if shares else set()
    if not common:
        return {}, "no recent round was completed by all agents"
    last = max(common, key=int)
    return {f"all agents' shares after round {last}": _sum([share[last] for share in shares])}, ""


def _sum(accounts: Sequence[Sequence[float]]) -> Vector:
    total: Vector = np.sum(accounts, axis=0)
    return total


def own_account(arms: list[ArmEstimate]) -> Vector:
    """Return the rewards that an agent received from its own application."""
    return np.array([arm.own_reward for arm in arms] + [float(arm.own_pulls) for arm in arms])


def estimate_account(arms: list[ArmEstimate]) -> Vector:
    """Return an agent's estimate of the rewards that all agents have received."""
    sums = [(arm.mean or 0.0) * arm.pulls for arm in arms]
    return np.array(sums + [arm.pulls for arm in arms])
