"""What a controller of all agents may do, and from when on it sees a reward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core import CentralPolicy, Policy
from coopbandits.core.aggregate import Controller
from coopbandits.core.aggregate.central import central_view
from coopbandits.core.draws import normals, words
from coopbandits.testing.checks import expect_named, finding

if TYPE_CHECKING:
    from coopbandits.core import LocalView

FLEETS = (1, 5)
"""For so many agents a controller is checked."""

FORTUNE = 1e3
"""What is paid at most, within what the policy is for, to see whether it makes a difference."""


@dataclass(frozen=True)
class CentralTrial:
    """A policy under check and how long it plays."""

    policy: CentralPolicy
    num_arms: int
    rounds: int
    seed: int

    def views(self) -> list[LocalView]:
        """Return what a controller knows."""
        return [central_view(self.num_arms, 1.0)]

    def worlds(self) -> Iterator[CentralWorld]:
        """Yield a fresh world for every number of agents."""
        return (self.world(agents) for agents in FLEETS)

    def world(self, num_agents: int) -> CentralWorld:
        """Return a fresh world."""
        return CentralWorld(self, num_agents)


class CentralWorld:
    """One controller, driven agent by agent; words and rewards depend on their place alone."""

    def __init__(self, trial: CentralTrial, num_agents: int) -> None:
        self.trial, self.num_agents, self.rounds = trial, num_agents, 0
        self.means = np.linspace(1.0, 0.0, trial.num_arms)
        self.controller = trial.policy.make_controller(trial.num_arms, 1.0)
        self.registers = self.controller.registers
        self.paid = self.registers.zeros()

    def where(self) -> str:
        """Say which round."""
        return f"{self.num_agents} agents, round {self.rounds}"

    def draw(self) -> tuple[list[int], list[float]]:
        """Return this round's word and standard normal noise of every agent."""
        count = self.num_agents
        counters = np.arange(2 * count, dtype=np.uint64) + np.uint64(2 * count * self.rounds)
        drawn = words(self.trial.seed, counters)
        return drawn[:count].tolist(), normals(drawn[count:]).tolist()

    def play(self, reward: Callable[[int], float] | None = None) -> list[int]:
        """Play one round and return the arms; `reward` of the agent's number, if not the usual."""
        arms = []
        for i, (word, noise) in enumerate(zip(*self.draw(), strict=True)):
            arm = self.controller.choose(word)
            arms.append(arm)
            self.observe(arm, float(self.means[arm]) + noise if reward is None else reward(i))
        self.end_round()
        return arms

    def observe(self, arm: int, reward: float) -> None:
        """Pay one reward, and add it to what `totals` must be."""
        self.controller.observe(arm, reward)
        self.registers.add(self.paid, arm, reward)

    def end_round(self) -> None:
        """End the round."""
        self.controller.end_round()
        self.registers.age(self.paid)
        self.rounds += 1


def settings(trial: CentralTrial) -> None:
    """A central policy has a name and a spelling, and makes controllers."""
    policy: Any = trial.policy
    if isinstance(policy, Policy):
        expected = "one that makes a controller of all; check_policy checks those that make agents"
        raise finding(f"{policy!r} is a policy of agents", expected)
    if not isinstance(policy, CentralPolicy):
        expected = "an instance of a subclass of coopbandits.core.CentralPolicy"
        raise finding(f"{policy!r} is no central policy", f"{expected}, such as CentralUCB()")
    expect_named(policy)
    controller: Any = policy.make_controller(trial.num_arms, 1.0)
    if not isinstance(controller, Controller):
        expected = "a coopbandits.core.Controller"
        raise finding(f"make_controller returned {controller!r}", expected)


def choice(trial: CentralTrial) -> None:
    """`choose` returns an int that is an arm."""
    for world in trial.worlds():
        for _ in range(trial.rounds):
            for word, noise in zip(*world.draw(), strict=True):
                arm: Any = world.controller.choose(word)
                if not isinstance(arm, int) or arm not in range(trial.num_arms):
                    expected = f"one of {list(range(trial.num_arms))}, as a Python int"
                    raise finding(f"choose returned {arm!r} ({world.where()})", expected)
                world.observe(arm, noise)
            world.end_round()


def determinism(trial: CentralTrial) -> None:
    """Fresh controllers given the same calls do the same: words are the only source of chance."""
    for left, right in zip(trial.worlds(), trial.worlds(), strict=True):
        for _ in range(trial.rounds):
            where = left.where()
            arms = left.play(), right.play()
            if arms[0] != arms[1]:
                did = f"two fresh controllers given the same calls chose {arms[0]} and {arms[1]}"
                raise finding(f"{did} ({where})", "equal arms")


def choosing_changes_nothing(trial: CentralTrial) -> None:
    """`choose` changes nothing: its answer may be thrown away."""
    for world, asked in zip(trial.worlds(), trial.worlds(), strict=True):
        for _ in range(trial.rounds):
            where = world.where()
            for word in (0, 2**64 - 1, *asked.draw()[0]):
                asked.controller.choose(word)
            if not np.array_equal(asked.controller.totals, world.controller.totals):
                raise finding(f"choose changed the totals ({where})", "equal totals")
            arms = world.play(), asked.play()
            if arms[0] != arms[1]:
                did = f"a controller and one asked more often chose {arms[0]} and {arms[1]}"
                raise finding(f"{did} ({where})", "equal arms")


def totals(trial: CentralTrial) -> None:
    """`totals` are the registers of all rewards observed so far, in any order."""
    for world in trial.worlds():
        for _ in range(trial.rounds):
            world.play()
            world.observe(world.rounds % trial.num_arms, -0.5)
            found = np.asarray(world.controller.totals)
            if found.shape != world.paid.shape or not np.allclose(found, world.paid):
                did = f"totals are {found.tolist()} ({world.where()})"
                raise finding(did, f"{world.paid.tolist()}, what was observed")


def nothing_too_early(trial: CentralTrial) -> None:
    """A controller that keeps a history shows what is older: its oldest entry, all round long.

    With n entries, a reward makes no difference in the round it is paid in and the n − 1 after it.
    """
    pays = _fortunes(trial)[0]
    for num_agents in FLEETS:
        for first in range(trial.rounds):
            left, right, kept = _fork(trial, num_agents, first)
            for _ in range(kept):
                where = left.where()
                arms = left.play(), right.play(pays)
                if arms[0] != arms[1]:
                    did = f"rewards since round {first} changed arms from {arms[0]} to {arms[1]}"
                    expected = f"no difference for the {kept} rounds that the history is long"
                    raise finding(f"{did} ({where})", expected)


def nothing_too_late(trial: CentralTrial) -> None:
    """A controller without a history sees every reward at once, one with n entries n rounds later.

    So in some round another reward leads to other arms exactly then.
    """
    if trial.num_arms == 1:
        return
    num_agents = max(FLEETS)
    fortune, misfortune = _fortunes(trial)
    for first in range(trial.rounds):
        left, right, kept = _fork(trial, num_agents, first)
        if kept:
            left.play(misfortune)
            right.play(fortune)
        for _ in range(kept - 1):
            left.play()
            right.play()
        # Without a history what the first agent gets in this round is seen by the second.
        if left.play(misfortune) != right.play(fortune):
            return
    raise finding(
        f"rewards of {misfortune(0):g} or {fortune(0):g} never changed an arm {kept} rounds later",
        "that a reward is used as soon as the history shows it",
    )


def _fork(
    trial: CentralTrial, num_agents: int, first: int
) -> tuple[CentralWorld, CentralWorld, int]:
    """Return two worlds that are alike up to a round, and how many rounds their history holds."""
    left, right = trial.world(num_agents), trial.world(num_agents)
    for _ in range(first):
        left.play()
        right.play()
    return left, right, len(left.controller.history)


def _fortunes(trial: CentralTrial) -> tuple[Callable[[int], float], Callable[[int], float]]:
    """Return what pays agents the most and the least in turn, and what pays the reverse."""
    low, high = trial.policy.support
    ends = min(high, FORTUNE), max(low, -FORTUNE)
    return lambda agent: ends[agent % 2], lambda agent: ends[1 - agent % 2]
