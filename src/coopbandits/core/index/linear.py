r"""Indices on a linear model of rewards: what is played depends on the features of the arms.

With b, A and n as the statistic `linear-sums` adds them up, and c the estimate's anticipation::

    A_λ = λ I + c A = L Lᵀ        θ̂ = A_λ⁻¹ c b

Open pulls make the model surer and leave θ̂ where it is: their x xᵀ is added to A_λ afterwards.
Mixing under faults may leave a matrix that no pulls can have made, with a pivot of L that is not
above 0; it is replaced by λ, the least that there can be.

`prepare` and `value` are what compiled kernels are made of, where no pull is open; `values` does
the same with numpy, one factorisation for all arms, and is what agents call. A draw of θ is found
by a single solution: A_λ θ = c b + σ L z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.checks import require_flag, require_number, require_positive
from coopbandits.core.draws import normal_of, normals, normals_of, word_at, words
from coopbandits.core.index.index import Draws, Floats, Index
from coopbandits.core.statistic import LinearSums, Statistic

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView, Vector

Matrices = NDArray[np.float64]

FEW_NORMALS = 50
"""Fewer are mixed as one integer (`normals_of`), which is faster than as an array."""


class LinearIndex(Index):
    """What indices on linear models share: the first two of their numbers are λ and σ."""

    disjoint: bool

    @property
    def statistic(self) -> Statistic:
        return LinearSums(self.disjoint)

    def outlook(self, estimate: Estimate, numbers: Floats) -> tuple[Vector, Vector]:
        """Return xᵀθ̂ and σ√(xᵀA_λ⁻¹x) of every arm."""
        mean, lengths = posterior(estimate, numbers[0])
        return mean, numbers[1] * lengths


@dataclass(frozen=True)
class LinTS(LinearIndex):
    r"""Thompson sampling (Agrawal, Goyal 2013) on a linear model: a draw of θ for every choice.

    .. math:: θ = \hatθ + σ L^{-\top} z, \quad z \sim N(0, I), \qquad
        \text{play } \arg\max_k x_k^\top θ

    The prior of every coefficient is N(0, prior²), so λ = σ²/prior². With one-hot features and
    prior 1 this is `normal-draw`.

    Parameters
    ----------
    prior : float
        Standard deviation of a coefficient before anything is known.
    disjoint : bool
        A model per arm instead of one for all; then all arms may have the same features.

    Notes
    -----
    *Differs from the paper*: a draw is spread by σ, not by σ√(9 d ln(t/δ)), with which the paper
    proves its bound and which explores far more than pays.
    """

    prior: float = 1.0
    disjoint: bool = False
    name: ClassVar[str] = "lin-ts"

    def __post_init__(self) -> None:
        require_positive("prior", self.prior)
        require_flag("disjoint", self.disjoint)

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """λ and σ."""
        return ((view.sigma / self.prior) ** 2, view.sigma)

    def draws(self, estimate: Estimate, numbers: Floats) -> Draws | None:
        """Return what models of their own expect of the arms; one θ for all makes them depend."""
        return Draws("normal", *self.outlook(estimate, numbers)) if self.disjoint else None

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """Draw θ of every model; `scratch` is (models, d + 1, d + 1), θ in the last columns."""
        for model in range(len(estimate.counts)):
            rows = scratch[model]
            size = len(rows) - 1
            factor(estimate, model, numbers[0], rows)
            for i in range(size):
                rows[i, size] += numbers[1] * normal_of(word_at(word, model * size + i))
            backwards(rows, size)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Return what the drawn θ expects of an arm."""
        model, features = arm if len(estimate.counts) > 1 else 0, estimate.extra.features
        size, total = features.shape[1], 0.0
        for j in range(size):
            total += features[arm, j] * scratch[model, j, size]
        return total

    @staticmethod
    def values(estimate: Estimate, word: int, numbers: Floats) -> Vector:
        """Return what the drawn θ expects of all arms."""
        b = estimate.anticipation * estimate.sums
        matrix, lower = factored(estimate, numbers[0])
        noise = numbers[1] * _normals(word, b.size)
        if len(b) == 1 and estimate.extra.open_outer is None:  # as mostly: no stacks, less time
            drawn: Vector = np.linalg.solve(matrix[0], b[0] + lower[0] @ noise)
            return np.asarray(estimate.extra.features @ drawn)
        noise = noise.reshape(*b.shape, 1)
        theta = np.linalg.solve(matrix, b[:, :, None] + lower @ noise)
        if estimate.extra.open_outer is not None:
            waits = _waiting(estimate)
            surer, lower = factored(estimate, numbers[0], waits)
            mean = np.linalg.solve(matrix[waits], b[waits, :, None])
            theta[waits] = mean + np.linalg.solve(surer, lower @ noise[waits])
        return expected(estimate.extra.features, theta[:, :, 0])


@dataclass(frozen=True)
class LinUCB(LinearIndex):
    r"""Optimism on a linear model (OFUL: Abbasi-Yadkori, Pál, Szepesvári 2011).

    .. math:: x^\top\hatθ + sβ\sqrt{x^\top A_λ^{-1} x}, \qquad
        β = σ\sqrt{d \ln\left(1 + \frac{n L^2}{λd}\right) + 2\ln\frac1δ} + \sqrt{λ}\,S

    n is the number of pulls behind the model.

    Parameters
    ----------
    scale : float
        s; 1 is what the theorem asks for, and 3 to 5 times as wide as pays in practice.
    ridge : float
        λ.
    delta : float
        δ, the chance at which the bounds may fail.
    norm : float
        S, at least the length of θ.
    length : float
        L, at least the length of any x.
    disjoint : bool
        A model per arm instead of one for all; then all arms may have the same features.

    Notes
    -----
    *Differs from the paper*: the scale is a parameter.
    """

    scale: float = 1.0
    ridge: float = 1.0
    delta: float = 0.05
    norm: float = 1.0
    length: float = 1.0
    disjoint: bool = False
    name: ClassVar[str] = "lin-ucb"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "arms"

    def __post_init__(self) -> None:
        for name in ("scale", "ridge", "norm"):
            require_positive(name, getattr(self, name))
        accepted = "a positive number up to 1e150, of which there is a square"
        require_number("length", self.length, accepted, 0.0, 1e150)
        require_number("delta", self.delta, "strictly between 0 and 1", 0.0, 1.0)
        require_flag("disjoint", self.disjoint)

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """λ, σ, s, 2 ln(1/δ), √λ S and L²/λ."""
        return (
            self.ridge,
            view.sigma,
            self.scale,
            -2.0 * math.log(self.delta),
            math.sqrt(self.ridge) * self.norm,
            self.length**2 / self.ridge,
        )

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """Factor every model; `scratch` is (models, d + 1, d + 1), β in the last corners."""
        for model in range(len(estimate.counts)):
            rows = scratch[model]
            size = len(rows) - 1
            factor(estimate, model, numbers[0], rows)
            backwards(rows, size)
            rows[size, size] = _radius(estimate.counts[model], size, numbers)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        rows = scratch[arm if len(estimate.counts) > 1 else 0]
        size = len(rows) - 1
        mean, width = 0.0, 0.0
        for i in range(size):  # y = L⁻¹ x takes the place of the last row
            total = estimate.extra.features[arm, i]
            mean += total * rows[i, size]
            for j in range(i):
                total -= rows[i, j] * rows[size, j]
            rows[size, i] = total / rows[i, i]
            width += rows[size, i] * rows[size, i]
        return float(mean + rows[size, size] * math.sqrt(width))

    @staticmethod
    def values(estimate: Estimate, word: int, numbers: Floats) -> Vector:
        mean, lengths = posterior(estimate, numbers[0])
        size = estimate.sums.shape[1]
        radius = np.array([_radius(n, size, numbers) for n in estimate.counts.tolist()])
        bounds: Vector = mean + radius * lengths
        return bounds


LINEAR_INDICES = (LinTS, LinUCB)


def _radius(pulls: float, size: int, numbers: Floats) -> float:
    """Return s β."""
    growth = size * math.log(1.0 + max(0.0, pulls) * numbers[5] / size)
    return float(numbers[2] * (numbers[1] * math.sqrt(growth + numbers[3]) + numbers[4]))


def expected(features: Matrices, theta: Matrices) -> Vector:
    """Return xᵀθ of every arm: one θ for all (1, d), or one each (K, d)."""
    found: Vector = features @ theta[0] if len(theta) == 1 else (features * theta).sum(axis=1)
    return found


def posterior(estimate: Estimate, ridge: float) -> tuple[Vector, Vector]:
    """Return xᵀθ̂ and √(xᵀA_λ⁻¹x) of every arm; open pulls count for the latter alone."""
    b, features = estimate.anticipation * estimate.sums, estimate.extra.features
    _, lower = factored(estimate, ridge)
    # L⁻¹ of the arms of every model, and of b as one more.
    if len(b) == 1 and estimate.extra.open_outer is None:  # as mostly: no stacks, less time
        one = np.linalg.solve(lower[0], np.concatenate([features, b]).T)
        reach = one[:, :-1]
        return one[:, -1] @ reach, np.sqrt(np.einsum("ij,ij->j", reach, reach))
    arms = features.T[None] if len(b) == 1 else features[:, :, None]
    solved = np.linalg.solve(lower, np.concatenate([arms, b[:, :, None]], axis=2))
    wide = solved[:, :, :-1]
    mean = (wide * solved[:, :, -1:]).sum(axis=1)
    if estimate.extra.open_outer is not None:
        waits = _waiting(estimate)
        wide[waits] = np.linalg.solve(factored(estimate, ridge, waits)[1], arms[waits])
    return mean.ravel(), np.sqrt((wide * wide).sum(axis=1)).ravel()


def factored(
    estimate: Estimate, ridge: float, waits: NDArray[np.int64] | None = None
) -> tuple[Matrices, Matrices]:
    """Return A_λ and L (models, d, d) of every model, or of some, with their open pulls."""
    model, ahead = estimate.extra, estimate.anticipation
    size = estimate.sums.shape[1]
    triangles = ahead * model.outer + _diagonal(size, ridge)
    if waits is not None:
        triangles = triangles[waits] + model.open_outer[waits]
    matrix = triangles.take(_places(size), axis=1)
    try:
        lower: Matrices = np.linalg.cholesky(matrix)
        return matrix, lower
    except np.linalg.LinAlgError:  # some pivot is not above 0
        for rows in matrix:
            cholesky(rows, size, ridge)
        lower = np.tril(matrix)
        return lower @ lower.swapaxes(1, 2), lower


def _waiting(estimate: Estimate) -> NDArray[np.int64]:
    """Return the models with open pulls, which mostly are few."""
    (found,) = estimate.extra.open_outer.any(axis=1).nonzero()
    return np.asarray(found)


@cache
def _diagonal(size: int, ridge: float) -> Vector:
    """Return λI as an upper triangle."""
    return np.array([ridge if i == j else 0.0 for i in range(size) for j in range(i, size)])


@cache
def _places(size: int) -> NDArray[np.int64]:
    """Return where every entry of a symmetric matrix stands in its upper triangle."""
    places = np.zeros((size, size), dtype=np.int64)
    places[np.triu_indices(size)] = np.arange(size * (size + 1) // 2)
    return np.maximum(places, places.T)


def _normals(word: int, size: int) -> Vector:
    if size < FEW_NORMALS:
        return np.array(normals_of(word, size))
    return normals(words(word, np.arange(size, dtype=np.uint64)))


# What follows is also compiled: plain loops on arrays.


def cholesky(rows: Any, size: int, ridge: float) -> None:
    """Put L in the place of the lower triangle of a matrix."""
    for j in range(size):
        pivot = rows[j, j]
        for k in range(j):
            pivot -= rows[j, k] * rows[j, k]
        rows[j, j] = math.sqrt(pivot if pivot > 0.0 else ridge)
        for i in range(j + 1, size):
            entry = rows[i, j]
            for k in range(j):
                entry -= rows[i, k] * rows[j, k]
            rows[i, j] = entry / rows[j, j]


def factor(estimate: Estimate, model: int, ridge: float, rows: Any) -> None:
    """Write L of a model as a lower triangle, and L⁻¹c b as the column after the last."""
    sums, outer, ahead = estimate.sums, estimate.extra.outer, estimate.anticipation
    size, at = sums.shape[1], 0
    for i in range(size):
        for j in range(i, size):
            rows[j, i] = ahead * outer[model, at] + (ridge if i == j else 0.0)
            at += 1
    cholesky(rows, size, ridge)
    for i in range(size):
        total = ahead * sums[model, i]
        for j in range(i):
            total -= rows[i, j] * rows[j, size]
        rows[i, size] = total / rows[i, i]


def backwards(rows: Any, size: int) -> None:
    """Replace the column after the last, y, by L⁻ᵀy."""
    for i in range(size - 1, -1, -1):
        total = rows[i, size]
        for j in range(i + 1, size):
            total -= rows[j, i] * rows[j, size]
        rows[i, size] = total / rows[i, i]
