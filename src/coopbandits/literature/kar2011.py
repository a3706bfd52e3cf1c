r"""One observer: a single agent sees rewards, the others only what their neighbours believe.

Kar, Poor and Cui, "Bandit problems in networks: asymptotically efficient distributed allocation
rules", CDC 2011. *Reconstruction*.

**Model.** All agents pull arms, but one alone, the observer, sees rewards. The others exchange
messages with their neighbours.

**Algorithm.** The observer plays UCB on its own pulls. In every round
:math:`x_i \leftarrow \sum_j P_{ij} x_j` for all but the observer, whose x are its own means; they
play the arm that seems best. So beliefs are means of the observer, some rounds old, and mixed.

**Differs from the paper.** The text was not available: UCB and the consensus are ours.

**Oracles.** Followers lose less than the observer, and more the farther away they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coopbandits.core.choice import best_arm
from coopbandits.core.errors import InputError
from coopbandits.literature.models import (
    Dice,
    Floats,
    Lines,
    Model,
    Outcome,
    Played,
    read_means,
    require_sizes,
)
from coopbandits.network import Network


def one_observer(
    means: Sequence[float],
    network: Network,
    horizon: int,
    observer: int = 0,
    runs: int = 1,
    seed: int = 0,
) -> Outcome:
    """Let one agent learn, and the others follow by consensus.

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


@dataclass(frozen=True)
class OneObserver(Model):
    """One agent sees rewards, the others follow by consensus on a cycle (Kar et al. 2011)."""

    observer: int = 0
    name: ClassVar[str] = "one-observer"

    def play(self, played: Played) -> Lines:
        means, agents, horizon, runs, seed = played
        network = Network.from_spec(f"cycle:{agents}")
        return one_observer(means, network, horizon, self.observer, runs, seed).lines
