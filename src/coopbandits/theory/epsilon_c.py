"""ε_c of coop-UCB: how much worse an agent's running consensus is than the central average.

Both forms need all eigenvalues and eigenvectors of P, which no agent could find by itself.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.mixing import LAMBDA_ZERO
from coopbandits.network import Network
from coopbandits.theory.curves import Values

DENSE_LIMIT = 4000
"""The most agents for which all eigenvectors of P are computed."""

REPEATED = 1e-9
"""Eigenvalues closer than this count as equal."""


class Eigenpairs(NamedTuple):
    """Eigenvalues of P, ascending with the leading 1 last, and eigenvectors as columns."""

    values: Values
    vectors: Values


def eigenpairs(network: Network) -> Eigenpairs:
    """Return all eigenpairs of P by a dense symmetric eigensolver; refuse large networks."""
    if network.num_agents > DENSE_LIMIT:
        raise InputError(
            f"all eigenvalues of P are computed densely, for at most {DENSE_LIMIT} agents; this "
            f"network has {network.num_agents}, so use a policy or bound that needs λ alone"
        )
    values, vectors = np.linalg.eigh(network.matrix.toarray())
    return Eigenpairs(values, vectors)


def epsilon_c(network: Network, form: str = "closed") -> Values:
    r"""Return ε_c of every agent, N numbers.

    The closed form is

    .. math:: ε_c^i = N \sum_{j≥2} \frac{λ_j^2}{1-λ_j^2} (u_j^i)^2

    with orthonormal eigenvectors u_j. It does not depend on their choice where eigenvalues repeat,
    and its mean over agents is Σ_{j≥2} λ_j²/(1 − λ_j²). Landgren, Srivastava and Leonard (2016)
    define

    .. math::
        ε_c^i = N \sum_p \sum_{j≥2} \frac{\lvertλ_pλ_j\rvert}{1-\lvertλ_pλ_j\rvert} a_{pj}(i)

    where, with π^d = u_p^d u_j^d, ν⁺ = Σ_d max(π^d, 0) and ν⁻ = Σ_d min(π^d, 0), a_pj(i) is ν⁺π^i
    if λ_pλ_j ≥ 0 and π^i ≥ 0; ν⁻π^i if λ_pλ_j ≥ 0 and π^i ≤ 0; max(|ν⁻|, ν⁺)|π^i| otherwise.

    Parameters
    ----------
    network : Network
        At most 4000 agents, since everything is dense; either form takes O(N³) operations, the
        second with a much larger constant.
    form : {"closed", "landgren"}
        Which of the two.

    Warns
    -----
    UserWarning
        With "landgren", if nonzero eigenvalues repeat (cycles, grids): the value then depends on
        which eigenvectors the solver happens to return.

    Examples
    --------
    >>> paw = Network([(1, 2), (2, 3), (1, 3), (3, 4)])
    >>> epsilon_c(paw).round(4).tolist()
    [0.9905, 0.9905, 0.0, 3.4286]
    >>> epsilon_c(paw, form="landgren").round(4).tolist()
    [2.311, 2.311, 0.0, 5.4286]
    """
    if form not in ("closed", "landgren"):
        raise unknown_name("form of epsilon_c", form, ("closed", "landgren"))
    pairs = eigenpairs(network)
    if form == "closed":
        return _closed(pairs)
    if _repeats(pairs.values):
        warnings.warn(
            "Landgren's ε_c depends on the choice of eigenvectors, and eigenvalues of P repeat "
            'here; the closed form epsilon_c(network, form="closed") does not depend on it',
            stacklevel=2,
        )
    return _landgren(pairs)


def _closed(pairs: Eigenpairs) -> Values:
    squares = pairs.values[:-1] ** 2
    result: Values = pairs.vectors[:, :-1] ** 2 @ (squares / (1.0 - squares))
    return pairs.values.size * result


def _landgren(pairs: Eigenpairs) -> Values:
    values, vectors = pairs
    total = np.zeros(values.size)
    for value, vector in zip(values, vectors.T, strict=True):
        products = value * values[:-1]
        sizes = np.abs(products)
        shares = _shares(vector[:, np.newaxis] * vectors[:, :-1], products)
        total += shares @ (sizes / (1.0 - sizes))
    return values.size * total


def _repeats(values: Values) -> bool:
    """Whether nonzero eigenvalues repeat; zeros do not enter the sum."""
    counted = values[np.abs(values) > LAMBDA_ZERO]
    return bool((np.diff(counted) < REPEATED).any())


def _shares(overlaps: Values, products: Values) -> Values:
    """Return a_pj(i), agents × j, for one p; `overlaps` holds π^i, `products` λ_p λ_j."""
    above = np.maximum(overlaps, 0.0).sum(axis=0)
    below = np.minimum(overlaps, 0.0).sum(axis=0)
    same_sign = np.where(overlaps >= 0, above, below) * overlaps
    opposite = np.maximum(-below, above) * np.abs(overlaps)
    result: Values = np.where(products >= 0, same_sign, opposite)
    return result
