"""The forms of a compiled choice, as sources: `choices` puts an index's functions into them.

Each is a C function over a block of agents; a fourth tells how far an index explores. `prepare`,
`value`, `bound`, `bonus`, `pick` and the names in capitals that start with READS_ or IS_ are
placeholders here. Every array is a pointer, and its places are counted by hand: rows of registers,
contexts and numbers either belong to one agent each, or, with a stride of 0, to all.

The digest has no effect. But numba files what it compiles under the values that a function closes
over, and so under the digest of the index.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import carray

from coopbandits.core.contract import Estimate
from coopbandits.core.statistic.linear import Model
from coopbandits.sim.cpu.compiling import inner
from coopbandits.sim.cpu.leaves import best_arm, word_at

FACTOR, TIME, AGENTS, AHEAD = range(4)
"""A row of `contexts`: totals are `factor` times a row of registers; then as in `Estimate`."""

CONTEXT = 4

LAST, LEVEL, TROUBLE = range(3)
"""A row of `memory`: the arm played last, a level for cheaper choices, and what went wrong.

If something went wrong, the first two are the arm (−1 for none in particular) and the round,
counted from 0. Such an agent plays arm 0 until the driver looks."""

STOP_ROUND, STOP_ARM = 3, 4
"""Where agents may stop: the first round in which one need not have pulled, counted from 1, and
what it would recommend then."""

MEMORY, STOP_MEMORY = 3, 5
STOP_NUMBERS = 3

_TIME, _AGENTS, _LEVEL = np.uintp(TIME), np.uintp(AGENTS), np.uintp(LEVEL)
_TROUBLE = np.uintp(TROUBLE)
"""Unsigned: added to an unsigned place they leave it so, and nothing counts from the end."""

NO_NUMBER, NO_ARM = 1.0, 2.0
"""Kinds of trouble: an index raised an exception or returned NaN; it picked no existing arm."""

FIXED = 4
"""Scratch beside what an index asks for, per arm: sums, counts, squares, values."""

MOST_ARMS = 1 << 30
"""Never reached. But told so, the compiler knows that no place is negative, and saves a check each
time: arrays with signed places may be counted from the end."""

ROUNDING = 4e-9
"""Indices that differ by less, relative to their size above 1, may tie."""

READS_WORD = READS_ARMS = IS_RANDOM = IS_MASKED = IS_STOPPING = IS_APART = False
IS_DISJOINT = IS_CHECKED = False
LEAST = 0.0
prepare: Any = None
value: Any = None
pick: Any = None
bound: Any = None
bonus: Any = None
leader: Any = None


@inner
def best_of(values: Any) -> int:
    """Return the arm to play; see `core.choice.best_arm`."""
    arm: Any = np.uintp(0)
    best, second = -1e300, -1e300
    for k in range(np.uintp(values.size)):
        value = values[k]
        arm = k if value > best else arm
        second = max(second, min(best, value))
        best = max(best, value)
    if best - second > ROUNDING * max(1.0, abs(best)) and best < math.inf:
        return np.int64(arm)  # type: ignore[return-value]  # an int to numba
    return best_arm(values)


@inner
def first_nan(values: Any) -> int:
    """Return the lowest arm whose value is not a number, or −1."""
    for k in range(values.size):
        if math.isnan(values[k]):
            return k
    return -1


@inner
def fail(memory: Any, note: int, trouble: float, arm: int, pull: int) -> int:
    """Note the first trouble of an agent; return the arm to play until the driver looks."""
    if memory[note + TROUBLE] == 0.0:
        memory[note + LAST], memory[note + LEVEL] = float(arm), float(pull)
        memory[note + TROUBLE] = trouble
    return 0


def by_value(digest: str) -> Any:
    """Return the plain form: the value of every arm.

    Where agents may play some arms only, an agent's numbers begin with a 0 or a 1 for every arm.
    Where they may stop, all numbers begin with σ, δ and how far below the best is good enough; and
    where certified sums and counts are not those of the row, they begin in the middle of it.
    """

    def choose(
        rows_at: Any, row_stride: int, contexts_at: Any, context_stride: int, keys_at: Any,
        pull: int, numbers_at: Any, numbers_stride: int, memory_at: Any, scratch_at: Any,
        arms_at: Any, start: int, end: int, num_arms: int, num_squares: int,
    ) -> int:  # fmt: skip
        if num_arms <= 0 or num_arms >= MOST_ARMS:
            return len(digest)
        rows, contexts, keys = carray(rows_at, 1), carray(contexts_at, 1), carray(keys_at, 1)
        memory, arms = carray(memory_at, 1), carray(arms_at, 1)
        totals = carray(scratch_at, 2 * num_arms + num_squares)
        each = carray(scratch_at, (FIXED, num_arms))
        sums, counts, squares, values = each[0], each[1], each[2][:num_squares], each[3]
        scratch = carray(scratch_at, 1 << 40)[FIXED * num_arms :]
        time, agents, word = -1.0, -1.0, np.uint64(0)
        width = np.uintp(2 * num_arms + num_squares)  # unsigned: nothing counts from the end
        for agent in range(start, end):
            note = agent * (STOP_MEMORY if IS_STOPPING else MEMORY)
            if IS_CHECKED and memory[note + TROUBLE] > 0.0:
                arms[agent] = 0
                continue
            row, context = np.uintp(agent * row_stride), agent * context_stride
            is_new_row = agent == start or row_stride > 0
            is_new_time = contexts[context + TIME] != time or contexts[context + AGENTS] != agents
            time, agents = contexts[context + TIME], contexts[context + AGENTS]
            if is_new_row:
                factor = contexts[context + FACTOR]
                for k in range(width):
                    totals[k] = factor * rows[row + k]
            estimate = Estimate(
                sums, counts, time, agents, contexts[context + AHEAD], squares, (), None
            )
            numbers = carray(numbers_at, 1 << 40)[agent * numbers_stride :]
            playable = numbers
            if IS_MASKED:
                numbers = numbers[num_arms:]
            if IS_STOPPING:
                if memory[note + STOP_ROUND] == 0.0:
                    certain = totals
                    if IS_APART:
                        begin = agent * row_stride + row_stride // 2
                        certain = carray(rows_at, 1 << 40)[begin : begin + 2 * num_arms]
                    paid, pulls = certain[:num_arms], certain[num_arms : 2 * num_arms]
                    ahead, lead = leader(paid, pulls, numbers[0], numbers[1])
                    if lead > -numbers[2]:
                        memory[note + STOP_ROUND], memory[note + STOP_ARM] = pull + 1.0, ahead
                numbers = numbers[STOP_NUMBERS:]
            if IS_RANDOM:
                word = word_at(keys[agent], pull)
            is_ready = True
            if READS_WORD or is_new_time or (READS_ARMS and is_new_row):
                is_ready = prepare(estimate, word, numbers, scratch)
            for k in range(num_arms):
                values[k] = value(k, estimate, word, numbers, scratch)
            if IS_CHECKED:
                nan = first_nan(values) if is_ready else -1
                if nan >= 0 or not is_ready:
                    arms[agent] = fail(memory, note, NO_NUMBER, nan, pull)
                    continue
            if IS_MASKED:
                for k in range(num_arms):
                    if playable[k] == 0.0:
                        values[k] = -math.inf
            arm = pick(values, estimate, word, numbers, scratch)
            if IS_MASKED and 0 <= arm < num_arms and playable[arm] == 0.0:
                arm = num_arms  # as good as one that does not exist
            if arm < 0 or arm >= num_arms:
                arm = fail(memory, note, NO_ARM, -1, pull)
            arms[agent] = arm
        return 1

    return choose


def by_bound(digest: str) -> Any:
    """Return the form for an index with a cheap upper bound: few arms need their value.

    The arm played last comes first, and an arm whose bound is below its value cannot win.
    """

    def choose(
        rows_at: Any, row_stride: int, contexts_at: Any, context_stride: int, keys_at: Any,
        pull: int, numbers_at: Any, numbers_stride: int, memory_at: Any, scratch_at: Any,
        arms_at: Any, start: int, end: int, num_arms: int, num_squares: int,
    ) -> int:  # fmt: skip
        if num_arms <= 0 or num_arms >= MOST_ARMS:
            return len(digest)
        rows, contexts, keys = carray(rows_at, 1), carray(contexts_at, 1), carray(keys_at, 1)
        memory, arms = carray(memory_at, 1), carray(arms_at, 1)
        totals = carray(scratch_at, 2 * num_arms + num_squares)
        each = carray(scratch_at, (FIXED, num_arms))
        sums, counts, squares, values = each[0], each[1], each[2][:num_squares], each[3]
        scratch = carray(scratch_at, 1 << 40)[FIXED * num_arms :]
        time, agents, word = -1.0, -1.0, np.uint64(0)
        width = np.uintp(2 * num_arms + num_squares)  # unsigned: nothing counts from the end
        for agent in range(start, end):
            note = agent * MEMORY
            if IS_CHECKED and memory[note + TROUBLE] > 0.0:
                arms[agent] = 0
                continue
            row, context = np.uintp(agent * row_stride), agent * context_stride
            is_new_time = contexts[context + TIME] != time or contexts[context + AGENTS] != agents
            time, agents = contexts[context + TIME], contexts[context + AGENTS]
            factor = contexts[context + FACTOR]
            for k in range(width):
                totals[k] = factor * rows[row + k]
            estimate = Estimate(
                sums, counts, time, agents, contexts[context + AHEAD], squares, (), None
            )
            numbers = carray(numbers_at, 1 << 40)[agent * numbers_stride :]
            if IS_RANDOM:
                word = word_at(keys[agent], pull)
            is_ready = True
            if READS_WORD or is_new_time or READS_ARMS:
                is_ready = prepare(estimate, word, numbers, scratch)
            last = np.int64(memory[note + LAST])
            best = value(last, estimate, word, numbers, scratch)
            for k in range(num_arms):
                values[k] = bound(k, estimate, word, numbers, scratch)
            enough = best - ROUNDING * max(1.0, abs(best)) if best < math.inf else best
            for k in range(num_arms):
                if k == last:
                    values[k] = best
                elif values[k] >= enough or values[k] != values[k]:
                    values[k] = value(k, estimate, word, numbers, scratch)
                    if values[k] - ROUNDING * max(1.0, abs(values[k])) > enough:
                        enough = values[k] - ROUNDING * max(1.0, abs(values[k]))
                else:
                    values[k] = -math.inf
            if IS_CHECKED:
                nan = first_nan(values) if is_ready else -1
                if nan >= 0 or not is_ready:
                    arms[agent] = fail(memory, note, NO_NUMBER, nan, pull)
                    continue
            arm = best_of(values)
            arms[agent] = arm
            memory[note + LAST] = arm
        return 1

    return choose


@inner(fastmath={"contract"})
def reaching(
    rows: Any, row: int, num_arms: Any, growth: float, offset: float, least: float, threshold: float
) -> int:
    """Return the number of arms whose index is at least `threshold`, without a branch.

    All arms had information when the threshold was found; otherwise it is infinite, and nothing
    reaches it. One that has been forgotten since, up to `least`, reaches any threshold.
    """
    found = 0
    for k in range(num_arms):
        count = rows[row + num_arms + k]
        lack = threshold * count - rows[row + k]
        found += int((growth * count + offset >= lack * abs(lack)) | (count <= least))
    return found


@inner(forceinline=True)
def bonus_index(total: float, count: float, radicand: float, least: float) -> float:
    """Return the index of one arm, +∞ without information."""
    return (total + math.sqrt(radicand)) / count if count > least else math.inf


@inner
def rootless(rows: Any, row: int, num_arms: Any, growth: float, offset: float, least: float) -> int:
    """Return the lowest arm whose index is not a number, or −1."""
    for k in range(num_arms):
        count = rows[row + num_arms + k]
        if count > least and not growth * count + offset >= 0.0:
            return np.int64(k)  # type: ignore[return-value]  # an int to numba
    return -1


@inner(forceinline=True)
def closer_look(
    rows: Any, row: int, growth: float, offset: float, least: float, values: Any, floor: float
) -> tuple[int, float, float]:
    """Return the arm to play, its index and the second best, which is at least `floor`.

    `values` is room for all.
    """
    width = np.uintp(values.size)
    arm: Any = np.uintp(0)
    best, second = floor, floor
    for k in range(width):
        total, count = rows[row + k], rows[row + width + k]
        lack, radicand = second * count - total, growth * count + offset
        if radicand >= lack * abs(lack) or count <= least:
            found = bonus_index(total, count, radicand, least)
            if found > best:
                best, second, arm = found, best, k
            else:
                second = max(second, found)
    if best == math.inf or best - second <= ROUNDING * max(1.0, abs(best)):
        for k in range(width):
            total, count = rows[row + k], rows[row + width + k]
            values[k] = bonus_index(total, count, growth * count + offset, least)
        arm = np.uintp(best_arm(values))
    return arm, best, second


def by_bonus(digest: str) -> Any:
    """Return the form for an index (s + √(a n + c))/n: choosing without roots and divisions.

    Whether an index reaches some level V, s + √(a n + c) ≥ V n, takes neither root nor division.
    The level in memory is one that only the index of the arm played last exceeded then; as long as
    that remains so, nothing else is computed. Rows are not scaled: with totals f times a row, the
    index is the same with a/f and c/f².
    """

    def choose(
        rows_at: Any, row_stride: int, contexts_at: Any, context_stride: int, keys_at: Any,
        pull: int, numbers_at: Any, numbers_stride: int, memory_at: Any, scratch_at: Any,
        arms_at: Any, start: int, end: int, num_arms: int, num_squares: int,
    ) -> int:  # fmt: skip
        if num_arms <= 0 or num_arms >= MOST_ARMS:
            return len(digest)
        rows, contexts = carray(rows_at, 1), carray(contexts_at, 1)
        memory, arms = carray(memory_at, 1), carray(arms_at, 1)
        values, nothing = carray(scratch_at, num_arms), carray(scratch_at, 0)
        scratch = carray(scratch_at, 1 << 40)[FIXED * num_arms :]
        time, agents, word, is_ready = -1.0, -1.0, np.uint64(0), True
        growth, offset, least, share = 0.0, 0.0, 0.0, 0.0
        width = np.uintp(num_arms)  # unsigned: nothing counts from the end
        settings = carray(numbers_at, (1 << 30, numbers_stride))
        for agent in range(np.uintp(start), np.uintp(end)):
            row, note = agent * np.uintp(row_stride), agent * np.uintp(MEMORY)
            if IS_CHECKED and memory[note + _TROUBLE] > 0.0:
                arms[agent] = 0
                continue
            is_first, is_new_time = agent == np.uintp(start), False
            if is_first or context_stride > 0:
                context = agent * np.uintp(context_stride)
                is_new_time = contexts[context + _TIME] != time
                is_new_time |= contexts[context + _AGENTS] != agents
                time, agents = contexts[context + _TIME], contexts[context + _AGENTS]
                share = 1.0 / contexts[context]
                least = LEAST * agents * share
            if is_first or context_stride > 0 or numbers_stride > 0:
                estimate = Estimate(nothing, nothing, time, agents, 1.0, nothing, (), None)
                numbers = settings[agent]
                if IS_CHECKED:  # a shared row has a stride of 0, and so no length
                    numbers = carray(numbers_at, 1 << 40)[np.int64(agent) * numbers_stride :]
                if is_new_time:
                    is_ready = prepare(estimate, word, numbers, scratch)
                growth, offset = bonus(estimate, numbers, scratch)
                growth, offset = growth * share, offset * share * share
            if IS_CHECKED and not (is_ready and growth >= 0.0 and offset >= 0.0):
                nan = rootless(rows, row, width, growth, offset, least) if is_ready else -1
                if nan >= 0 or not is_ready:
                    arms[agent] = fail(memory, np.int64(note), NO_NUMBER, nan, pull)
                    continue
            last, threshold = np.uintp(np.int64(memory[note])), memory[note + _LEVEL]
            count = rows[row + width + last]
            slack = ROUNDING * max(1.0, abs(threshold))
            lack = (threshold + slack) * count - rows[row + last]
            arms[agent], floor = np.int64(last), -1e300
            if growth * count + offset >= lack * abs(lack):
                found = reaching(rows, row, width, growth, offset, least, threshold)
                if found == 1:
                    continue
                if found > 1:  # so the second best is above it, too
                    floor = threshold - slack
            arm, best, second = closer_look(rows, row, growth, offset, least, values, floor)
            arms[agent] = np.int64(arm)
            memory[note] = float(arm)
            memory[note + _LEVEL] = 0.2 * best + 0.8 * second  # the best falls, the others rise
        return 1

    return choose


def by_features(digest: str) -> Any:
    """Return the form for an index on linear models, of which registers are made.

    The scratch begins with room for every model, (d + 1, d + 1) each, and for the values of the
    arms; then come the features (agent, arm, d). `num_squares` is d.
    """

    def choose(
        rows_at: Any, row_stride: int, contexts_at: Any, context_stride: int, keys_at: Any,
        pull: int, numbers_at: Any, numbers_stride: int, memory_at: Any, scratch_at: Any,
        arms_at: Any, start: int, end: int, num_arms: int, num_squares: int,
    ) -> int:  # fmt: skip
        size = num_squares
        if num_arms <= 0 or num_arms >= MOST_ARMS or size <= 0 or size >= MOST_ARMS:
            return len(digest)
        width = size + size * (size + 1) // 2 + 1
        models = num_arms if IS_DISJOINT else 1
        contexts, keys, arms = carray(contexts_at, 1), carray(keys_at, 1), carray(arms_at, 1)
        whole = carray(scratch_at, 1 << 40)
        taken = models * (size + 1) * (size + 1)
        scratch = whole[:taken].reshape((models, size + 1, size + 1))
        values = whole[taken : taken + num_arms]
        memory, word = carray(memory_at, 1), np.uint64(0)
        for agent in range(start, end):
            first, context = agent * row_stride, agent * context_stride
            rows = carray(rows_at, 1 << 40)[first : first + models * width]
            each = rows.reshape((models, width))
            begin = taken + num_arms + agent * num_arms * size
            features = whole[begin : begin + num_arms * size].reshape((num_arms, size))
            model = Model(each[:, size : width - 1], features, None)
            estimate = Estimate(
                each[:, :size], each[:, width - 1], contexts[context + TIME],
                contexts[context + AGENTS], contexts[context + AHEAD], (), model, None,
            )  # fmt: skip
            numbers = carray(numbers_at, 1 << 40)[agent * numbers_stride :]
            playable = numbers
            if IS_MASKED:
                numbers = numbers[num_arms:]
            if IS_RANDOM:
                word = word_at(keys[agent], pull)
            prepare(estimate, word, numbers, scratch)
            for k in range(num_arms):
                values[k] = value(k, estimate, word, numbers, scratch)
            nan = first_nan(values)
            if IS_MASKED:
                for k in range(num_arms):
                    if playable[k] == 0.0:
                        values[k] = -math.inf
            if nan >= 0:
                arms[agent] = fail(memory, agent * MEMORY, NO_NUMBER, nan, pull)
            else:
                arms[agent] = best_of(values)
        return 1

    return choose


def explorations(digest: str) -> Any:
    """Return the form that tells a of an index (s + √(a n + c))/n at many times."""

    def explore(
        times_at: Any, rounds: int, agents: float, numbers_at: Any, scratch_at: Any, found_at: Any
    ) -> int:
        """Return whether c is 0 at all of them."""
        times, found = carray(times_at, 1), carray(found_at, 1)
        numbers, scratch = carray(numbers_at, 1 << 40), carray(scratch_at, 1 << 40)
        nothing, word = carray(scratch_at, 0), np.uint64(0)
        is_plain = len(digest) > 0
        for r in range(rounds):
            estimate = Estimate(nothing, nothing, times[r], agents, 1.0, nothing, (), None)
            prepare(estimate, word, numbers, scratch)
            growth, offset = bonus(estimate, numbers, scratch)
            found[r] = growth
            is_plain &= offset == 0.0
        return int(is_plain)

    return explore
