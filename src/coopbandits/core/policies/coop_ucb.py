"""The policies of Landgren, Srivastava and Leonard: consensus, played with inflated bonuses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from coopbandits.core.aggregate import RunningConsensus
from coopbandits.core.errors import unknown_name
from coopbandits.core.index import UCL, InflatedUCB
from coopbandits.core.index.inflated import EPSILON_C_FORMS
from coopbandits.core.policy import Parts, Policy


@dataclass(frozen=True)
class CoopUCB(Policy):
    r"""coop-UCB (Landgren, Srivastava, Leonard 2016): a running consensus × UCB inflated by ε_c.

    .. math:: \hat s^k/\hat n^k
        + σ \sqrt{2γ \, \frac{\hat n^k + ε_c^i}{N \hat n^k} \, \frac{\ln t}{\hat n^k}}

    Parameters
    ----------
    gamma : float
        γ > 1, exploration.
    epsilon_c : {"closed", "landgren"}
        Which form of ε_c, a number per agent that says how well the graph mixes for it.
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.

    Notes
    -----
    Knows its row of P, N, and its ε_c, which only somebody who sees the whole graph can compute.
    Sends 2K values to each neighbour in every round. Its bound A + B Σ Δ_k, in which A grows as
    Σ_i (1 + ε_c^i)/N · ln(TN), is only proven for a bonus in proportion to sqrt(6 ln(tN)), as
    Martínez-Rubio, Kanade and Rebeschini found; see `coopbandits.theory`.

    *Differs from the paper*: t is the number of rounds completed; ε_c is by default the closed form
    N Σ_{j≥2} λ_j²/(1−λ_j²)(u_j^i)², which does not depend on the choice of eigenvectors.
    """

    gamma: float
    epsilon_c: str = "closed"
    discount: float = 1.0
    name: ClassVar[str] = "coop-ucb"

    def __post_init__(self) -> None:
        """Refuse settings outside what the algorithm is defined for."""
        if self.epsilon_c not in EPSILON_C_FORMS:
            raise unknown_name("form of epsilon_c", str(self.epsilon_c), EPSILON_C_FORMS)
        super().__post_init__()

    @property
    def parts(self) -> Parts:
        """A running consensus × UCB inflated by ε_c."""
        return Parts(RunningConsensus(self.discount), InflatedUCB(self.gamma, self.epsilon_c))

    def with_constant(self, constant: float) -> Self:
        """B = 2γ."""
        return replace(self, gamma=constant / 2)


@dataclass(frozen=True)
class CoopUCB2(Policy):
    """coop-UCB2 (Landgren, Srivastava, Leonard 2016): coop-UCB with f(t) = sqrt(ln t) for ε_c.

    Parameters
    ----------
    gamma : float
        γ > 1, exploration.
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.

    Notes
    -----
    Knows its row of P and N. Sends 2K values to each neighbour in every round.

    *Differs from the paper*: t is the number of rounds completed; f is fixed to sqrt(ln t).
    """

    gamma: float
    discount: float = 1.0
    name: ClassVar[str] = "coop-ucb2"

    @property
    def parts(self) -> Parts:
        """A running consensus × UCB inflated by sqrt(ln t)."""
        return Parts(RunningConsensus(self.discount), InflatedUCB(self.gamma))

    def with_constant(self, constant: float) -> Self:
        """B = 2γ."""
        return replace(self, gamma=constant / 2)


@dataclass(frozen=True)
class CoopUCL(Policy):
    r"""coop-UCL (Landgren, Srivastava, Leonard 2016): the upper credible limit on a consensus.

    .. math:: m^k + \sqrt{v^k} \sqrt{(\hat n^k + f(t))/\hat n^k} \; Φ^{-1}(1 - t^{-γ})

    with the posterior mean m and variance v of an arm, f(t) = sqrt(ln t).

    Parameters
    ----------
    gamma : float
        γ > 1, exploration.
    prior_mean, prior_sigma : float
        ν_0 and σ_0 of the normal prior of every arm; σ_0 = ∞ is the flat prior.
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.

    Notes
    -----
    Knows its row of P and N. Sends 2K values to each neighbour in every round.

    *Differs from the paper*: t is the number of rounds completed; arms are independent a priori;
    an arm not yet seen has index +∞ even under an informative prior.
    """

    gamma: float
    prior_mean: float = 0.0
    prior_sigma: float = math.inf
    discount: float = 1.0
    name: ClassVar[str] = "coop-ucl"

    @property
    def parts(self) -> Parts:
        """A running consensus × the upper credible limit."""
        return Parts(
            RunningConsensus(self.discount), UCL(self.gamma, self.prior_mean, self.prior_sigma)
        )
