"""From an estimate to an arm: open pulls, ties, and an index evaluated in plain Python."""

from __future__ import annotations

import contextlib
import math
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Estimate, Vector
from coopbandits.core.errors import IndexFailedError, InputError
from coopbandits.core.spelling import one_line

if TYPE_CHECKING:
    from coopbandits.core.index import Index


class NotANumberError(InputError):
    """The index of some arm is NaN."""

    def __init__(self, arm: int, values: Sequence[float]) -> None:
        super().__init__(f"the index of arm {arm} is not a number: {values}; repair the index")
        self.arm = arm


NO_INFORMATION = 1e-12
"""A count per agent up to this carries no information: the index is +∞, never a NaN."""


def with_open_pulls(estimate: Estimate, open_pulls: NDArray[np.int64]) -> Estimate:
    """Count open pulls as pulls that showed exactly what was expected.

    The mean of an arm stays, its uncertainty shrinks, so that a burst of choices before the first
    reward spreads over the arms. An arm never seen is expected to be average.
    """
    if not np.count_nonzero(open_pulls):
        return estimate
    seen = estimate.counts > NO_INFORMATION * estimate.num_agents
    if np.count_nonzero(seen) == seen.size:  # as mostly: no arm is expected to be average
        means = estimate.sums / estimate.counts
        return estimate._replace(
            sums=estimate.sums + open_pulls * means,
            counts=estimate.counts + open_pulls,
            squares=_with_squares(estimate, open_pulls * means**2),
        )
    total = estimate.counts[seen].sum()
    average = estimate.sums[seen].sum() / total if total > 0 else 0.0
    means = np.full(estimate.counts.size, average)
    means[seen] = estimate.sums[seen] / estimate.counts[seen]
    return estimate._replace(
        sums=np.where(seen, estimate.sums, 0.0) + open_pulls * means,
        counts=np.where(seen, estimate.counts, 0.0) + open_pulls,
        squares=_with_squares(estimate, open_pulls * means**2),
    )


def _with_squares(estimate: Estimate, added: Vector) -> Any:
    """Return the sums of squares, pooled or per arm, with squares of every arm added."""
    kept = len(estimate.squares)
    return estimate.squares + (added if kept == added.size else added.sum()) if kept else ()


def as_lists(estimate: Estimate) -> Estimate:
    """Return an estimate with sums, counts and squares as lists of Python's own floats."""
    sums, counts, time, num_agents, anticipation, squares, extra, certain = estimate
    return Estimate(
        np.asarray(sums).tolist(),
        np.asarray(counts).tolist(),
        time,
        num_agents,
        anticipation,
        np.asarray(squares).tolist() if len(squares) else (),
        extra,
        certain,
    )


def index_values(
    index: Index, numbers: Sequence[float], estimate: Estimate, word: int
) -> tuple[list[float], Estimate, list[float]]:
    """Return the index of every arm, and what `pick` may read: lists and the filled scratch.

    The functions of an index are those that compiled engines are made of; here they get lists of
    Python's own floats, on which scalar arithmetic is several times faster than on arrays.
    """
    read = as_lists(estimate)
    scratch = [0.0] * index.scratch_size(len(read.sums))
    index.prepare(read, word, numbers, scratch)
    value = index.value
    values = [value(k, read, word, numbers, scratch) for k in range(len(read.sums))]
    return values, read, scratch


def choose_arm(
    index: Index,
    numbers: Sequence[float],
    estimate: Estimate,
    word: int,
    allowed: Sequence[int] | None = None,
) -> int:
    """Return what an index plays on an estimate, one of `allowed` where that is given."""
    if not isinstance(estimate, Estimate):
        raise InputError(
            f"a machine's estimate returned {estimate!r}; return what registers.read does, or a "
            "cb.Estimate"
        )
    word = word if index.random else 0  # as in every engine: who is not random sees no word
    try:
        shortcut = index.values if index.pick is None else None
        if shortcut is not None and isinstance(estimate.sums, np.ndarray):
            together = shortcut(estimate, word, numbers)
            if together is not None:
                return best_arm(together.tolist(), allowed)
        values, read, scratch = index_values(index, numbers, estimate, word)
        if index.pick is None:
            return best_arm(values, allowed)
        playable = _only(values, allowed)
        arm = index.pick(playable, read, word, numbers, scratch)
        is_arm = isinstance(arm, int | np.integer) and 0 <= arm < len(values)
        if not is_arm or playable[arm] == -math.inf:
            raise IndexFailedError(f"index {index.spelling} picked arm {arm}; repair its pick")
        return int(arm)
    except NotANumberError as error:
        raise IndexFailedError(
            f"index {index.spelling} returned NaN for arm {error.arm}; return a number, or "
            "math.inf to play an arm first"
        ) from error
    except InputError:
        raise
    except Exception as error:
        raise IndexFailedError(_failure(index, numbers, estimate, word, error)) from error


def _failure(
    index: Index, numbers: Sequence[float], estimate: Estimate, word: int, error: Exception
) -> str:
    """Return the sentence on an index that raised: what, where, and for which arm."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if each.filename != __file__]
    of_arm = ""
    with contextlib.suppress(Exception):  # `prepare` may be what fails
        read = as_lists(estimate)
        scratch = [0.0] * index.scratch_size(len(read.sums))
        index.prepare(read, word, numbers, scratch)
        for arm in range(len(read.sums)):
            of_arm = f" for arm {arm}"
            index.value(arm, read, word, numbers, scratch)
        of_arm = ""
    at = f" ({own[-1].filename}:{own[-1].lineno}: {own[-1].line})" if own else ""
    name = f" in {own[0].name}" if own else ""
    return (
        f"index {index.spelling} raised {one_line(error)}{name}{of_arm}{at}; guard against it, and "
        "return math.inf to play an arm first"
    )


def best_arm(values: Sequence[float] | Vector, allowed: Sequence[int] | None = None) -> int:
    """Return the lowest arm whose index is within rounding of the largest.

    One rule in every engine, since rounding differs between them: the lowest k with
    index_k ≥ m − 1e-9·max(1, |m|), m the largest index.
    """
    found = _only(values, allowed)
    largest = max(found)
    if math.isfinite(largest):
        largest -= 1e-9 * max(1.0, abs(largest))
    for k in range(len(found)) if allowed is None else sorted(allowed):
        if found[k] >= largest:
            return int(k)
    raise AssertionError("no value reaches the largest")


def best_arms(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return what `best_arm` returns for every row, on values that are numbers."""
    largest = values.max(axis=1, keepdims=True)
    slack = np.where(np.isfinite(largest), 1e-9 * np.maximum(1.0, np.abs(largest)), 0.0)
    found: NDArray[np.int64] = (values >= largest - slack).argmax(axis=1)
    return found


def _only(values: Sequence[float] | Vector, allowed: Sequence[int] | None) -> list[float]:
    """Return the values, −∞ for arms that are not allowed; refuse values that are no numbers."""
    found = values if isinstance(values, list) else np.asarray(values).tolist()
    if math.isnan(sum(found)) and any(map(math.isnan, found)):  # the sum says so sooner
        raise NotANumberError(next(k for k, value in enumerate(found) if math.isnan(value)), found)
    if allowed is None:
        return found
    if not allowed:
        raise InputError("no arm is allowed; allow at least one")
    if min(allowed) < 0 or max(allowed) >= len(found):
        raise InputError(f"allowed arms {sorted(allowed)} must lie in 0 to {len(found) - 1}")
    return [value if k in allowed else -math.inf for k, value in enumerate(found)]
