"""One agent of a network as a Gymnasium environment; the others play a policy of this package."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from coopbandits.adapters.episode import Episode, next_episode, read_setup, running
from coopbandits.adapters.extra import not_installed
from coopbandits.adapters.observation import Observation, members, observation_spaces, observe
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.policy import Policy
from coopbandits.core.registry import parse_policy
from coopbandits.network import Network
from coopbandits.problems import Problem
from coopbandits.sim.record import Task
from coopbandits.sim.reference import Agents
from coopbandits.sim.tapes import DECISIONS, agent_keys, tape_words

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise not_installed(error, "rl") from error

ENV_ID = "coopbandits/Bandit-v0"


class SingleBanditEnv(gymnasium.Env[Any, Any]):
    """One agent chooses by itself; all others play a policy and gossip.

    The place of the learner is taken by an agent of the same policy, which is told of the learner's
    pulls and gossips about them; only its choices are not asked for. So a learner that plays the
    arms of the policy makes the whole network play as `simulate` does, on the same tapes. It sees
    what an agent of `ParallelBanditEnv` sees, and seeds and infos are the same, too.

    Parameters
    ----------
    problem : Problem or str
        The arms, or their spelling such as ``"bernoulli:0.4,0.6"``.
    network : Network, str or None
        The network, or its spelling such as ``"cycle:8"``; the learner is alone unless given.
    horizon : int
        T, rounds, after which an episode is truncated.
    agent : label, optional
        The learner's label in the network; the first unless given.
    others : Policy or str
        What all others play, such as ``cb.DDUCB()`` or ``"dducb"``.
    shuffle_arms : bool
        Shuffle the arms in every run, so that the number of the best arm is not worth learning.
    """

    def __init__(
        self,
        problem: Problem | str,
        network: Network | str | None = None,
        horizon: int = 1000,
        *,
        agent: Any = None,
        others: Policy | str = "dducb",
        shuffle_arms: bool = False,
    ) -> None:
        alone = Network(np.zeros((1, 1)))
        self._setup = read_setup(
            problem, alone if network is None else network, horizon, shuffle_arms=shuffle_arms
        )
        self._policy: Any = parse_policy(others) if isinstance(others, str) else others
        if getattr(self._policy, "central", True):
            raise InputError(
                f"others is {others!r}; give a policy that every agent plays by itself, such as "
                "cb.DDUCB()"
            )
        labels = self._setup.network.labels
        if agent is not None and agent not in labels:
            raise unknown_name("agent", str(agent), map(str, labels))
        self._place = 0 if agent is None else labels.index(agent)
        self._rows = members(self._setup, self._place)
        self._episode: Episode | None = None
        self.observation_space = spaces.Dict(observation_spaces(self._setup, self._place))
        self.action_space = spaces.Discrete(self._setup.problem.num_arms)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin run 0 of a seed, or without one the run after the last; there are no options."""
        del options  # an environment must accept any
        super().reset(seed=seed)
        episode = next_episode(self._setup, self._episode, seed)
        self._episode = episode
        task = Task(episode.setup, self._policy)
        self._players = Agents(task, cast("Policy", task.policy), episode.run)
        agents = episode.setup.network.num_agents
        self._keys = agent_keys(episode.setup.seed, DECISIONS, episode.run, agents)
        return observe(episode, self._rows), episode.info(self._place)

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Pull an arm, while all others pull theirs."""
        episode = running(self._episode)
        if action not in self.action_space:
            last = self._setup.problem.num_arms - 1
            raise InputError(f"action is {action}; it must be a whole number from 0 to {last}")
        arms = self._choices(episode.round, int(action))
        rewards = episode.pull(arms).tolist()
        for player, arm, reward in zip(self._players.agents, arms.tolist(), rewards, strict=True):
            player.observe(arm, reward)
        self._players.end_round([0] * len(self._players.mail.links))  # 0: nothing is late
        info = episode.info(self._place)
        return observe(episode, self._rows), rewards[self._place], False, episode.over, info

    def _choices(self, round_number: int, action: int) -> NDArray[np.int64]:
        """Return the arms of all agents, the learner's among them."""
        words = tape_words(self._keys, round_number, 1)[:, 0].tolist()
        return np.array(
            [
                action if i == self._place else player.choose(words[i])
                for i, player in enumerate(self._players.agents)
            ],
            dtype=np.int64,
        )


gymnasium.register(ENV_ID, entry_point=f"{__name__}:{SingleBanditEnv.__name__}")
