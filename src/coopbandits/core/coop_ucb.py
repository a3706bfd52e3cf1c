"""The policies of Landgren, Srivastava and Leonard: consensus, played with inflated bonuses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from coopbandits.core.agent import Agent, CooperativeAgent, LocalView
from coopbandits.core.aggregate.consensus import RunningConsensus
from coopbandits.core.checks import require_number
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.index.inflated import inflated_ucb_index
from coopbandits.core.index.quantile import ucl_index
from coopbandits.core.policy import Policy

EPSILON_C_FORMS = ("closed", "landgren")


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
    name: ClassVar[str] = "coop-ucb"

    def __post_init__(self) -> None:
        """Refuse settings outside what the algorithm is defined for."""
        require_gamma(self.gamma)
        if self.epsilon_c not in EPSILON_C_FORMS:
            raise unknown_name("form of epsilon_c", str(self.epsilon_c), EPSILON_C_FORMS)

    @property
    def needs(self) -> frozenset[str]:
        """N, and ε_c."""
        return frozenset({"num_agents", self._knowledge})

    @property
    def _knowledge(self) -> str:
        return f"epsilon_c:{self.epsilon_c}"

    @property
    def bonus_constant(self) -> float:
        """B = 2γ, which the inflation then multiplies."""
        return 2 * self.gamma

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        if self._knowledge not in view.global_knowledge:
            raise InputError(f"coop-ucb needs {self._knowledge} of agent {view.agent_id}; tell it")
        index = partial(
            inflated_ucb_index,
            scale=self.bonus_constant * view.sigma**2,
            epsilon_c=view.global_knowledge[self._knowledge],
        )
        return CooperativeAgent(view, consensus(self, view), index, self.spelling)


@dataclass(frozen=True)
class CoopUCB2(Policy):
    """coop-UCB2 (Landgren, Srivastava, Leonard 2016): coop-UCB with f(t) = sqrt(ln t) for ε_c.

    Parameters
    ----------
    gamma : float
        γ > 1, exploration.

    Notes
    -----
    Knows its row of P and N. Sends 2K values to each neighbour in every round.

    *Differs from the paper*: t is the number of rounds completed; f is fixed to sqrt(ln t).
    """

    gamma: float
    name: ClassVar[str] = "coop-ucb2"

    def __post_init__(self) -> None:
        """Refuse settings outside what the algorithm is defined for."""
        require_gamma(self.gamma)

    @property
    def needs(self) -> frozenset[str]:
        """N."""
        return frozenset({"num_agents"})

    @property
    def bonus_constant(self) -> float:
        """B = 2γ, which the inflation then multiplies."""
        return 2 * self.gamma

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        index = partial(
            inflated_ucb_index, scale=self.bonus_constant * view.sigma**2, epsilon_c=None
        )
        return CooperativeAgent(view, consensus(self, view), index, self.spelling)


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

    Notes
    -----
    Knows its row of P and N. Sends 2K values to each neighbour in every round.

    *Differs from the paper*: t is the number of rounds completed; arms are independent a priori;
    an arm not yet seen has index +∞ even under an informative prior.
    """

    gamma: float
    prior_mean: float = 0.0
    prior_sigma: float = math.inf
    name: ClassVar[str] = "coop-ucl"

    def __post_init__(self) -> None:
        """Refuse settings outside what the algorithm is defined for."""
        require_gamma(self.gamma)
        require_number("prior_mean", self.prior_mean, "a finite number", -math.inf, math.inf)
        if self.prior_sigma != math.inf:
            accepted = "between 1e-100 and 1e100, or infinite for a flat prior"
            require_number("prior_sigma", self.prior_sigma, accepted, 1e-100, 1e100)

    @property
    def needs(self) -> frozenset[str]:
        """N."""
        return frozenset({"num_agents"})

    @property
    def precision(self) -> float:
        """1/σ_0²."""
        return 1.0 / self.prior_sigma**2

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        index = partial(
            ucl_index,
            gamma=self.gamma,
            sigma=view.sigma,
            precision=self.precision,
            shift=self.precision * self.prior_mean,
        )
        return CooperativeAgent(view, consensus(self, view), index, self.spelling)


def require_gamma(gamma: float) -> None:
    """Refuse all but finite numbers above 1."""
    require_number("gamma", gamma, "a finite number larger than 1", 1.0, math.inf)


def consensus(policy: Policy, view: LocalView) -> RunningConsensus:
    """Return a running consensus for a view that tells N."""
    if view.num_agents is None:
        raise InputError(f"{policy.name} needs the number of agents; tell it")
    return RunningConsensus(view, view.num_agents)
