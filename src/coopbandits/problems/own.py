"""Reward functions of one's own: what is asked of them, and how they are checked.

Such a function turns the numbers of an arm and one variate into a reward. It is tried before
anything is played: on places of the unit interval that are spread evenly, so that their average is
close to the arm's mean whatever the function does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.draws import normal_quantile
from coopbandits.core.errors import InputError
from coopbandits.problems.checks import float_array

Reward = Callable[[Any, float], float]
"""From the numbers of an arm and a variate to a reward."""

MOST_TRIES = 4096
ALL_TRIES = 65536
FEWEST_TRIES = 64
"""Tries of an arm: at most so many, fewer where there are many arms, but never less than the last.
"""

REPEATED = 16
"""Tries of an arm that are made twice."""

ROUNDING = 1e-9
"""By how much rewards may be beyond their bounds, relative to their size above 1."""

STANDARD_ERRORS = 6.0
"""How far the average of the tries may be from the stated mean. A sampler that scatters its variate
is off by more once in 10⁹ problems."""


def arm_numbers(numbers: ArrayLike, num_arms: int) -> NDArray[np.float64]:
    """Return one row of numbers per arm, or refuse."""
    accepted = "one row of numbers per arm, or one number per arm"
    table = float_array("numbers", numbers, accepted)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[0] != num_arms or table.shape[1] == 0:
        raise InputError(f"numbers have shape {table.shape} for {num_arms} arms; pass {accepted}")
    if not np.isfinite(table).all():
        arm, place = np.argwhere(~np.isfinite(table))[0]
        raise InputError(
            f"number {place} of arm {arm} is {table[arm, place]}; numbers must be finite"
        )
    return table


def check_reward(
    owner: str,
    reward: Reward,
    table: NDArray[np.float64],
    means: NDArray[np.float64],
    sigma: float,
    bounds: tuple[float, float] | None = None,
    *,
    is_normal: bool,
) -> None:
    """Refuse a function that fails, pays what is no finite number, or has other means or bounds.

    So is one that pays something else when it is called again: every engine calls it on its own.
    """
    low, high = _checked_bounds(owner, bounds)
    _, arms = np.unique(np.column_stack([table, means]), axis=0, return_index=True)
    tries = min(MOST_TRIES, max(FEWEST_TRIES, ALL_TRIES // arms.size))
    places = [(i + 0.5) / tries for i in range(tries)]
    variates = [normal_quantile(u) for u in places] if is_normal else places
    for arm in sorted(arms.tolist()):
        paid = np.array([_paid(owner, reward, table[arm], arm, each) for each in variates])
        again = [_paid(owner, reward, table[arm], arm, each) for each in variates[:REPEATED]]
        if paid[:REPEATED].tolist() != again:
            raise InputError(
                f"reward of {owner} pays something else for arm {arm} when it is called again with "
                "the same variate; let it depend on numbers and variate alone"
            )
        slack = ROUNDING * max(1.0, *np.abs(paid))
        if paid.min() < low - slack or paid.max() > high + slack:
            raise InputError(
                f"reward of {owner} pays {paid.min():.4g} to {paid.max():.4g} for arm {arm}, and "
                f"bounds are {low:g} to {high:g}; give bounds that hold, or leave them out"
            )
        spread = max(float(paid.std()), sigma)
        if abs(paid.mean() - means[arm]) > STANDARD_ERRORS * spread / math.sqrt(tries):
            raise InputError(
                f"reward of {owner} pays {paid.mean():.4g} on average for arm {arm}, but its mean "
                f"is stated as {means[arm]:.4g}; regret is computed from means, so make them agree"
            )


def _checked_bounds(owner: str, bounds: Any) -> tuple[float, float]:
    if bounds is None:
        return -math.inf, math.inf
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not low < high:
        raise InputError(
            f"bounds of {owner} are {bounds!r}; give the smallest and the largest reward, in this "
            "order, with -math.inf or math.inf where there is no end"
        )
    return low, high


def _paid(owner: str, reward: Reward, row: Any, arm: int, variate: float) -> float:
    try:
        paid = float(reward(row, variate))
    except Exception as error:
        raise InputError(
            f"reward of {owner} fails for arm {arm} at variate {variate:.4g}: "
            f"{type(error).__name__}: {error}; it is called as reward(numbers, variate)"
        ) from error
    if not math.isfinite(paid):
        raise InputError(
            f"reward of {owner} pays {paid} for arm {arm} at variate {variate:.4g}; rewards must "
            "be finite numbers"
        )
    return paid
