"""What all bounds share: they are curves over rounds, most of them a + b ln(TN)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.problems import Problem

Values: TypeAlias = NDArray[np.float64]

# One round gives a float, an array of rounds an array. Rounds are whole numbers; the type is float
# because the result is.
Rounds = TypeVar("Rounds", float, NDArray[Any])


def over_rounds(formula: Callable[[Values], Values], horizon: Rounds) -> Rounds:
    """Return the formula at T, or at every T of an array; refuse impossible numbers of rounds."""
    rounds = np.asarray(horizon)
    if rounds.dtype.kind not in "iu":
        raise InputError(
            f"horizon {horizon!r} is not made of whole numbers; pass an int or an array of ints"
        )
    if rounds.size and rounds.min() < 1:
        raise InputError(f"horizon holds {rounds.min()}; rounds are counted from 1")
    values = formula(rounds.astype(np.float64))
    return cast("Rounds", values if rounds.ndim else float(values))


def logarithmic(slope: float, constant: float, network: Network, horizon: Rounds) -> Rounds:
    """Return slope · ln(TN) + constant."""
    return over_rounds(lambda T: slope * np.log(T * network.num_agents) + constant, horizon)


def inverse_gaps(problem: Problem) -> float:
    """Return Σ σ²/Δ_k over the arms with Δ_k > 0."""
    gaps = problem.gaps[problem.gaps > 0]
    return float((problem.sigma**2 / gaps).sum())


def total_gap(problem: Problem) -> float:
    """Return Σ Δ_k."""
    return float(problem.gaps.sum())
