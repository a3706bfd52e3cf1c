"""Policies without communication, to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coopbandits.core.aggregate import LocalSums
from coopbandits.core.index import UCB, BetaDraw, Index, NormalDraw, require_family
from coopbandits.core.policy import Parts, Policy
from coopbandits.core.spelling import AUTO


@dataclass(frozen=True)
class IndependentUCB(Policy):
    r"""N separate UCBs that never talk: the price of not cooperating.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln t / n_k}` of the agent's own
    t pulls, after every arm has been pulled once.

    Parameters
    ----------
    constant : float
        B.
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.
    window : int or None
        How many rounds a pull counts; None for ever.

    Notes
    -----
    Knows nothing of the network and sends nothing. *Differs from the paper* (Auer, Cesa-Bianchi,
    Fischer 2002, where B σ² = 2 for rewards in [0, 1]): the constant is a parameter.
    """

    constant: float = 2.0
    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "independent-ucb"

    @property
    def parts(self) -> Parts:
        """Own sums × UCB."""
        return Parts(LocalSums(self.discount, self.window), UCB(self.constant))


@dataclass(frozen=True)
class IndependentTS(Policy):
    """N separate Thompson samplers that never talk.

    Parameters
    ----------
    family : {"auto", "gaussian", "bernoulli"}
        The rewards' family; "bernoulli" accepts any rewards in [0, 1]. "auto" is "bernoulli" where
        rewards are known to lie in [0, 1], else "gaussian".
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.
    window : int or None
        How many rounds a pull counts; None for ever.

    Notes
    -----
    Knows nothing of the network and sends nothing. *Differs from the paper* (Thompson 1933):
    nothing known.
    """

    family: str = AUTO
    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "independent-ts"

    @property
    def parts(self) -> Parts:
        """Own sums × a posterior draw."""
        return Parts(LocalSums(self.discount, self.window), draw_index(self.family))


def draw_index(family: str) -> Index:
    """Return the posterior draw for a family of rewards."""
    require_family(family)
    return BetaDraw() if family == "bernoulli" else NormalDraw()
