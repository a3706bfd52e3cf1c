"""Draws from a posterior: Thompson sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.choice import NO_INFORMATION, as_lists
from coopbandits.core.draws import (
    betas,
    betas_of,
    gamma_of,
    normal_of,
    normals,
    normals_of,
    word_at,
    words,
)
from coopbandits.core.errors import unknown_name
from coopbandits.core.index.index import UNIT_REWARDS, Draws, Floats, Index
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
    for k in range(num_arms):
        width = 1.0 / math.sqrt(1.0 + weight * max(0.0, estimate.counts[k]))
        scratch[k] = width
        scratch[num_arms + k] = (prior + weight * estimate.sums[k]) * width
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
        """Return the posteriors."""
        return normal_draws(self, estimate, numbers)

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """Write the posteriors."""
        write_normals(estimate, 0.0, numbers[0], 1.0, scratch)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Draw one arm's mean."""
        return draw_normal(arm, len(estimate.counts), word, scratch)

    @staticmethod
    def values(estimate: Estimate, word: int, numbers: Floats) -> Vector:
        """Draw all arms' means."""
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
        """Refuse an unknown setting."""
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
        """Return the posteriors."""
        return normal_draws(self, estimate, numbers)

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """Write the posteriors."""
        write_centred(estimate, numbers[0], scratch)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Draw one arm's mean."""
        return draw_normal(arm, len(estimate.counts), word, scratch)

    @staticmethod
    def values(estimate: Estimate, word: int, numbers: Floats) -> Vector:
        """Draw all arms' means."""
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
        """Return the posteriors."""
        first, second = written(self, estimate, numbers).reshape(2, -1)
        return Draws("beta", first, second)

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """Write the posteriors."""
        write_betas(estimate, scratch)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Draw one arm's mean."""
        return draw_beta(arm, len(estimate.counts), word, scratch)

    @staticmethod
    def values(estimate: Estimate, word: int, numbers: Floats) -> Vector:
        """Draw all arms' means."""
        del numbers
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
    """Refuse an unknown way to know σ."""
    if sigma not in SIGMAS:
        raise unknown_name("way to know sigma", str(sigma), SIGMAS)
