"""A policy of one's own: UCB on the own rewards and those of the neighbours. A skeleton to copy."""

from collections.abc import Mapping
from functools import partial

import numpy as np

import coopbandits as cb


class Neighborhood(cb.Aggregation):
    fields = ("own", "heard")  # the state; each holds the arms' reward sums, then their counts

    def __init__(self, view: cb.LocalView) -> None:
        self.own, self.heard = np.zeros((2, 2 * view.num_arms))

    def estimate(self) -> cb.Estimate:
        sums, counts = (self.own + self.heard).reshape(2, -1)
        return cb.Estimate(sums, counts, time=max(2.0, counts.sum()), num_agents=1.0)

    def observe(self, arm: int, reward: float) -> None:
        self.own.reshape(2, -1)[:, arm] += reward, 1.0

    def outgoing(self, neighbor: int) -> cb.Vector:
        return self.own.copy()

    def receive(self, messages: Mapping[int, cb.Vector]) -> None:
        self.heard = sum(messages.values(), np.zeros(self.own.size))


class NeighborhoodUCB(cb.Policy):
    name = "neighborhood-ucb"

    def make_agent(self, view: cb.LocalView) -> cb.Agent:
        ucb = partial(cb.ucb_index, scale=4.0 * view.sigma**2)
        return cb.CooperativeAgent(view, Neighborhood(view), ucb, self.spelling)


cb.check_policy(NeighborhoodUCB())
problem, network = cb.GaussianBandit([1.0, 0.8, 0.8]), cb.Network.from_spec("cycle:8")
policies = [cb.IndependentUCB(), NeighborhoodUCB(), cb.DDUCB()]
print(cb.simulate(problem, network, policies, horizon=300, runs=2).summary())
