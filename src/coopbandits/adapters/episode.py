"""One run of a simulation that somebody else plays, round by round, on the same tapes."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.problems import Problem, World, parse_problem
from coopbandits.sim.setup import Setup, recorded_rounds
from coopbandits.sim.tapes import REWARDS, agent_keys, arm_order, tape_words, variates

CHUNK = 256
"""Rounds for which the tape is made in one go."""


def read_setup(
    problem: Problem | str, network: Network | str, horizon: int, *, shuffle_arms: bool
) -> Setup:
    """Return what all episodes of an environment share; problem and network may be spelled."""
    if isinstance(problem, World):
        raise InputError(f"an environment takes a plain problem, not a world; got {problem!r}")
    if isinstance(problem, str):
        problem = parse_problem(problem)
    if getattr(problem, "num_features", 0):  # what is no problem at all, `Setup` refuses
        raise InputError(
            f"an environment tells agents no features, and rewards of {problem!r} depend on them; "
            "give a problem without, such as cb.GaussianBandit([1, 0])"
        )
    return Setup(
        problem,
        Network.from_spec(network) if isinstance(network, str) else network,
        horizon,
        recorded_rounds(horizon, [horizon]),
        shuffle_arms=shuffle_arms,
    )


class Episode:
    """What the agents of one run have pulled so far, and what they were paid.

    Attributes
    ----------
    setup, run : Setup, int
        The world with its seed, and the number of the run; `simulate` plays the same rewards.
    round : int
        Rounds played.
    arms, rewards : arrays of shape (N,)
        The last pull of every agent and its reward; arm K and 0 before the first.
    counts, sums : arrays of shape (N, K)
        Pulls and reward sum of every agent, per arm.
    regret : array of shape (N,)
        Pseudo-regret of every agent so far.
    """

    def __init__(self, setup: Setup, run: int) -> None:
        agents, arms = setup.network.num_agents, setup.problem.num_arms
        self.setup, self.run, self.round = setup, run, 0
        self.arms = np.full(agents, arms, dtype=np.int64)
        self.rewards = np.zeros(agents)
        self.counts = np.zeros((agents, arms), dtype=np.int64)
        self.sums = np.zeros((agents, arms))
        self.regret = np.zeros(agents)
        self._order = arm_order(setup.seed, run, arms) if setup.shuffle_arms else np.arange(arms)
        self._keys = agent_keys(setup.seed, REWARDS, run, agents)
        self._tape = np.zeros((agents, 0))

    @property
    def over(self) -> bool:
        """Whether the horizon has been reached."""
        return self.round == self.setup.horizon

    def pull(self, arms: NDArray[np.int64]) -> Vector:
        """Let every agent pull once; return the rewards."""
        problem, at = self.setup.problem, self.round % CHUNK
        if at == 0:
            rounds = min(CHUNK, self.setup.horizon - self.round)
            self._tape = variates(problem.variate, tape_words(self._keys, self.round, rounds))
        played = self._order[arms]
        self.arms, self.rewards = arms, problem.rewards(played, self._tape[:, at])
        everyone = np.arange(arms.size)
        self.counts[everyone, arms] += 1
        self.sums[everyone, arms] += self.rewards
        self.regret += problem.gaps[played]
        self.round += 1
        return self.rewards

    def info(self, agent: int) -> dict[str, Any]:
        """Return what is told beside an observation, for those who measure rather than learn."""
        return {
            "regret": float(self.regret[agent]),
            "network_regret": float(self.regret.sum()),
            "seed": self.setup.seed,
            "run": self.run,
        }


def next_episode(setup: Setup, last: Episode | None, seed: int | None) -> Episode:
    """Return the episode that a reset begins: run 0 of a new seed, or the run after the last one.

    Without any seed one is drawn, as users of Gymnasium expect; `Episode.info` tells it.
    """
    if seed is None and last is not None:
        return Episode(last.setup, last.run + 1)
    return Episode(replace(setup, seed=secrets.randbits(32) if seed is None else seed), 0)


def running(episode: Episode | None) -> Episode:
    """Return an episode that can go on, or refuse."""
    if episode is None or episode.over:
        state = "has not begun" if episode is None else f"is over after {episode.round} rounds"
        raise InputError(f"the episode {state}; call reset() before step()")
    return episode
