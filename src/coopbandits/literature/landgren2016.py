"""coop-UCB, coop-UCB2 and coop-UCL: a running consensus, played with inflated bonuses.

Landgren, Srivastava and Leonard, "Distributed cooperative decision-making in multiarmed bandits",
2016. A consensus has not mixed everything yet. So the indices inflate what an agent is unsure of:
by ε_c, a number of its own that follows from the whole graph, or by f(t) = sqrt(ln t) without it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from coopbandits.core.aggregate import RunningConsensus
from coopbandits.core.checks import require_number
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.index import Index
from coopbandits.core.index.index import Floats
from coopbandits.core.index.kl import normal_upper, upper_quantile
from coopbandits.core.policy import Parts, Policy

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView

EPSILON_C_FORMS = ("closed", "landgren")

GROWING = -1.0
"""Stands for an inflation f(t) = sqrt(ln t) instead of a number."""


def inflated_ucb(
    total: float, count: float, least: float, exploration: float, inflation: float
) -> float:
    """Return total/count + sqrt(exploration·(1 + inflation/count)/count), or +∞.

    `exploration` is 2γσ² ln t; `inflation` is N ε_c, or N f(t).
    """
    if count <= least:
        return math.inf
    return total / count + math.sqrt(exploration * (1.0 + inflation / count) / count)


def root_log(rounds: float) -> float:
    """Return f(t) = sqrt(ln t), Landgren's inflation without knowledge of the graph."""
    return math.sqrt(math.log(max(1.0, rounds)))


@dataclass(frozen=True)
class InflatedUCB(Index):
    r"""coop-UCB's index (Landgren, Srivastava, Leonard 2016), with n̂ = counts/N.

    .. math:: \hat s/\hat n + σ \sqrt{2γ \frac{\hat n + ε}{N \hat n} \frac{\ln t}{\hat n}}

    Parameters
    ----------
    gamma : float
        γ > 1, exploration.
    epsilon_c : {"closed", "landgren"} or None
        Which form of ε, a number per agent that says how well the graph mixes for it; None for
        f(t) = sqrt(ln t), which takes no knowledge of the graph.

    Notes
    -----
    t is the number of pulls per agent behind the estimate. *Differs from the paper*: an arm without
    information has index +∞.
    """

    gamma: float = 1.01
    epsilon_c: str | None = None
    name: ClassVar[str] = "inflated-ucb"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        require_gamma(self.gamma)
        if self.epsilon_c is not None and self.epsilon_c not in EPSILON_C_FORMS:
            raise unknown_name("form of epsilon_c", str(self.epsilon_c), EPSILON_C_FORMS)

    @property
    def needs(self) -> frozenset[str]:
        """ε_c, where it is not sqrt(ln t)."""
        return frozenset() if self.epsilon_c is None else frozenset({self._knowledge})

    @property
    def _knowledge(self) -> str:
        return f"epsilon_c:{self.epsilon_c}"

    @property
    def bonus_constant(self) -> float:
        """B = 2γ, which the inflation then multiplies."""
        return 2 * self.gamma

    def with_constant(self, constant: float) -> Self:
        return replace(self, gamma=constant / 2)

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """2γσ² and ε."""
        epsilon = GROWING
        if self.epsilon_c is not None:
            if self._knowledge not in view.global_knowledge:
                raise InputError(
                    f"{self.name} needs {self._knowledge} of agent {view.agent_id}; set "
                    "LocalView.global_knowledge"
                )
            epsilon = view.global_knowledge[self._knowledge]
        return self.bonus_constant * view.sigma**2, epsilon

    def scratch_size(self, num_arms: int) -> int:
        return 3

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """2γσ² ln t, N f(t), and the count up to which an arm is unknown."""
        rounds = estimate.time / estimate.num_agents
        scratch[0] = numbers[0] * math.log(max(1.0, rounds))
        scratch[1] = estimate.num_agents * root_log(rounds)
        scratch[2] = NO_INFORMATION * estimate.num_agents

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        epsilon = numbers[1]
        inflation = scratch[1] if epsilon == GROWING else estimate.num_agents * epsilon
        total, count = estimate.sums[arm], estimate.counts[arm]
        return inflated_ucb(total, count, scratch[2], scratch[0], inflation)

    @staticmethod
    def bonus(estimate: Estimate, numbers: Floats, scratch: Floats) -> tuple[float, float]:
        """2γσ² ln t, and that times N ε."""
        epsilon = numbers[1]
        inflation = scratch[1] if epsilon == GROWING else estimate.num_agents * epsilon
        return scratch[0], scratch[0] * inflation


def require_gamma(gamma: float) -> None:
    require_number("gamma", gamma, "a finite number larger than 1", 1.0, math.inf)


@dataclass(frozen=True)
class UCL(Index):
    r"""coop-UCL's index (Landgren, Srivastava, Leonard 2016): an inflated upper credible limit.

    .. math:: m + \sqrt{v} \sqrt{(\hat n + f(t))/\hat n} \; Φ^{-1}(1 - t^{-γ})

    m and v are the mean and variance of the posterior, f(t) = sqrt(ln t), t the pulls per agent.

    Parameters
    ----------
    gamma : float
        γ > 1, exploration.
    prior_mean, prior_sigma : float
        ν_0 and σ_0 of the normal prior of every arm; σ_0 = ∞ is the flat prior.

    Notes
    -----
    *Differs from the paper*: arms are independent a priori; an arm not yet seen has index +∞ even
    under an informative prior.
    """

    gamma: float = 1.01
    prior_mean: float = 0.0
    prior_sigma: float = math.inf
    name: ClassVar[str] = "ucl"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        require_gamma(self.gamma)
        require_number("prior_mean", self.prior_mean, "a finite number", -math.inf, math.inf)
        if self.prior_sigma != math.inf:
            accepted = "between 1e-100 and 1e100, or infinite for a flat prior"
            require_number("prior_sigma", self.prior_sigma, accepted, 1e-100, 1e100)

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """γ, σ, 1/σ_0² and ν_0/σ_0²."""
        precision = 1.0 / self.prior_sigma**2
        return float(self.gamma), view.sigma, precision, precision * self.prior_mean

    def scratch_size(self, num_arms: int) -> int:
        return 2

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """The quantile, and N f(t)."""
        rounds = estimate.time / estimate.num_agents
        scratch[0] = upper_quantile(max(1.0, rounds) ** -numbers[0])
        scratch[1] = estimate.num_agents * root_log(rounds)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        total, count = estimate.sums[arm], estimate.counts[arm]
        if count <= NO_INFORMATION * estimate.num_agents:
            return math.inf
        spread = scratch[0] * math.sqrt(1.0 + scratch[1] / count)
        return normal_upper(total, count, numbers[2], numbers[3], numbers[1], spread)


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
    Knows its row of P, N, and its ε_c, which takes the whole graph to compute.
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
        if self.epsilon_c not in EPSILON_C_FORMS:
            raise unknown_name("form of epsilon_c", str(self.epsilon_c), EPSILON_C_FORMS)
        super().__post_init__()

    @property
    def parts(self) -> Parts:
        return Parts(RunningConsensus(self.discount), InflatedUCB(self.gamma, self.epsilon_c))

    def with_constant(self, constant: float) -> Self:
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
        return Parts(RunningConsensus(self.discount), InflatedUCB(self.gamma))

    def with_constant(self, constant: float) -> Self:
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
        return Parts(
            RunningConsensus(self.discount), UCL(self.gamma, self.prior_mean, self.prior_sigma)
        )
