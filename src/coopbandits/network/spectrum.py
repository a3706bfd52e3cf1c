"""The two eigenvalues of a gossip matrix that matter: next to 1, and next to −1.

Small matrices get a dense eigensolve. Large ones never become dense. Graphs that few nodes cut in
two (cycles, grids, trees) have tiny gaps, for which plain Lanczos needs too many steps; but their
sparse factorisation hardly fills in, so the inverse of I − P is iterated instead of P. Graphs that
mix well are the opposite, and get plain Lanczos. The start vector is fixed, so that the same graph
always gives the same λ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import splu

from coopbandits.core.errors import InputError
from coopbandits.network.adjacency import breadth_first_depths

Vector: TypeAlias = NDArray[np.float64]
Apply: TypeAlias = Callable[[Vector], Vector]

DENSE_LIMIT = 600
"""Up to this many agents a dense eigensolve is fastest."""

CUT_LIMIT = 2000
"""A factorisation is affordable up to this many nodes in a cut, since its front is dense."""

PRECISION = 1e-8
"""The gap that decides λ is right to this fraction of itself."""

ROUGH_PRECISION = 1e-2
"""The other gap is right to this, since the ends of dense bands converge slowly."""

MAX_STEPS = 4000


class Spectrum(NamedTuple):
    """Distances of the eigenvalues, other than the leading 1, from 1 and from −1.

    Attributes
    ----------
    upper_gap : float
        1 − λ_2, λ_2 the second largest eigenvalue.
    lower_gap : float
        1 + λ_N, λ_N the smallest; an estimate where it does not decide λ.
    """

    upper_gap: float
    lower_gap: float


class Ritz(NamedTuple):
    """The ends of a spectrum as Lanczos sees them, with bounds on their errors."""

    low: float
    high: float
    low_error: float
    high_error: float


def spectrum(matrix: sparse.csr_array) -> Spectrum:
    """Return the gaps of a symmetric, doubly stochastic, connected and aperiodic matrix."""
    size = matrix.shape[0]
    if size == 1:
        return Spectrum(1.0, 1.0)
    if size <= DENSE_LIMIT:
        return dense_spectrum(matrix)
    cut = cut_estimate(matrix)
    # Planar graphs have cuts of order √N, for which a factorisation costs next to nothing.
    if cut <= 2 * size**0.5:
        return factorised_spectrum(matrix)
    found = lanczos_spectrum(matrix)
    if found is None and cut <= CUT_LIMIT:
        found = factorised_spectrum(matrix)
    if found is None:
        raise InputError(
            f"λ of this network of {size} agents was not found in {MAX_STEPS} Lanczos steps, since "
            "its gap is tiny; give the policy an upper bound on λ, or add edges"
        )
    return found


def dense_spectrum(matrix: sparse.csr_array) -> Spectrum:
    """Return the gaps by a dense eigensolve."""
    eigenvalues = np.linalg.eigvalsh(matrix.toarray())
    return Spectrum(float(1.0 - eigenvalues[-2]), float(1.0 + eigenvalues[0]))


def lanczos_spectrum(matrix: sparse.csr_array) -> Spectrum | None:
    """Return the gaps by Lanczos on P − 11ᵀ/N, or None if it converges too slowly."""

    def apply(vector: Vector) -> Vector:
        return _centred(matrix @ vector)

    ritz = lanczos(apply, matrix.shape[0], _settled)
    if ritz is None:
        return None
    return Spectrum(1.0 - ritz.high, 1.0 + ritz.low)


def factorised_spectrum(matrix: sparse.csr_array) -> Spectrum:
    """Return the gaps from sparse factorisations of I − P and I + P."""
    size = matrix.shape[0]
    # A gap is 1/(largest eigenvalue of an inverse), so tiny gaps keep their digits.
    upper_gap = _inverse_of_largest(_laplacian_inverse(matrix), size, 0.0)
    return Spectrum(upper_gap, _lower_gap(matrix, upper_gap))


def _lower_gap(matrix: sparse.csr_array, upper_gap: float) -> float:
    """Return 1 + λ_N; only roughly where it exceeds `upper_gap`, and so does not decide λ."""
    size = matrix.shape[0]

    def harmless(ritz: Ritz) -> bool:
        gap = 1.0 + ritz.low
        return ritz.low_error <= ROUGH_PRECISION * gap and gap - ritz.low_error >= upper_gap

    # Usually the lower end stays clear of −1, which a few steps show; then that is enough.
    ritz = lanczos(lambda vector: matrix @ vector, size, harmless, max_steps=200)
    if ritz is not None:
        return 1.0 + ritz.low
    positive = _factorise(sparse.eye_array(size) + matrix)
    return _inverse_of_largest(positive, size, upper_gap)


def lanczos(
    apply: Apply, size: int, done: Callable[[Ritz], bool], max_steps: int = MAX_STEPS
) -> Ritz | None:
    """Return both ends of the spectrum of a symmetric operator, or None after `max_steps`.

    Vectors are not reorthogonalised: losing orthogonality only yields copies of eigenvalues already
    found, which does no harm at the ends, and three vectors are all the memory it takes. The error
    bounds β_m |s_m|, with s the eigenvector of the tridiagonal matrix, still hold; the square of
    that over the distance to the next eigenvalue is used where it is smaller.
    """
    vector, previous = _start_vector(size), np.zeros(size)
    diagonal: list[float] = []
    beside: list[float] = [0.0]
    next_check, scale = 20, 1.0
    for step in range(1, max_steps + 1):
        product = apply(vector) - beside[-1] * previous
        diagonal.append(float(vector @ product))
        product -= diagonal[-1] * vector
        beside.append(float(np.linalg.norm(product)))
        scale = max(scale, abs(diagonal[-1]), beside[-1])
        # A vanishing residual means that all eigenvalues in the start vector are found.
        exhausted = beside[-1] <= 1e-13 * scale
        if exhausted or step in (next_check, max_steps):
            ritz = _ends(diagonal, beside)
            if exhausted or done(ritz):
                return ritz
            next_check = int(1.1 * step) + 1
        previous, vector = vector, product / beside[-1]
    return None


def cut_estimate(matrix: sparse.csr_array) -> int:
    """Return an estimate of how many nodes cut the graph in two: the smaller of two cuts.

    A breadth-first level is a cut; so is one node per independent cycle plus one, which is far
    fewer in trees.
    """
    off_diagonal: int = matrix.nnz - np.count_nonzero(matrix.diagonal())
    cycles = off_diagonal // 2 - matrix.shape[0] + 1
    widest = int(np.bincount(breadth_first_depths(matrix, 0)).max())
    return int(min(widest, cycles + 1))


def _settled(ritz: Ritz) -> bool:
    """Whether λ is known to PRECISION of its gap, and the other end does not exceed it."""
    ends = sorted([(abs(ritz.low), ritz.low_error), (abs(ritz.high), ritz.high_error)])
    (small, small_error), (large, large_error) = ends
    known = large_error <= PRECISION * (1.0 - large) + 1e-15
    rough = small_error <= ROUGH_PRECISION * (1.0 - small)
    return known and rough and small + small_error <= large + large_error


def _inverse_of_largest(inverse: Apply, size: int, floor: float) -> float:
    """Return 1/(largest eigenvalue of a positive inverse); only roughly if above `floor`."""

    def done(ritz: Ritz) -> bool:
        rough = ritz.high_error <= ROUGH_PRECISION * ritz.high
        harmless = rough and 1.0 / (ritz.high + ritz.high_error) >= floor > 0.0
        return harmless or ritz.high_error <= PRECISION * ritz.high

    ritz = lanczos(inverse, size, done)
    if ritz is None:
        raise InputError(
            f"λ of this network of {size} agents was not found in {MAX_STEPS} Lanczos steps with "
            "the inverse; give the policy an upper bound on λ, or add edges"
        )
    return 1.0 / ritz.high


def _laplacian_inverse(matrix: sparse.csr_array) -> Apply:
    """Return x -> (I − P)⁺ x, by factorising I − P without its first row and column."""
    edges = matrix - sparse.diags_array(matrix.diagonal())
    # Sums of the edge weights instead of 1 − P_ii, so that rows sum to zero to the last digit.
    laplacian = sparse.csc_array(sparse.diags_array(edges.sum(axis=1)) - edges)
    solve = _factorise(laplacian[1:, 1:])

    def apply(vector: Vector) -> Vector:
        return _centred(np.concatenate([[0.0], solve(_centred(vector)[1:])]))

    return apply


def _factorise(matrix: sparse.sparray) -> Apply:
    # Positive definite, so pivots stay on the diagonal and the ordering can use the symmetry.
    factors = splu(
        sparse.csc_array(matrix),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    solve: Apply = factors.solve
    return solve


def _start_vector(size: int) -> Vector:
    """Return a fixed unit vector, orthogonal to 1 and without any symmetry of a graph."""
    numbers = np.arange(size, dtype=np.float64)
    vector = _centred(np.cos(0.7 * numbers * numbers + 1.0))
    return vector / float(np.linalg.norm(vector))


def _centred(vector: Vector) -> Vector:
    return vector - float(vector.mean())


def _ends(diagonal: list[float], beside: list[float]) -> Ritz:
    centre, inner = np.array(diagonal), np.array(beside[1:-1])
    low, low_error = _lowest(centre, inner, beside[-1])
    # The mirrored spectrum has the same off-diagonal up to signs, which change no eigenvalue.
    high, high_error = _lowest(-centre, inner, beside[-1])
    return Ritz(low, -high, low_error, high_error)


def _lowest(diagonal: Vector, inner: Vector, residual: float) -> tuple[float, float]:
    """Return the lowest eigenvalue of a tridiagonal matrix and a bound on its error."""
    count = min(2, diagonal.size)
    values, vectors = eigh_tridiagonal(diagonal, inner, select="i", select_range=(0, count - 1))
    error = residual * abs(float(vectors[-1, 0]))
    distance = float(values[-1] - values[0])
    return float(values[0]), min(error, error**2 / distance) if distance > 0.0 else error
