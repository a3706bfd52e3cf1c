"""Learners of mabwiser and river as baselines, beside agents that cooperate."""

import coopbandits as cb
from coopbandits.adapters import MABWiser, River

policies = [
    cb.DDUCB(),
    MABWiser("UCB1", alpha=1.0),
    River("EpsilonGreedy", epsilon=0.1, burn_in=1),
]
problem, network = cb.BernoulliBandit([0.6, 0.5, 0.4]), cb.Network.from_spec("cycle:6")
print(cb.simulate(problem, network, policies, horizon=300, runs=5).summary())
