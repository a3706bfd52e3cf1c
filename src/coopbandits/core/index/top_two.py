"""Top-two sampling for best-arm identification, with T3C's challenger."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.checks import require_number
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.draws import uniform_of, word_at
from coopbandits.core.index.greedy import largest_of
from coopbandits.core.index.index import Floats, Index, Support, family_support, require_family
from coopbandits.core.index.posterior import draw_beta, draw_normal, write_betas, write_centred
from coopbandits.core.special import bernoulli_divergence
from coopbandits.core.spelling import AUTO

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView


def transportation_cost(leader: int, arm: int, estimate: Estimate, numbers: Floats) -> float:
    """Return W(leader, arm), the evidence in nats that the leader's mean is above the arm's.

    It is 0 if the arm's sample mean is at least the leader's, or if either arm has no pulls.
    """
    least = NO_INFORMATION * estimate.num_agents
    first, second = estimate.counts[leader], estimate.counts[arm]
    if first <= least or second <= least:
        return 0.0
    high, low = estimate.sums[leader] / first, estimate.sums[arm] / second
    if numbers[2] > 0.0:  # mixing may leave sums beyond the counts by rounding
        high, low = min(1.0, max(0.0, high)), min(1.0, max(0.0, low))
    if low >= high:
        return 0.0
    if numbers[2] > 0.0:
        pooled = low + (high - low) * (first / (first + second))
        cost: float = first * bernoulli_divergence(high, pooled)
        cost += second * bernoulli_divergence(low, pooled)
    else:
        gap = (high - low) / numbers[1]
        cost = 0.5 * gap * gap * (first / (first + second)) * second
    return cost


@dataclass(frozen=True)
class TopTwo(Index):
    r"""Top-two sampling with transportation costs, T3C (Shang et al. 2020).

    The leader i is the largest of one draw from the posterior (Russo 2016). It is played with
    probability β; otherwise its challenger is, the arm with the smallest

    .. math:: W(i, j) = n_i \, d(\hat\mu_i, \hat\mu_{ij}) + n_j \, d(\hat\mu_j, \hat\mu_{ij})

    or 0 where :math:`\hat\mu_j \ge \hat\mu_i`. d is the family's divergence and
    :math:`\hat\mu_{ij}` the mean of both arms' rewards together; for Gaussian rewards
    :math:`W = (\hat\mu_i - \hat\mu_j)^2/(2σ^2(1/n_i + 1/n_j))`. The best arm's share of the pulls
    tends to β, and the others are pulled so that the evidence against all of them grows equally
    fast. Use it to identify the best arm with few pulls, not to earn on the way.

    Parameters
    ----------
    beta : float
        β, the probability of playing the leader.
    family : {"auto", "gaussian", "bernoulli"}
        The posterior, that of `CentredDraw` with known σ or of `BetaDraw`, and the divergence;
        "auto" as in `KLUCB`.

    Notes
    -----
    *Differs from the paper*: the Gaussian prior is one pull of the average reward, not an improper
    one after one pull of every arm. An arm without pulls costs 0, so it is challenged first. Costs
    within rounding of the smallest are ties, which are broken at random as in the paper.
    """

    beta: float = 0.5
    family: str = AUTO
    name: ClassVar[str] = "top-two"
    prepare_reads: ClassVar[str] = "arms"

    def __post_init__(self) -> None:
        require_number("beta", self.beta, "above 0, and at most 1", 0.0, math.nextafter(1.0, 2.0))
        require_family(self.family)

    @property
    def support(self) -> Support:
        return family_support(self.family)

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """β, σ, and 1 for Bernoulli rewards."""
        return self.beta, view.sigma, float(self.family == "bernoulli")

    def scratch_size(self, num_arms: int) -> int:
        """Posteriors, and the challengers' costs."""
        return 3 * num_arms + 1

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """Write the posteriors."""
        if numbers[2] > 0.0:
            write_betas(estimate, scratch)
        else:
            write_centred(estimate, numbers[1], scratch)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Draw one arm's mean."""
        if numbers[2] > 0.0:
            return draw_beta(arm, len(estimate.counts), word, scratch)
        return draw_normal(arm, len(estimate.counts), word, scratch)

    @staticmethod
    def pick(
        values: Floats, estimate: Estimate, word: int, numbers: Floats, scratch: Floats
    ) -> int:
        """Play the leader, or the challenger with the smallest transportation cost."""
        num_arms, leader = len(values), largest_of(values)
        # The words of all arms' draws come before these two.
        if uniform_of(word_at(word, 2 * num_arms)) < numbers[0]:
            return leader
        first, lowest = 2 * num_arms + 1, math.inf
        for k in range(num_arms):
            scratch[first + k] = math.inf
            if k != leader and values[k] > -math.inf:
                scratch[first + k] = transportation_cost(leader, k, estimate, numbers)
                lowest = min(lowest, scratch[first + k])
        if lowest == math.inf:  # there is no other arm to play
            return leader
        lowest += 1e-9 * max(1.0, lowest)
        tied = 0
        for k in range(num_arms):
            tied += scratch[first + k] <= lowest
        left, chosen = int(uniform_of(word_at(word, 2 * num_arms + 1)) * tied), leader
        for k in range(num_arms):
            if left >= 0 and scratch[first + k] <= lowest:
                left, chosen = left - 1, k
        return chosen
