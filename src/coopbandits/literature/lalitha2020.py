"""Dec-TS and Dec-BayesUCB: posteriors on a running consensus.

Lalitha and Goldsmith, "Bayesian algorithms for decentralized stochastic bandits", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coopbandits.core.aggregate import RunningConsensus
from coopbandits.core.index import BayesUCB
from coopbandits.core.policies.baselines import draw_index
from coopbandits.core.policy import Parts, Policy
from coopbandits.core.spelling import AUTO


@dataclass(frozen=True)
class DecTS(Policy):
    r"""Dec-TS (Lalitha, Goldsmith 2020): a running consensus × a posterior draw.

    Gaussian: prior N(0, 1), a pull adds N/σ² to the precision τ and N u/σ² to h, both are mixed,
    and the arm with the largest draw from N(h/τ, 1/τ) is played. Bernoulli: prior Beta(1, 1), a
    pull adds N u and N(1 − u), both mixed.

    Parameters
    ----------
    family : {"auto", "gaussian", "bernoulli"}
        The rewards' family; "bernoulli" accepts any rewards in [0, 1]. "auto" is "bernoulli" where
        rewards are known to lie in [0, 1], else "gaussian".
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.

    Notes
    -----
    Knows its row of P, N and, for Gaussian rewards, σ. Sends 2K values to each neighbour in every
    round. No initial rounds: the first draw is from the prior.

    *Differs from the paper*: what travels are sums and counts, to which the prior is added when a
    draw is made; that is the same, since mixing keeps the prior, which is equal everywhere.
    """

    family: str = AUTO
    discount: float = 1.0
    name: ClassVar[str] = "dec-ts"

    @property
    def parts(self) -> Parts:
        return Parts(RunningConsensus(self.discount), draw_index(self.family))


@dataclass(frozen=True)
class DecBayesUCB(Policy):
    """Dec-BayesUCB: Dec-TS with a quantile of the posterior instead of a draw.

    Parameters
    ----------
    family : {"auto", "gaussian", "bernoulli"}
        The rewards' family, as in `DecTS`.
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.

    Notes
    -----
    Knows its row of P, N and, for Gaussian rewards, σ. Sends 2K values to each neighbour in every
    round.

    *Differs from the paper* (Lalitha, Goldsmith 2020): the level is 1 − 1/(t + 1), t the rounds
    completed, where the paper leaves its constants open.
    """

    family: str = AUTO
    discount: float = 1.0
    name: ClassVar[str] = "dec-bayes-ucb"

    @property
    def parts(self) -> Parts:
        return Parts(RunningConsensus(self.discount), BayesUCB(self.family))
