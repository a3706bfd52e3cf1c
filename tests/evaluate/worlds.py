"""A world whose values are known exactly: few contexts, linear rewards."""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits import LinearBandit
from coopbandits.evaluate import DecisionLog

CONTEXTS = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0], [1.0, 0.5]])
THETA = np.array([[0.4, 0.5], [0.5, -0.3], [0.2, 0.0]])
PROBLEM = LinearBandit(THETA, features=CONTEXTS, sigma=0.3)
MEANS = CONTEXTS @ THETA.T  # context by arm
BEST = float(MEANS.max(axis=1).mean())


def best_arm(features: Any) -> Any:
    """Return the chances of the best policy there is."""
    return np.eye(3)[np.argmax(features[:, 0] @ THETA.T, axis=1)]


def drawn(count: int, chances: Any, seed: int = 0, curved: float = 0.0) -> DecisionLog:
    """Return a log of arms drawn with these chances; `curved` makes rewards no longer linear."""
    source = np.random.default_rng(seed)  # noqa: TID251  not a tape
    at = source.integers(len(CONTEXTS), size=count)
    arms = source.choice(3, size=count, p=chances)
    rewards = MEANS[at, arms] + curved * (at == 1) * (arms == 2) + 0.3 * source.normal(size=count)
    return DecisionLog(
        features=CONTEXTS[at][:, None, :],
        arms=arms,
        rewards=rewards,
        propensities=np.asarray(chances)[arms],
        allowed=np.ones((count, 3), dtype=bool),
        times=np.arange(count),
        agents=np.zeros(count, dtype=np.int64),
    )
