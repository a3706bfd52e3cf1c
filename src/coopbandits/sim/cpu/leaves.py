"""Compiled leaves: the small scalar functions that kernels are made of.

Where the original is scalar (`reward_from_variate`, `normal_quantile`), numba compiles that very
source. The generators of `core.draws` work on arrays or on Python's integers; they are restated
here for 64-bit words, and a test checks that both agree bit for bit.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, types

from coopbandits.core import draws
from coopbandits.core.contract import Vector
from coopbandits.core.statistic.arm_sums import counts_of, sums_of
from coopbandits.problems import rewards
from coopbandits.sim.cpu.compiling import calling, inner, rarely, seldom

kernel = partial(njit, cache=True, no_cfunc_wrapper=True)
"""As `njit`, for functions that Python calls; what C would need takes time to compile."""

_tabulated = inner(forceinline=True)(rewards.reward_from_variate)
normal_quantile = inner(draws.normal_quantile)

_CUBICS = draws.normal_cubics()

SQUEEZE, SQUEEZED_FROM = 0.2, 0.31
"""Thresholds that decide most trials without a logarithm; see `gamma_of`."""

_GOLDEN = np.uint64(draws.GOLDEN)
_MIX_1 = np.uint64(draws.MIX_1)
_MIX_2 = np.uint64(draws.MIX_2)
_CELL_SHIFT = np.uint64(64 - draws.CELL_BITS)
_PLACE_SHIFT = np.uint64(64 - draws.CELL_BITS - draws.PLACE_BITS)
_PLACE_MASK = np.uint64((1 << draws.PLACE_BITS) - 1)
_FIRST_CELL = draws.TAIL_CELLS
_END_CELL = (1 << draws.CELL_BITS) - draws.TAIL_CELLS
FOREVER = 1 << 62
_TWELVE, _27, _30, _31 = (
    np.uint64(12),
    np.uint64(27),
    np.uint64(30),
    np.uint64(31),
)


@inner(forceinline=True)
def word_at(key: Any, pull: int) -> Any:
    x = np.uint64(key) + np.uint64(pull + 1) * _GOLDEN
    x = (x ^ (x >> _30)) * _MIX_1
    x = (x ^ (x >> _27)) * _MIX_2
    return x ^ (x >> _31)


@inner(forceinline=True)
def word_of(uniform: float) -> Any:
    """Return a word that a uniform stands for."""
    return word_at(np.uint64(uniform * 2.0**52), 0)


@inner(forceinline=True)
def remainder_of(word: Any, shift: int, size: int) -> Any:
    """Return what is left of a word's upper bits."""
    return np.int64((word >> np.uint64(shift)) % np.uint64(size))


@inner(forceinline=True)
def uniform(word: Any) -> float:
    return (np.float64(word >> _TWELVE) + 0.5) * 2.0**-52


@inner(forceinline=True)
def normal(word: Any, cubics: Any) -> float:
    cell = np.int64(word >> _CELL_SHIFT)
    if cell < _FIRST_CELL or cell >= _END_CELL:
        rarely()
        return normal_quantile(uniform(word))
    x = np.float64(np.int64((word >> _PLACE_SHIFT) & _PLACE_MASK))
    c = 4 * cell
    return cubics[c] + x * (cubics[c + 1] + x * (cubics[c + 2] + x * cubics[c + 3]))


@inner(forceinline=True)
def normal_of(word: Any) -> float:
    """Return one standard normal; the table is compiled in."""
    return normal(np.uint64(word), _CUBICS)


@inner
def gamma_of(key: Any, shape: float) -> float:
    """Return one Gamma(shape, 1) variate; see `core.draws.gamma_of`.

    A trial x, u is taken if ln u < r = x²/2 + d(1 − v + ln v). As e^r ≥ 1 + r, and r ≥ −0.2 c² x⁴
    where 1 + c x > 0.31, all but about 7 % / d of the trials are decided without logarithms.
    """
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    trial = 0
    while True:
        x, u = normal_of(word_at(key, 2 * trial)), uniform(word_at(key, 2 * trial + 1))
        base, square = 1.0 + c * x, c * x * x
        v = base * base * base
        if base > SQUEEZED_FROM and u < 1.0 - SQUEEZE * square * square:
            return d * v
        if base > 0.0 and math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return d * v
        trial += 1


@inner(forceinline=True)
def variate(is_normal: bool, word: Any, cubics: Any) -> float:
    """Return a normal or a uniform, as the problem declares."""
    return normal(word, cubics) if is_normal else uniform(word)


_FLOATS = types.CPointer(types.float64)
REWARD = types.float64(_FLOATS, types.int64, types.float64)
"""The signature of a reward function; see `own_rewards`."""

_pay = calling(REWARD)


@inner(forceinline=True)
def reward_from_variate(form_kind: int, table: Any, arm: Any, variate: float) -> float:
    """Return the reward of one pull; a kind that none of ours has is a function's address."""
    if seldom(form_kind > rewards.OWN):
        return _pay(form_kind, table[arm], table.shape[1], variate)
    return _tabulated(form_kind, table, arm, variate)


@inner
def count_up_to(stops: Any, r: int) -> int:
    """Return how many of some ascending numbers are at most r.

    numpy's own search does the same, but takes a second to compile.
    """
    low, high = 0, stops.size
    while low < high:
        middle = (low + high) // 2
        if stops[middle] <= r:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def segment_of(starts: Any, period: int, done: int) -> int:
    """Return the segment that holds after so many rounds; see `Tables`."""
    if starts.size == 1:
        return 0
    return count_up_to(starts, done % period if period > 0 else done) - 1


@inner
def segment_end(starts: Any, period: int, done: int) -> int:
    """Return after how many rounds the next segment begins."""
    if starts.size == 1:
        return FOREVER
    within = done % period if period > 0 else done
    following = count_up_to(starts, within)
    if following < starts.size:
        return done - within + starts[following]
    return done - within + period if period > 0 else FOREVER


@inner(forceinline=True)
def square_place(num_arms: int, squares: int, arm: int) -> int:
    """Return the register to which the squares of an arm's rewards add; see `Layout.squares`."""
    return 2 * num_arms + (arm if squares > 1 else 0)


@inner(fastmath={"reassoc"}, forceinline=True)
def sum_of(row: Any, first: int, size: int) -> float:
    """Return the sum of so many numbers of a row, in any order: each would wait for the last."""
    found = 0.0
    for w in range(np.uintp(first), np.uintp(first + size)):
        found += row[w]
    return found


@kernel
def best_arm(values: Vector) -> int:
    """Return the lowest arm within rounding of the largest value; see `core.choice.best_arm`."""
    largest = values[0]
    for k in range(1, values.size):
        largest = max(largest, values[k])
    if np.isfinite(largest):
        largest -= 1e-9 * max(1.0, abs(largest))
    for k in range(values.size):
        if values[k] >= largest:
            return k
    return 0  # unreachable: the largest value passes its own test


def cache_folder() -> Path:
    """Return the folder in which numba caches what it compiles from here."""
    return Path(best_arm.stats.cache_path)


VIEWS = {part: njit(part, inline="always") for part in (sums_of, counts_of)}
"""Functions that return a part of an array, which only its owner counts references to."""
