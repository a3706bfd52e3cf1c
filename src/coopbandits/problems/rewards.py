"""How a variate of the tape becomes a reward: the formulas that need only a table.

Each formula is here twice, side by side: `reward_from_variate` for one pull, in plain Python that
numba compiles from this very source, and `rewards_from_variates` for arrays. Both do the same
floating-point operations in the same order, so they agree bit for bit.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]

LOCATION_SCALE = 0
"""Row (mean, sigma), normal variate z: the reward is mean + sigma·z."""

THRESHOLD = 1
"""Row (p,), uniform variate u: the reward is 1 where u < p and 0 elsewhere."""

LINEAR = 2
"""Row (start, end, start, end, …), uniform variate u: the quantile function in cells of equal
probability, straight from start to end inside each."""

STEP = 3
"""Row (n, value, value, …), uniform variate u: one of the n values, each equally likely; what
follows the n values is padding."""


OWN = 4
"""Row of numbers that only the problem's own function `reward` can read; see `Problem`."""


class RewardForm(NamedTuple):
    """A problem's rewards as plain data, for compiled kernels.

    Attributes
    ----------
    kind : int
        LOCATION_SCALE, THRESHOLD, LINEAR, STEP or OWN; all arms of a problem share it.
    table : array of shape (K, M)
        One row per arm, read as the kind says; C-contiguous float64, not writeable.
    """

    kind: int
    table: Floats


def reward_bounds(form: RewardForm) -> tuple[float, float] | None:
    """Return the smallest and the largest reward; None where only a function knows."""
    if form.kind == OWN:
        return None
    if form.kind == LOCATION_SCALE:
        return -math.inf, math.inf
    if form.kind == THRESHOLD:
        return 0.0, 1.0
    rewards = form.table
    if form.kind == STEP:
        places = np.arange(1, rewards.shape[1])
        rewards = rewards[:, 1:][places <= rewards[:, :1]]
    return float(rewards.min()), float(rewards.max())


def reward_from_variate(form_kind: int, table: Floats, arm: int, variate: float) -> float:
    """Return the reward of one pull.

    Parameters
    ----------
    form_kind, table
        The two fields of a `RewardForm`.
    arm : int
        The pulled arm, 0 … K−1; not checked.
    variate : float
        Standard normal or uniform in (0, 1), as the problem declares.
    """
    if form_kind == LOCATION_SCALE:
        return float(table[arm, 0] + table[arm, 1] * variate)
    if form_kind == THRESHOLD:
        return 1.0 if variate < table[arm, 0] else 0.0
    if form_kind == LINEAR:
        cells = table.shape[1] // 2
        position = variate * cells
        # The minimum keeps the index in the row if the variate was rounded up to 1.
        cell = min(int(position), cells - 1)
        start = table[arm, 2 * cell]
        return float(start + (position - cell) * (table[arm, 2 * cell + 1] - start))
    size = int(table[arm, 0])
    return float(table[arm, 1 + min(int(variate * size), size - 1)])


def rewards_from_variates(form: RewardForm, arms: Integers, variates: Floats) -> Floats:
    """Return the rewards of many pulls; element by element equal to `reward_from_variate`."""
    table = form.table
    if form.kind == LOCATION_SCALE:
        rewards = table[arms, 0] + table[arms, 1] * variates
    elif form.kind == THRESHOLD:
        rewards = np.where(variates < table[arms, 0], 1.0, 0.0)
    elif form.kind == LINEAR:
        cells = table.shape[1] // 2
        position = variates * cells
        cell = np.minimum(position.astype(np.int64), cells - 1)
        start = table[arms, 2 * cell]
        rewards = start + (position - cell) * (table[arms, 2 * cell + 1] - start)
    else:
        size = table[arms, 0].astype(np.int64)
        rewards = table[arms, 1 + np.minimum((variates * size).astype(np.int64), size - 1)]
    return np.asarray(rewards, dtype=np.float64)


def moved_table(form: RewardForm, change: Floats) -> Floats:
    """Return the table of arms whose means have changed by so much, where one of ours tells."""
    table = form.table.copy()
    if form.kind == THRESHOLD:
        table[:, 0] = np.clip(table[:, 0] + change, 0.0, 1.0)
    elif form.kind == LOCATION_SCALE:
        table[:, 0] += change
    elif form.kind == LINEAR:
        table += change[:, None]
    else:
        values = np.arange(1, table.shape[1]) <= table[:, :1]
        table[:, 1:] += np.where(values, change[:, None], 0.0)
    return table
