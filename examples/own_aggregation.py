"""An aggregation of one's own, as machines that send messages and in array form: x = P x + y."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import coopbandits as cb


@dataclass(frozen=True)
class LateConsensus(cb.Aggregation):  # as running consensus, but this round's pull comes last
    name = "late-consensus"
    needs = frozenset({"num_agents"})

    def make(self, view: cb.LocalView, registers: cb.Registers) -> cb.Machine:
        return LateMachine(view, registers)

    def make_rows(self, views: Any, matrix: Any, registers: cb.Registers) -> cb.AgentRows:
        return LateRows(len(views), matrix, registers)


class LateMachine(cb.Machine):  # one agent; enough by itself for the reference engine
    fields = ("mixed", "new")  # all that is remembered

    def __init__(self, view: cb.LocalView, registers: cb.Registers) -> None:
        self.view, self.registers, self.num_agents = view, registers, float(view.num_agents or 1)
        self.mixed, self.new = registers.zeros(), registers.zeros()

    def estimate(self) -> cb.Estimate:
        totals = self.num_agents * self.mixed
        time = max(1.0, self.registers.version(totals))
        return self.registers.read(totals, time=time, num_agents=self.num_agents)

    def observe(self, arm: int, reward: float) -> None:
        self.registers.add(self.new, arm, reward)

    def outgoing(self, neighbor: int) -> cb.Vector:
        return self.mixed.copy()

    def receive(self, messages: Mapping[int, cb.Vector]) -> None:
        weights = self.view.neighbor_weights
        gained = [weights[j] * (values - self.mixed) for j, values in messages.items()]
        self.mixed = sum(gained, self.mixed) + self.new
        self.new = self.registers.zeros()


class LateRows(cb.AgentRows):  # all agents at once: optional, and far faster
    def __init__(self, num_agents: int, matrix: Any, registers: cb.Registers) -> None:
        self.num_agents, self.matrix, self.registers = num_agents, matrix, registers
        self.mixed = np.zeros((num_agents, registers.size))

    def estimate(self) -> cb.RowEstimates:
        totals = self.num_agents * self.mixed
        time = np.maximum(1.0, self.registers.version(totals))
        return cb.RowEstimates(totals, time, self.num_agents)

    def exchange(self, pulls: cb.Vector) -> None:
        self.mixed = self.matrix @ self.mixed + pulls


cb.register_aggregation(LateConsensus.name, LateConsensus)
late = cb.combine(LateConsensus(), cb.UCB())
cb.check_policy(late)
problem, network = cb.GaussianBandit([1.0, 0.8, 0.8]), cb.Network.from_spec("cycle:50")
policies = [late, cb.combine(cb.RunningConsensus(), cb.UCB()), cb.DDUCB()]
print(cb.simulate(problem, network, policies, horizon=2000, runs=5).summary())
