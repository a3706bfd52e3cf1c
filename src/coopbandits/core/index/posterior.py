"""Draws from a posterior: Thompson sampling, and top-two sampling for best-arm identification."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.checks import require_number
from coopbandits.core.choice import NO_INFORMATION, as_lists
from coopbandits.core.draws import (
    betas,
    betas_of,
    gamma_of,
    normal_of,
    normals,
    normals_of,
    uniform_of,
    word_at,
    words,
)
from coopbandits.core.errors import unknown_name
from coopbandits.core.index.greedy import largest_of
from coopbandits.core.index.index import (
    UNIT_REWARDS,
    Draws,
    Floats,
    Index,
    Support,
    family_support,
    require_family,
)
from coopbandits.core.special import bernoulli_divergence
from coopbandits.core.spelling import AUTO
from coopbandits.core.statistic import ArmSums, Statistic

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView, Vector


ROUNDING = 1e-14
"""Scatter up to this share of the sum of squares is taken for rounding."""

SIGMAS = ("known", "estimate")

UNKNOWN = -1.0
"""Stands for a σ that is to be estimated, or that is not known yet."""


def write_normals(
    estimate: Estimate, prior: float, weight: float, spread: float, scratch: Floats
) -> None:
    """Write normal posteriors: 1/√τ_k, (mean_k)·√τ_k and the spread of a draw.

    The prior is one pull of reward `prior`; every pull counts `weight`. Mixing may leave counts
    just below 0, which tell nothing.
    """
    num_arms = len(estimate.counts)
    for k in range(num_arms):  # roots and quotients alone: compiled, four arms at once
        scratch[k] = 1.0 / math.sqrt(1.0 + weight * max(0.0, estimate.counts[k]))
    for k in range(num_arms):
        scratch[num_arms + k] = (prior + weight * estimate.sums[k]) * scratch[k]
    scratch[2 * num_arms] = spread


def draw_normal(arm: int, num_arms: int, word: int, scratch: Floats) -> float:
    """Return one draw of an arm's mean, from what `write_normals` wrote."""
    draw = normal_of(word_at(word, arm))
    mean, width = scratch[num_arms + arm], scratch[arm]
    drawn: float = width * (mean + scratch[2 * num_arms] * draw)
    return drawn


def write_betas(estimate: Estimate, scratch: Floats) -> None:
    """Write beta posteriors: Beta(1 + c s_k, 1 + c(n_k − s_k)), for rewards in [0, 1]."""
    num_arms = len(estimate.counts)
    for k in range(num_arms):
        # Mixing may leave sums beyond the counts by rounding.
        count = max(0.0, estimate.counts[k])
        wins = min(max(0.0, estimate.sums[k]), count)
        scratch[k] = 1.0 + estimate.anticipation * wins
        scratch[num_arms + k] = 1.0 + estimate.anticipation * (count - wins)


def draw_beta(arm: int, num_arms: int, word: int, scratch: Floats) -> float:
    """Return one draw of an arm's mean, from what `write_betas` wrote."""
    wins = gamma_of(word_at(word, arm), scratch[arm])
    losses = gamma_of(word_at(word, num_arms + arm), scratch[num_arms + arm])
    return wins / (wins + losses)


def pooled_sigma(estimate: Estimate) -> float:
    r"""Return σ̂ from the scatter of rewards about their arms' means, or −1 for too few pulls.

    .. math:: \hat σ^2 = \frac{\sum u^2 - \sum_k s_k^2/n_k}{A - K' - 2}

    A is the number of pulls and K' that of arms seen. The 2 makes it the variance of the Student
    posterior that goes with an unknown σ: early on it is too large rather than too small.
    """
    seen, explained = 0, 0.0
    for k in range(len(estimate.counts)):
        count = estimate.counts[k]
        if count > NO_INFORMATION * estimate.num_agents:
            seen += 1
            explained += estimate.sums[k] * estimate.sums[k] / count
    freedom = estimate.time - seen - 2.0
    if freedom <= 0.0:
        return UNKNOWN
    squares = 0.0
    for k in range(len(estimate.squares)):
        squares += estimate.squares[k]
    return deviation(squares, explained, freedom)


def deviation(squares: float, explained: float, freedom: float) -> float:
    """Return sqrt((squares − explained)/freedom), or 0 for nothing but rounding.

    Equal rewards leave rounding, which nobody should act on: it differs between engines.
    """
    scatter = squares - explained
    return math.sqrt(scatter / freedom) if scatter > ROUNDING * squares else 0.0


def write_centred(estimate: Estimate, sigma: float, scratch: Floats) -> None:
    """Write normal posteriors whose prior is one pull of the average reward."""
    num_arms = len(estimate.counts)
    spread = pooled_sigma(estimate) if sigma == UNKNOWN else sigma
    if spread == UNKNOWN:  # any arm is as good as any other
        for k in range(num_arms):
            scratch[k], scratch[num_arms + k] = 1.0, 0.0
        scratch[2 * num_arms] = 1.0
        return
    total, pulls = 0.0, 0.0
    for k in range(num_arms):
        total += estimate.sums[k]
        pulls += estimate.counts[k]
    average = total / pulls if pulls > 0.0 else 0.0
    write_normals(estimate, average, estimate.anticipation, spread, scratch)


def written(index: Index, estimate: Estimate, numbers: Floats) -> Vector:
    """Return the scratch that an index writes before it draws; `prepare` must not read the word."""
    scratch = [0.0] * index.scratch_size(len(estimate.counts))
    index.prepare(as_lists(estimate), 0, numbers, scratch)
    return np.array(scratch)


def normal_draws(index: Index, estimate: Estimate, numbers: Floats) -> Draws:
    """Return the distribution of what `draw_normal` draws."""
    scratch, num_arms = written(index, estimate, numbers), len(estimate.counts)
    widths, means = scratch[:num_arms], scratch[num_arms : 2 * num_arms]
    return Draws("normal", widths * means, widths * scratch[-1])


FEW_NORMALS, FEW_BETAS = 14, 8
"""Below so many arms, draws on Python's own numbers are faster than on arrays."""


def few_normals(num_arms: int, word: int, scratch: Floats) -> Vector:
    """Return what `draw_normal` returns for all arms, to the bit."""
    spread, drawn = scratch[2 * num_arms], normals_of(word, num_arms)
    every = zip(scratch[:num_arms], scratch[num_arms : 2 * num_arms], drawn, strict=True)
    return np.array([width * (mean + spread * draw) for width, mean, draw in every])


def all_normals(
    estimate: Estimate, prior: float, weight: float, spread: float, word: int
) -> Vector:
    """Return what `draw_normal` returns after `write_normals`, for all arms."""
    scales = 1.0 / np.sqrt(1.0 + weight * np.maximum(estimate.counts, 0.0))
    means = (prior + weight * estimate.sums) * scales
    drawn = normals(words(word, np.arange(scales.size, dtype=np.uint64)))
    every: Vector = scales * (means + spread * drawn)
    return every


@dataclass(frozen=True)
class NormalDraw(Index):
    r"""Thompson sampling (1933) for normal rewards of known σ, prior N(0, 1).

    .. math:: θ_k \sim N(h_k/τ_k, 1/τ_k), \quad τ_k = 1 + n_k/σ^2, \; h_k = s_k/σ^2

    *Differs from the paper*: nothing known.
    """

    name: ClassVar[str] = "normal-draw"
    prepare_reads: ClassVar[str] = "arms"

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """1/σ²."""
        return (1.0 / view.sigma**2,)

    def scratch_size(self, num_arms: int) -> int:
        """As `write_normals` takes it."""
        return 2 * num_arms + 1

    def draws(self, estimate: Estimate, numbers: Floats) -> Draws:
        return normal_draws(self, estimate, numbers)

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        write_normals(estimate, 0.0, numbers[0], 1.0, scratch)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        return draw_normal(arm, len(estimate.counts), word, scratch)

    @staticmethod
    def values(estimate: Estimate, word: int, numbers: Floats) -> Vector:
        num_arms = estimate.counts.size
        if num_arms < FEW_NORMALS:
            scratch = [0.0] * (2 * num_arms + 1)
            write_normals(as_lists(estimate), 0.0, numbers[0], 1.0, scratch)
            return few_normals(num_arms, word, scratch)
        return all_normals(estimate, 0.0, numbers[0], 1.0, word)


@dataclass(frozen=True)
class CentredDraw(Index):
    r"""Thompson sampling whose prior is one pull of the average reward.

    .. math:: θ_k \sim N\left(\frac{\bar m + c s_k}{1 + c n_k}, \frac{σ^2}{1 + c n_k}\right),
        \quad \bar m = \frac{\sum_k s_k}{\sum_k n_k}

    c is the estimate's anticipation. Without data all draws are alike, and the first pull uniform.
    A shift or another scale of the rewards makes no difference.

    Parameters
    ----------
    sigma : {"known", "estimate"}
        Whether σ is told, or estimated from the scatter of rewards, for which their squares are
        added up. As long as that says nothing, all arms are drawn alike.

    Notes
    -----
    *Differs from the paper*: none has it.
    """

    sigma: str = "known"
    name: ClassVar[str] = "centred-draw"
    prepare_reads: ClassVar[str] = "arms"

    def __post_init__(self) -> None:
        require_sigma(self.sigma)

    @property
    def statistic(self) -> Statistic:
        """Squares where σ is estimated."""
        return ArmSums("pooled" if self.sigma == "estimate" else "none")

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """σ, or −1 to estimate it."""
        return (UNKNOWN if self.sigma == "estimate" else view.sigma,)

    def scratch_size(self, num_arms: int) -> int:
        """As `write_normals` takes it."""
        return 2 * num_arms + 1

    def draws(self, estimate: Estimate, numbers: Floats) -> Draws:
        return normal_draws(self, estimate, numbers)

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        write_centred(estimate, numbers[0], scratch)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        return draw_normal(arm, len(estimate.counts), word, scratch)

    @staticmethod
    def values(estimate: Estimate, word: int, numbers: Floats) -> Vector:
        num_arms = estimate.counts.size
        if num_arms < FEW_NORMALS:
            scratch = [0.0] * (2 * num_arms + 1)
            write_centred(as_lists(estimate), numbers[0], scratch)
            return few_normals(num_arms, word, scratch)
        spread = pooled_sigma(as_lists(estimate)) if numbers[0] == UNKNOWN else numbers[0]
        if spread == UNKNOWN:
            return all_normals(estimate, 0.0, 0.0, 1.0, word)
        pulls = float(estimate.counts.sum())
        average = float(estimate.sums.sum()) / pulls if pulls > 0.0 else 0.0
        return all_normals(estimate, average, estimate.anticipation, spread, word)


@dataclass(frozen=True)
class BetaDraw(Index):
    r"""Thompson sampling for rewards in [0, 1]: a draw from Beta(1 + c s_k, 1 + c(n_k − s_k)).

    c is the estimate's anticipation, 1 where nothing is anticipated. *Differs from the paper*
    (Thompson 1933): rewards between 0 and 1 count as parts of a success.
    """

    name: ClassVar[str] = "beta-draw"
    support = UNIT_REWARDS
    prepare_reads: ClassVar[str] = "arms"

    def scratch_size(self, num_arms: int) -> int:
        """As `write_betas` takes it."""
        return 2 * num_arms

    def draws(self, estimate: Estimate, numbers: Floats) -> Draws:
        first, second = written(self, estimate, numbers).reshape(2, -1)
        return Draws("beta", first, second)

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        write_betas(estimate, scratch)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        return draw_beta(arm, len(estimate.counts), word, scratch)

    @staticmethod
    def values(estimate: Estimate, word: int, numbers: Floats) -> Vector:
        num_arms = estimate.counts.size
        if num_arms < FEW_BETAS:
            scratch = [0.0] * (2 * num_arms)
            write_betas(as_lists(estimate), scratch)
            return np.array(betas_of(word, scratch))
        counts = np.maximum(estimate.counts, 0.0)
        wins = np.minimum(np.maximum(estimate.sums, 0.0), counts)
        c = estimate.anticipation
        return betas(word, 1.0 + c * wins, 1.0 + c * (counts - wins))


def require_sigma(sigma: str) -> None:
    if sigma not in SIGMAS:
        raise unknown_name("way to know sigma", str(sigma), SIGMAS)


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
        if numbers[2] > 0.0:
            write_betas(estimate, scratch)
        else:
            write_centred(estimate, numbers[1], scratch)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
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
