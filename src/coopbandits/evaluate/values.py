"""Values of a policy from decisions of another: by weights, by a model, and by both.

The policy in question is told as *chances*: what it would have played in every logged decision. It
does not learn on the way; `replay` is for those that do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.checks import require_count, require_flag, require_positive
from coopbandits.core.errors import InputError
from coopbandits.evaluate.log import DecisionLog
from coopbandits.problems.context_log import ridge_fit, with_intercept

Floats = NDArray[np.float64]
Chances = ArrayLike | Callable[[Floats], ArrayLike]
"""Chances (n, K), or a function that makes them of the log's features."""


class Value(NamedTuple):
    """What a policy would have been paid per decision.

    Attributes
    ----------
    mean : float
        The estimate.
    error : float
        Its standard error.
    effective : float
        How many decisions of the policy's own would tell as much, (Σw)²/Σw² of the weights: few
        where the log rarely did what the policy would do.
    """

    mean: float
    error: float
    effective: float


def ips(log: DecisionLog, chances: Chances, *, normalise: bool = False) -> Value:
    r"""Weigh every reward by how much more often the policy would have played its arm.

    .. math:: \hat V = \frac1n \sum_i \frac{π(a_i | x_i)}{p_i} r_i

    Unbiased where p is the true chance and positive wherever π is. With `normalise` the sum is
    divided by that of the weights instead of n: a little bias, far less variance.
    """
    require_flag("normalise", normalise)
    wanted = read_chances(log, chances)
    weights = wanted[np.arange(len(log)), log.arms] / log.propensities
    if not weights.any():
        raise InputError(
            "the policy would have played none of the logged arms, so the log says nothing about "
            "it; log with a floor on exploration"
        )
    if normalise:
        mean = float(weights @ log.rewards / weights.sum())
        return _value(mean, weights * (log.rewards - mean) / weights.mean() + mean, weights)
    terms = weights * log.rewards
    return _value(float(terms.mean()), terms, weights)


def direct(log: DecisionLog, chances: Chances, *, ridge: float = 1.0) -> Value:
    """Fit a linear model of rewards, and ask it what the policy would have been paid.

    As good as the model: where rewards are not linear in the features it is biased, and no error
    tells.
    """
    wanted = read_chances(log, chances)
    every = np.arange(len(log))
    terms = (wanted * fitted(log, every, every, ridge)).sum(axis=1)
    return _value(float(terms.mean()), terms, np.ones(len(log)))


def doubly_robust(
    log: DecisionLog, chances: Chances, *, ridge: float = 1.0, folds: int = 2
) -> Value:
    r"""Ask a model, and correct it by the weighted rewards that it did not expect.

    .. math:: \hat V = \frac1n \sum_i \Big( \sum_a π(a|x_i)\,\hat q(x_i, a)
        + \frac{π(a_i|x_i)}{p_i}\,(r_i - \hat q(x_i, a_i)) \Big)

    Unbiased if the propensities are right, whatever the model; the better the model, the smaller
    the error (Dudík, Langford, Li 2011). No decision is judged by a model that has seen it: the log
    is cut into `folds` parts, and each has the model of the others.
    """
    require_count("folds", folds, least=2)
    if folds > len(log):
        raise InputError(f"folds is {folds} for {len(log)} decisions; take at most one each")
    wanted = read_chances(log, chances)
    rows = np.arange(len(log))
    model = np.zeros(wanted.shape)
    for fold in range(folds):
        model[rows % folds == fold] = fitted(
            log, rows[rows % folds != fold], rows[rows % folds == fold], ridge
        )
    weights = wanted[rows, log.arms] / log.propensities
    terms = (wanted * model).sum(axis=1) + weights * (log.rewards - model[rows, log.arms])
    return _value(float(terms.mean()), terms, weights if weights.any() else np.ones(len(log)))


def fitted(
    log: DecisionLog, seen: NDArray[np.int64], asked: NDArray[np.int64], ridge: float
) -> Floats:
    """Return what ridge regressions on some decisions expect of every arm in others.

    One model for all arms where they have features of their own, else one per arm; all with an
    intercept, which is not shrunk towards 0 but towards the average reward.
    """
    require_positive("ridge", ridge)
    average = float(log.rewards[seen].mean())
    shared = log.features.shape[1] > 1
    found = np.empty((len(asked), log.num_arms))
    for arm in range(log.num_arms):
        rows = seen if shared else seen[log.arms[seen] == arm]
        at = log.arms[rows] if shared else 0
        seen_features = with_intercept(log.features[rows, at])
        theta = ridge_fit(seen_features, log.rewards[rows] - average, ridge)
        place = arm if shared else 0
        found[:, arm] = average + with_intercept(log.features[asked, place]) @ theta
    return found


def read_chances(log: DecisionLog, chances: Chances) -> Floats:
    """Return chances (n, K), or refuse what are none."""
    given = chances(log.features) if callable(chances) else chances
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"chances are {given!r}; give numbers, one per decision and arm") from None
    if found.shape != (len(log), log.num_arms):
        raise InputError(
            f"chances have shape {found.shape}; give {(len(log), log.num_arms)}, a row per "
            "decision and a column per arm"
        )
    wrong = ~((found >= 0.0).all(axis=1) & (abs(found.sum(axis=1) - 1.0) < 1e-6))
    wrong |= (found * ~log.allowed).any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"chances of decision {row} are {found[row].tolist()}; they must be at least 0, add up "
            "to 1, and be 0 for arms that were not allowed"
        )
    return found


def _value(mean: float, terms: Floats, weights: Floats) -> Value:
    error = float(terms.std(ddof=1) / np.sqrt(len(terms))) if len(terms) > 1 else float("nan")
    return Value(mean, error, float(weights.sum() ** 2 / (weights**2).sum()))
