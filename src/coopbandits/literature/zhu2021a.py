"""Dec_UCB and Dec_KL-UCB: own confidence about means that are tracked together.

Zhu and Liu, "Decentralized multi-armed bandit can outperform classic upper confidence bound", 2021,
2023. What is tracked, and how, is `TrackedMeans`, which `zhu2021b` plays on as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coopbandits.core.aggregate import TrackedMeans
from coopbandits.core.checks import require_positive
from coopbandits.core.index import KLUCB, UCB
from coopbandits.core.policy import Parts, Policy
from coopbandits.core.spelling import AUTO


@dataclass(frozen=True)
class DecUCB(Policy):
    r"""Dec_UCB (Zhu, Liu 2021, 2023), for doubly stochastic weights: tracked means × UCB.

    Plays the arm with the largest :math:`z_k + \sqrt{B σ^2 \ln t/((d + 1) n_k)}`, z the tracked
    means, :math:`n_k` the own pulls, d the number of neighbours, t all own pulls.

    Parameters
    ----------
    constant : float
        B; 12 is the authors' 3 for rewards in [0, 1].

    Notes
    -----
    Knows its row of P. Sends 2K values to each neighbour in every round.

    *Differs from the paper*: of the arms on which it lags behind an agent plays the lowest, not a
    random one. Links work both ways here, so the variant for directed graphs is left out.
    """

    constant: float = 12.0
    name: ClassVar[str] = "dec-ucb"

    @property
    def parts(self) -> Parts:
        return Parts(TrackedMeans(), UCB(self.constant))


@dataclass(frozen=True)
class DecKLUCB(Policy):
    r"""Dec_KL-UCB (Zhu, Liu 2021, 2023): tracked means × KL-UCB.

    Plays the arm with the largest q with :math:`(d + 1) n_k\,d(z_k, q) \le \frac32 (1 + β)(\ln t +
    3 \ln\ln t)`.

    Parameters
    ----------
    family : {"auto", "gaussian", "bernoulli"}
        The rewards' family; "bernoulli" accepts any rewards in [0, 1]. "auto" is "bernoulli" where
        rewards are known to lie in [0, 1], else "gaussian".
    beta : float
        β.

    Notes
    -----
    Knows its row of P. Sends 2K values to each neighbour in every round. *Differs from the paper*
    as `DecUCB` does.
    """

    family: str = AUTO
    beta: float = 0.01
    name: ClassVar[str] = "dec-kl-ucb"

    def __post_init__(self) -> None:
        require_positive("beta", self.beta)
        super().__post_init__()

    @property
    def parts(self) -> Parts:
        credit = 2.0 / (3.0 * (1.0 + self.beta))
        return Parts(TrackedMeans(credit), KLUCB(self.family, c=3.0))
