"""Policies without a kernel: what somebody else might write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coopbandits.core import Agent, LocalView, Policy, Vector
from coopbandits.core.contract import State
from coopbandits.core.registry import register_policy


class FixedAgent(Agent):
    """Always plays one arm; keeps the words it was handed."""

    def __init__(self, view: LocalView, arm: int) -> None:
        super().__init__(view)
        self.arm = arm
        self.words: list[int] = []

    def choose(self, word: int, allowed: Sequence[int] | None = None) -> int:
        self.words.append(word)
        return self.arm

    def observe(self, arm: int, reward: float) -> None:
        pass

    def outgoing(self, neighbor: int) -> Vector | None:
        return None

    def receive(self, messages: Mapping[int, Vector]) -> None:
        pass

    def export_state(self) -> State:
        return {}

    def restore_state(self, state: State) -> None:
        pass


@dataclass(frozen=True)
class Fixed(Policy):
    """Everybody always plays `arm`."""

    arm: int = 0
    name: ClassVar[str] = "fixed"

    def make_agent(self, view: LocalView) -> Agent:
        return FixedAgent(view, self.arm)


class UpwardAgent(FixedAgent):
    """Sends three values to neighbours with a higher number, and checks what arrives."""

    def outgoing(self, neighbor: int) -> Vector | None:
        return np.full(3, float(self.view.agent_id)) if neighbor > self.view.agent_id else None

    def receive(self, messages: Mapping[int, Vector]) -> None:
        lower = [j for j in self.view.neighbor_weights if j < self.view.agent_id]
        assert sorted(messages) == lower
        assert all((messages[j] == j).all() for j in lower)


class Recording(Policy):
    """Keeps its agents for inspection, in the order they were made."""

    name = "recording"

    def __init__(self, make: type[FixedAgent] = FixedAgent) -> None:
        self.make = make
        self.agents: list[FixedAgent] = []

    def make_agent(self, view: LocalView) -> Agent:
        agent = self.make(view, 0)
        self.agents.append(agent)
        return agent


class Interrupted(FixedAgent):
    """Somebody presses Ctrl-C while this agent chooses."""

    def choose(self, word: int, allowed: Sequence[int] | None = None) -> int:
        raise KeyboardInterrupt


class InterruptedAt(Policy):
    """Interrupted in one run: agents are made anew in every run."""

    name = "interrupted"

    def __init__(self, run: int, num_agents: int) -> None:
        self.run, self.num_agents, self.made = run, num_agents, 0

    def make_agent(self, view: LocalView) -> Agent:
        self.made += 1
        now = (self.made - 1) // self.num_agents == self.run
        return Interrupted(view, 0) if now else FixedAgent(view, 0)


for policy in (Fixed, Recording, InterruptedAt):
    register_policy(policy.name, policy)
