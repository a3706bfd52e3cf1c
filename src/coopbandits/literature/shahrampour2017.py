r"""Agents with different rewards play what most vote for (Shahrampour, Rakhlin, Jadbabaie 2017).

Reconstruction, from the abstract, of "Multi-armed bandits in multi-agent networks", ICASSP 2017.

**Model.** Agent i's rewards of arm k have a mean :math:`\mu_{ik}` of its own. The network plays one
arm per round, the *network action* a(t), and every agent earns its own reward of it. The best
global arm maximises :math:`\bar\mu_k = \frac1N\sum_i \mu_{ik}`. Regret is
:math:`\sum_t (\mu_{i,k^*} - \mu_{i,a(t)})` of agent i; added up over agents it is N times the
paper's network regret. An agent's own regret can be negative.

**Algorithm.** All agents know how often each arm was played, :math:`n_k`, but see their own rewards
only. They run a consensus on reward sums and vote:

1. :math:`s_{ik} \leftarrow \sum_j P_{ij}(s_{jk} + r_j 1\{a(t) = k\})`;
2. agent i votes for the arm with the largest

   .. math:: \frac{s_{ik}}{n_k} + \frac{b + \sqrt{2\ln t\,(n_k/N + v)}}{n_k}

3. the arm with most votes is played, the lowest one of equals.

The confidence bound depends on the network by λ, the second largest eigenvalue of P in absolute
value. A reward that is s rounds old has reached agent i with weights
:math:`w = (P^s)_i`, :math:`\|w - 1/N\|_2 \le λ^s`, so :math:`s_{ik}/n_k` has

* a bias of at most :math:`b/n_k` with
  :math:`b = \sum_{s \ge 1} \min(1, \tfrac12\sqrt N λ^s)`, and
* by Hoeffding's inequality a deviation below :math:`\sqrt{2\ln t\,(n_k/N + v)}/n_k` with
  probability :math:`1 - t^{-4}`, where :math:`v = \frac{N-1}{N}\frac{λ^2}{1-λ^2}` bounds what
  unequal weights add to :math:`\sum w^2`.

On a complete graph with weights 1/N both vanish, and the rule is UCB1 with N rewards per pull.

**Guarantee** (the abstract's): regret grows logarithmically with T and inversely with the spectral
gap 1 − λ; on a complete graph it is that of one player divided by N.

**Differs from the paper.** The text was not available: consensus, confidence bound and ties are
derived here. Only the abstract's claims are the paper's.

**Oracles.** UCB1 in a plain loop on the complete graph; exact bias and variance by powers of P.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from coopbandits.core.choice import best_arms
from coopbandits.core.errors import InputError
from coopbandits.literature.models import (
    Dice,
    Floats,
    Lines,
    Model,
    Outcome,
    Played,
    read_table,
    require_sizes,
    vary,
)
from coopbandits.network import Network


class Confidence(NamedTuple):
    """What the network adds to an agent's uncertainty: b and v above."""

    bias: float
    variance: float


def confidence(agents: int, lambda2: float) -> Confidence:
    """Return b and v for N agents on a network with the given λ."""
    if lambda2 == 0.0:
        return Confidence(0.0, 0.0)
    start = 0.5 * math.sqrt(agents)
    # The first terms are capped at 1; the rest is a geometric series.
    capped = max(0, math.floor(math.log(start) / -math.log(lambda2)))
    tail = start * lambda2 ** (capped + 1) / (1.0 - lambda2)
    return Confidence(capped + tail, (1.0 - 1.0 / agents) * lambda2**2 / (1.0 - lambda2**2))


def majority_vote(
    means: ArrayLike,
    network: Network,
    horizon: int,
    runs: int = 1,
    seed: int = 0,
) -> Outcome:
    """Play the arm that most agents vote for, by consensus on their own rewards.

    Parameters
    ----------
    means : (agent, arm)
        The probability of each agent's reward of each arm to be 1.
    network : Network
        Who exchanges sums with whom, with the weights P. Votes reach all agents.
    horizon, runs, seed : int
        As in `simulate`.

    Examples
    --------
    >>> import coopbandits as cb
    >>> from coopbandits.literature import majority_vote
    >>> table = [[0.9, 0.2, 0.6], [0.1, 0.8, 0.6], [0.2, 0.2, 0.6]]
    >>> result = majority_vote(table, cb.Network.from_spec("complete:3"), horizon=3000)
    >>> bool(result.regret[0] < 3000 * 0.2)  # arm 2 is nobody's favourite but the best on average
    True
    """
    chances = read_table(means)
    require_sizes(horizon=horizon, runs=runs, seed=seed)
    agents = network.num_agents
    if len(chances) != agents:
        raise InputError(
            f"means have {len(chances)} rows and the network has {agents} agents; give one row "
            "per agent"
        )
    pulls = np.array([_play(chances, network, horizon, Dice(seed, run)) for run in range(runs)])
    best = int(chances.mean(axis=0).argmax())
    regret = pulls @ (chances[:, [best]] - chances).T
    links, votes = 2 * network.num_edges, agents * (agents - 1)
    rounds = np.full(runs, horizon)
    return Outcome(rounds * (links + votes), rounds * (links * chances.shape[1] + votes), regret)


def _play(chances: Floats, network: Network, horizon: int, dice: Dice) -> Floats:
    """Return how often each arm was the network action."""
    agents, arms = chances.shape
    bias, variance = confidence(agents, network.lambda2)
    sums, counts = np.zeros((agents, arms)), np.zeros(arms)
    for t in range(1, horizon + 1):
        arm = t - 1  # every arm once, to begin with
        if t > arms:
            width = np.sqrt(2.0 * math.log(t) * (counts / agents + variance))
            votes = best_arms((sums + bias + width) / counts)
            arm = int(np.bincount(votes, minlength=arms).argmax())
        sums[:, arm] += dice.uniforms(agents) < chances[:, arm]
        sums = network.matrix @ sums
        counts[arm] += 1.0
    return counts


@dataclass(frozen=True)
class MajorityVote(Model):
    """All play the arm with most votes (Shahrampour et al. 2017, reconstruction).

    The agents are on a cycle; `spread` is how far their means are from the ones given.
    """

    spread: float = 0.1
    name: ClassVar[str] = "majority-vote"

    def play(self, played: Played) -> Lines:
        means, agents, horizon, runs, seed = played
        network = Network.from_spec(f"cycle:{agents}")
        table = vary(means, agents, self.spread)
        return majority_vote(table, network, horizon, runs, seed).lines
