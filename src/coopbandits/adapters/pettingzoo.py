"""Any problem × network as a PettingZoo environment, on the tapes of `simulate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coopbandits.adapters.episode import Episode, next_episode, read_setup, running
from coopbandits.adapters.extra import not_installed
from coopbandits.adapters.observation import (
    Observation,
    members,
    observation_spaces,
    observe,
    reward_range,
)
from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.network import Network
from coopbandits.problems import Problem
from coopbandits.sim.labels import agent_names

try:
    from gymnasium import spaces
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise not_installed(error, "rl") from error

Step = tuple[
    dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]
]


class ParallelBanditEnv(ParallelEnv[str, Observation, Any]):
    """Agents on a graph who pull at the same time and see what their neighbours pulled.

    An agent sees the last arms and rewards of itself and of its neighbours, and what they have
    pulled so far: `counts` and `sums` per arm. The first row is its own, the others are those of
    `neighbors(agent)`. Before the first pull its arm is K, the number of arms. Its reward is that
    of its own pull. The episode is truncated after `horizon` rounds.

    ``reset(seed=7)`` begins run 0 of seed 7, every further ``reset()`` the next run. Rewards are
    those of ``simulate(problem, network, …, seed=7)`` in the same run. Without any seed one is
    drawn; infos tell seed and run, and the regret of the agent and of the whole network so far.

    Parameters
    ----------
    problem, network : Problem or str, Network or str
        The world, or its spelling such as ``"bernoulli:0.4,0.6"`` and ``"cycle:8"``.
    horizon : int
        T, rounds.
    shuffle_arms : bool
        Shuffle the arms in every run, as in `simulate`. Without it learners that are trained over
        many episodes learn the number of the best arm, and not how to find it.
    message_size : int
        Length of a message that agents send along with an arm; 0 for none. An action is then a dict
        of ``arm`` and ``message``, and observations have ``messages``, those of the last round.

    Attributes
    ----------
    agents, possible_agents : list of str
        The names of agents: their labels in the network, as text.
    state_space : gymnasium.spaces.Box
        Of `state`, for learners that are trained centrally: counts and sums of all agents.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "coopbandits_v0", "render_modes": []}
    render_mode = None

    def __init__(
        self,
        problem: Problem | str,
        network: Network | str,
        horizon: int = 1000,
        *,
        shuffle_arms: bool = False,
        message_size: int = 0,
    ) -> None:
        self._setup = read_setup(problem, network, horizon, shuffle_arms=shuffle_arms)
        require_count("message_size", message_size, 0)
        world, arms = self._setup, self._setup.problem.num_arms
        self.possible_agents = [str(name) for name in agent_names(world.network.labels)]
        self.agents: list[str] = []
        self._episode: Episode | None = None
        self._rows = [members(world, i) for i in range(world.network.num_agents)]
        self._messages = np.zeros((len(self._rows), message_size), dtype=np.float32)
        self.observation_spaces = {}
        self.action_spaces = {}
        for i, name in enumerate(self.possible_agents):
            seen, arm = observation_spaces(world, i), spaces.Discrete(arms)
            if message_size:
                seen["messages"] = spaces.Box(-1.0, 1.0, (len(self._rows[i]), message_size))
                message = spaces.Box(-1.0, 1.0, (message_size,))
            self.observation_spaces[name] = spaces.Dict(seen)
            self.action_spaces[name] = (
                spaces.Dict({"arm": arm, "message": message}) if message_size else arm
            )
        low, high = (bound * world.horizon for bound in reward_range(world))
        shape = (2, len(self._rows), arms)
        self.state_space = spaces.Box(min(low, 0.0), max(high, world.horizon), shape, np.float64)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return what an agent sees, as a space."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return what an agent can do, as a space."""
        return self.action_spaces[agent]

    def neighbors(self, agent: str) -> list[str]:
        """Return the names of an agent's neighbours, in the order of its observations' rows."""
        if agent not in self.possible_agents:
            raise unknown_name("agent", str(agent), self.possible_agents)
        _, *others = self._rows[self.possible_agents.index(agent)]
        return [self.possible_agents[j] for j in others]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, Any]]:
        """Begin run 0 of a seed, or without one the run after the last; there are no options."""
        del options  # an environment must accept any
        self._episode = next_episode(self._setup, self._episode, seed)
        self._messages = np.zeros_like(self._messages)
        self.agents = self.possible_agents[:]
        return self._observations(self._episode), self._infos(self._episode)

    def step(self, actions: dict[str, Any]) -> Step:
        """Let every agent pull once."""
        episode = running(self._episode)
        self._check(actions)
        named = [actions[name] for name in self.possible_agents]
        if self._messages.size:
            self._messages = np.array([action["message"] for action in named], dtype=np.float32)
            named = [action["arm"] for action in named]
        rewards = episode.pull(np.array(named, dtype=np.int64))
        names = self.possible_agents
        if episode.over:
            self.agents = []
        return (
            self._observations(episode),
            dict(zip(names, rewards.tolist(), strict=True)),
            dict.fromkeys(names, False),
            dict.fromkeys(names, episode.over),
            self._infos(episode),
        )

    def state(self) -> NDArray[np.float64]:
        """Return counts and sums of all agents, for training in one place."""
        if self._episode is None:
            raise InputError("the episode has not begun; call reset() before state()")
        return np.stack([self._episode.counts, self._episode.sums])

    def _check(self, actions: Mapping[str, Any]) -> None:
        """Refuse actions of other agents than those that play, and impossible ones."""
        if set(actions) != set(self.possible_agents):
            wrong = sorted(map(str, set(actions) ^ set(self.possible_agents)))
            raise InputError(
                f"actions must name every agent once, {wrong[0]!r} is missing or unknown; agents "
                f"are {', '.join(self.possible_agents)}"
            )
        for name, action in actions.items():
            space = self.action_spaces[name]
            if action not in space:
                raise InputError(f"action of agent {name!r} is {action}; it must lie in {space}")

    def _observations(self, episode: Episode) -> dict[str, Observation]:
        found = {
            name: observe(episode, rows)
            for name, rows in zip(self.possible_agents, self._rows, strict=True)
        }
        if self._messages.size:
            for name, rows in zip(self.possible_agents, self._rows, strict=True):
                found[name]["messages"] = self._messages[rows]
        return found

    def _infos(self, episode: Episode) -> dict[str, Any]:
        return {name: episode.info(i) for i, name in enumerate(self.possible_agents)}
