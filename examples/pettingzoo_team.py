"""A team written for PettingZoo, and a policy of this package on the very same rewards.

The team plays what its observations tell: UCB on the pulls of an agent and its neighbours. That is
what `cb.UCBNetwork` does with messages, so both lose the same.
"""

import numpy as np

import coopbandits as cb
from coopbandits.adapters import ParallelBanditEnv

problem, network = cb.BernoulliBandit([0.6, 0.5, 0.4]), cb.Network.from_spec("cycle:8")
env = ParallelBanditEnv(problem, network, horizon=500)


def ucb(seen: dict[str, np.ndarray], rounds: int) -> int:
    counts, sums = seen["counts"].sum(axis=0), seen["sums"].sum(axis=0)
    if not counts.all():
        return int(counts.argmin())  # an arm that nobody near has pulled
    bonus = np.sqrt(4 * problem.sigma**2 * np.log(max(rounds, 2)) / counts)
    return int(np.argmax(sums / counts + bonus))


regrets = []
for episode in range(3):
    observations, infos = env.reset(seed=7 if episode == 0 else None)  # then the next run
    for rounds in range(500):
        actions = {agent: ucb(observations[agent], rounds) for agent in env.agents}
        observations, rewards, terminations, truncations, infos = env.step(actions)
    regrets.append(infos["0"]["network_regret"])

result = cb.simulate(problem, network, cb.UCBNetwork(), horizon=500, runs=3, seed=7)
print("regret of the team:  ", *(f"{regret:.1f}" for regret in regrets))
print("regret of ucb-network:", *(f"{regret:.1f}" for regret in result.regret[0, :, -1].values))
