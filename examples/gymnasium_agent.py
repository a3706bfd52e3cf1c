"""One agent learns by itself among neighbours that cooperate: is it worth watching them?"""

import gymnasium
import numpy as np

from coopbandits.adapters.gymnasium import ENV_ID

EPISODES, EPSILON = 8, 0.05
env = gymnasium.make(
    ENV_ID, problem="bernoulli:0.6,0.5,0.4", network="star:8", horizon=300, shuffle_arms=True
)


def mean_regret(rows: slice) -> float:
    """Play ε-greedy on some rows of what is seen: row 0 is the agent, the others its neighbours."""
    regrets = []
    env.action_space.seed(0)
    for episode in range(EPISODES):
        seen, info = env.reset(seed=1 if episode == 0 else None)  # then the next run
        draws = np.random.default_rng([info["seed"], info["run"]])  # noqa: TID251  an application
        over = False
        while not over:
            counts, sums = seen["counts"][rows].sum(axis=0), seen["sums"][rows].sum(axis=0)
            best = np.argmax(sums / np.maximum(counts, 1)) if counts.all() else counts.argmin()
            explore = draws.random() < EPSILON
            action = env.action_space.sample() if explore else best
            seen, _reward, _ended, over, info = env.step(action)
        regrets.append(info["regret"])
    return float(np.mean(regrets))


print(f"regret by own pulls:              {mean_regret(slice(0, 1)):.1f}")
print(f"regret by those of neighbours too: {mean_regret(slice(None)):.1f}")
