"""Upper bounds from a divergence or a posterior: KL-UCB and Bayes-UCB."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core.checks import require_nonnegative
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.draws import normal_quantile
from coopbandits.core.index.index import Floats, Index, Support, family_support, require_family
from coopbandits.core.index.posterior import write_betas
from coopbandits.core.special import bernoulli_upper, bernstein_upper, beta_upper_quantile
from coopbandits.core.spelling import AUTO

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView


def spare_arms(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
    """Return Bernstein's bound on the value of one arm, which takes no logarithm."""
    count = estimate.counts[arm]
    if count <= NO_INFORMATION * estimate.num_agents:
        return math.inf
    mean = min(1.0, max(0.0, estimate.sums[arm] / count))
    return bernstein_upper(mean, scratch[0] / count) + SLACK


def normal_bonus(estimate: Estimate, numbers: Floats, scratch: Floats) -> tuple[float, float]:
    """2σ² (ln s + c ln ln s), and nothing."""
    return numbers[0] * scratch[0], 0.0


SLACK = 1e-12
"""By which rounding cannot put a value above its bound."""


@dataclass(frozen=True)
class KLUCB(Index):
    r"""KL-UCB (Garivier, Cappé 2011; Cappé et al. 2013).

    .. math:: \max\{q : n_k \, d(\hat\mu_k, q) \le \ln s + c \ln\ln s\}

    with d the divergence between normal distributions of standard deviation σ, for which the index
    is :math:`\hat\mu_k + \sqrt{2σ^2 (\ln s + c \ln\ln s)/n_k}`, or between Bernoulli distributions.

    Parameters
    ----------
    family : {"auto", "gaussian", "bernoulli"}
        The rewards' family; "bernoulli" accepts any rewards in [0, 1]. "auto" is "bernoulli" where
        rewards are known to lie in [0, 1], else "gaussian".
    c : float
        Weight of ln ln s: 3 in the theorem, 0 as the authors recommend in practice.

    Notes
    -----
    s is the time of the estimate. *Differs from the paper*: an arm without information has
    index +∞.
    """

    family: str = AUTO
    c: float = 0.0
    name: ClassVar[str] = "kl-ucb"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        require_family(self.family)
        require_nonnegative("c", self.c)

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """2σ², c, and 1 for Bernoulli rewards."""
        return 2.0 * view.sigma**2, self.c, float(self.family == "bernoulli")

    @property
    def support(self) -> Support:
        return family_support(self.family)

    @property
    def bound(self) -> Any:
        """Bernstein's bound, which spares most arms of the Bernoulli family their logarithms."""
        return spare_arms if self.family == "bernoulli" else None

    @property
    def bonus(self) -> Any:
        """The Gaussian family's index is a mean and a root."""
        return None if self.family == "bernoulli" else normal_bonus

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """Write ln s + c ln ln s."""
        log = math.log(max(1.0, estimate.time))
        scratch[0] = log + numbers[1] * math.log(max(1.0, log))

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        count = estimate.counts[arm]
        if count <= NO_INFORMATION * estimate.num_agents:
            return math.inf
        mean, level = estimate.sums[arm] / count, scratch[0] / count
        if numbers[2] > 0.0:
            return bernoulli_upper(mean, level)
        value: float = mean + math.sqrt(numbers[0] * level)
        return value


def normal_upper(
    total: float, count: float, precision: float, shift: float, sigma: float, spread: float
) -> float:
    """Return the posterior mean plus `spread` standard deviations.

    The prior of an arm is normal with this precision and precision·mean = shift; rewards are
    normal with standard deviation σ.
    """
    posterior = precision + count / sigma**2
    if posterior <= 0.0:
        return math.inf
    return (shift + total / sigma**2) / posterior + spread / math.sqrt(posterior)


def upper_quantile(tail: float) -> float:
    """Return Φ⁻¹(1 − tail) as −Φ⁻¹(tail), which stays exact for tiny tails.

    Tails are taken between 1e-300 and one half, so that the quantile is finite and not negative.
    """
    return -normal_quantile(min(0.5, max(1e-300, tail)))


@dataclass(frozen=True)
class BayesUCB(Index):
    r"""Bayes-UCB (Kaufmann, Cappé, Garivier 2012): the quantile of level 1 − 1/(t + 1).

    Parameters
    ----------
    family : {"auto", "gaussian", "bernoulli"}
        The rewards' family: prior N(0, 1) with known σ, or Beta(1, 1) for rewards in [0, 1]; "auto"
        as in `KLUCB`.

    Notes
    -----
    t is the number of pulls per agent behind the estimate, as where all agents play on the same
    posterior. *Differs from the paper*: there the level of Bernoulli arms is
    1 − 1/(t (ln T)^c), with c = 0 recommended.
    """

    family: str = AUTO
    name: ClassVar[str] = "bayes-ucb"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "arms"

    def __post_init__(self) -> None:
        require_family(self.family)

    @property
    def support(self) -> Support:
        return family_support(self.family)

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """σ, and 1 for Bernoulli rewards."""
        return view.sigma, float(self.family == "bernoulli")

    def scratch_size(self, num_arms: int) -> int:
        """The tail or its quantile, and beta posteriors."""
        return 2 * num_arms + 1

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """Write the posteriors, and the tail or its normal quantile."""
        tail = 1.0 / (1.0 + estimate.time / estimate.num_agents)
        if numbers[1] > 0.0:
            write_betas(estimate, scratch)
            scratch[2 * len(estimate.counts)] = tail
        else:
            scratch[2 * len(estimate.counts)] = upper_quantile(tail)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Return the quantile of one arm's posterior."""
        num_arms = len(estimate.counts)
        level = scratch[2 * num_arms]
        if numbers[1] > 0.0:
            return beta_upper_quantile(level, scratch[arm], scratch[num_arms + arm])
        # Mixing may leave counts just below 0, which tell nothing.
        count = max(0.0, estimate.counts[arm])
        return normal_upper(estimate.sums[arm], count, 1.0, 0.0, numbers[0], level)
