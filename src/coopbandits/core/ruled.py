"""Agents that are no product of parts: each has a rule of its own for what to play and tell.

A subclass names what it remembers in `fields` and writes four methods: `pick` and `learn` for a
choice and its reward, `tell` and `hear` for messages. All that comes in is checked here first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from coopbandits.core.choice import best_arm
from coopbandits.core.contract import Agent, LocalView, State, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.guards import (
    identity,
    read_arm,
    read_reward,
    require_neighbors,
    require_same_agent,
)
from coopbandits.core.state import Stateful


class RuledAgent(Stateful, Agent):
    """An agent with a rule of its own.

    Parameters
    ----------
    view : LocalView
        What the agent may know.
    policy : str
        The policy's spelling; a state is only restored into an agent of the same policy.
    """

    def __init__(self, view: LocalView, policy: str) -> None:
        super().__init__(view)
        self.policy = policy
        self.places = {j: at for at, j in enumerate(sorted(view.neighbor_weights))}
        self.fields = ("open_pulls", *self.fields)

    @abstractmethod
    def pick(self, word: int, arms: Sequence[int]) -> int:
        """Return one of these arms, in ascending order; changes nothing."""

    @abstractmethod
    def learn(self, arm: int, reward: float) -> None:
        """Take in one reward."""

    @abstractmethod
    def tell(self, neighbor: int) -> Vector | None:
        """Return this round's message to a neighbour, or None; changes nothing."""

    @abstractmethod
    def hear(self, messages: Mapping[int, Vector]) -> None:
        """Take in messages of neighbours, in ascending order, and end the round."""

    def choose(self, word: int, allowed: Sequence[int] | None = None) -> int:
        """Return what the rule picks."""
        arms: Sequence[int] = range(self.view.num_arms)
        if allowed is not None:
            best_arm([0.0] * self.view.num_arms, allowed)  # refuses what cannot be allowed
            arms = sorted(set(allowed))
        arm = self.pick(word, arms)
        self.open_pulls[arm] += 1
        return arm

    def observe(self, arm: Any, reward: Any) -> None:
        """Check a pull and learn from it."""
        arm, reward = read_arm(arm, self.view.num_arms), read_reward(reward)
        self.learn(arm, reward)
        self.open_pulls[arm] = max(0, self.open_pulls[arm] - 1)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return what the rule tells a neighbour."""
        require_neighbors(self.view, [neighbor])
        return self.tell(neighbor)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Hand messages to the rule, in ascending order of neighbours."""
        require_neighbors(self.view, messages)
        self.hear({j: messages[j] for j in sorted(messages)})

    def export_state(self) -> State:
        """Return whose state it is, and the fields."""
        return identity(self.policy, self.view) | super().export_state()

    def restore_state(self, state: State) -> None:
        """Continue from an exported state, or change nothing if it does not fit."""
        own = identity(self.policy, self.view)
        require_same_agent(state, own)
        super().restore_state({key: state[key] for key in state if key not in own})

    def check_state(self, values: State) -> None:
        """Refuse open pulls that cannot be."""
        if (values["open_pulls"] < 0).any():
            raise InputError(
                f"state has open_pulls {values['open_pulls'].tolist()}; they are never negative"
            )
