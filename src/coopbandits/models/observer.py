"""One observer: a single agent sees rewards, the others only what their neighbours believe.

The model of Kar, Poor and Cui (2011). The observer plays UCB on its own pulls; all others average
their neighbours' beliefs, a mean per arm, and play the arm that seems best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from coopbandits.core.choice import best_arm
from coopbandits.core.errors import InputError
from coopbandits.models.coins import Dice, Floats, read_means, require_sizes
from coopbandits.models.outcome import Outcome
from coopbandits.network import Network


def one_observer(
    means: Sequence[float],
    network: Network,
    horizon: int,
    observer: int = 0,
    runs: int = 1,
    seed: int = 0,
) -> Outcome:
    r"""Let one agent learn, and the others follow by consensus.

    In every round :math:`x_i \leftarrow \sum_j P_{ij} x_j` for all but the observer, whose x are
    its own means. So beliefs are means of the observer, some rounds old, and mixed.

    Parameters
    ----------
    means : sequence of float
        The chance of each arm to pay 1.
    network : Network
        Who hears whom, with the weights P.
    horizon, runs, seed : int
        As in `simulate`.
    observer : int
        Who sees rewards.
    """
    chances = read_means(means)
    require_sizes(horizon=horizon, runs=runs, seed=seed)
    if observer not in range(network.num_agents):
        raise InputError(
            f"observer is {observer!r}; agents are numbered 0 to {network.num_agents - 1}"
        )
    pulls = [_play(chances, network, horizon, observer, Dice(seed, run)) for run in range(runs)]
    heard = 2 * network.num_edges - int(network.degrees[observer])  # the observer hears nobody
    messages = np.full(runs, horizon * heard)
    return Outcome(messages, chances.size * messages, np.array(pulls) @ (chances.max() - chances))


def _play(chances: Floats, network: Network, horizon: int, observer: int, dice: Dice) -> Floats:
    """Return how often each agent pulled each arm."""
    beliefs = np.zeros((network.num_agents, chances.size))
    sums, counts = np.zeros(chances.size), np.zeros(chances.size)
    pulls = np.zeros_like(beliefs)
    for t in range(1, horizon + 1):
        arms = [best_arm(row) for row in beliefs.tolist()]
        log = math.log(t)
        values = [
            s / n + math.sqrt(log / (2.0 * n)) if n > 0.0 else math.inf
            for s, n in zip(sums.tolist(), counts.tolist(), strict=True)
        ]
        arms[observer] = best_arm(values)
        pulls[np.arange(network.num_agents), arms] += 1.0
        sums[arms[observer]] += float(dice.uniform() < chances[arms[observer]])
        counts[arms[observer]] += 1.0
        beliefs = network.matrix @ beliefs
        beliefs[observer] = sums / np.maximum(1.0, counts)
    return pulls
