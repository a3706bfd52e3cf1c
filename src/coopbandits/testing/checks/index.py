"""What an index declares of itself, held to its `value`: engines that compile it rely on that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.contract import Estimate
from coopbandits.core.draws import normal_of, uniform_of, word_at
from coopbandits.testing.checks import finding

if TYPE_CHECKING:
    from coopbandits.core import Index
    from coopbandits.testing.checks.central import CentralTrial
    from coopbandits.testing.world import Trial

    AnyTrial = Trial | CentralTrial

READS = ("word", "arms", "time")
PULLS = (0, 1, 2, 3, 5, 9, 20, 60, 400)
"""Numbers of pulls behind the estimates that an index is tried on."""

WORDS = (0, 1, 0x9E3779B97F4A7C15, 2**64 - 1)
ROUNDING = 1e-9


@dataclass(frozen=True)
class Case:
    """One choice: what an index is handed."""

    index: Index
    estimate: Estimate
    numbers: tuple[float, ...]
    other: Estimate  # of the same time and number of agents, and of other arms
    others: tuple[float, ...]  # another agent's numbers

    def scratch(self, word: int) -> list[float]:
        """Return the scratch as `prepare` fills it."""
        return self.prepared(self.estimate, word, self.numbers)

    def prepared(self, estimate: Estimate, word: int, numbers: tuple[float, ...]) -> list[float]:
        """Return the scratch as `prepare` fills it with something else."""
        scratch = [0.0] * self.index.scratch_size(len(self.estimate.counts))
        self.index.prepare(estimate, word, numbers, scratch)
        return scratch

    def values(self, word: int, scratch: list[float]) -> list[float]:
        """Return the value of every arm."""
        arms = range(len(self.estimate.counts))
        return [self.index.value(k, self.estimate, word, self.numbers, scratch) for k in arms]

    def where(self) -> str:
        """Say on what the index was tried."""
        sums, counts, time, num_agents = self.estimate[:4]
        shown = f"sums {sums}, counts {counts}, time {time:g}, {num_agents:g} agents"
        return f"index {self.index.spelling}, {shown}"


def index_value(trial: AnyTrial) -> None:
    """The value of an arm is a float, +∞ where it is to be played first, and never a NaN."""
    for case in cases(trial):
        for word in WORDS:
            found = case.values(word, case.scratch(word))
            for arm, value in enumerate(found):
                if not isinstance(value, float) or math.isnan(value):
                    did = f"value of arm {arm} is {value!r} ({case.where()})"
                    raise finding(did, "a float that is a number, or +∞")


def index_random(trial: AnyTrial) -> None:
    """An index that says `random = False` does not read the word."""
    for case in cases(trial):
        if case.index.random:
            continue
        first, *rest = (
            [case.scratch(word), case.values(word, case.scratch(word))] for word in WORDS
        )
        for word, found in zip(WORDS[1:], rest, strict=True):
            if not same(found, first):
                did = f"the word {word} changed values from {first[1]} to {found[1]}"
                expected = "that random = False means so, or random = True"
                raise finding(f"{did} ({case.where()})", expected)


def index_prepare(trial: AnyTrial) -> None:
    """`prepare` looks at nothing beyond what `prepare_reads` says, and `scratch_size` is enough."""
    for case in cases(trial):
        reads = case.index.prepare_reads
        if reads not in READS:
            raise finding(f"prepare_reads is {reads!r}", f"one of {', '.join(READS)}")
        if reads == "word":
            continue
        told = case.scratch(WORDS[0])
        expect_unread(case, told, case.prepared(case.estimate, WORDS[2], case.numbers), "word")
        if reads == "time":
            expect_unread(case, told, case.prepared(case.other, WORDS[0], case.numbers), "arms")
            found = case.prepared(case.estimate, WORDS[0], case.others)
            expect_unread(case, told, found, "numbers that differ between agents")


def expect_unread(case: Case, told: list[float], found: list[float], what: str) -> None:
    """Expect the same values from the scratch that was filled with something else changed."""
    word = WORDS[2] if case.index.random else 0
    values = case.values(word, told), case.values(word, found)
    if not same(*values):
        did = f"prepare reads {what}: values are {values[0]} and {values[1]}"
        expected = f"that prepare_reads = {case.index.prepare_reads!r} means so, or another"
        raise finding(f"{did} ({case.where()})", expected)


def index_values(trial: AnyTrial) -> None:
    """`values`, where an index has them, are those of single arms, or None."""
    for case in cases(trial):
        if case.index.values is None:
            continue
        sums, counts = np.array(case.estimate.sums), np.array(case.estimate.counts)
        for word in WORDS:
            found = case.index.values(
                case.estimate._replace(sums=sums, counts=counts), word, case.numbers
            )
            expected = case.values(word, case.scratch(word))
            if found is not None and not close(np.asarray(found).tolist(), expected):
                did = f"values are {np.asarray(found).tolist()}, one by one {expected}"
                raise finding(f"{did} ({case.where()})", "the same for all arms at once")


def close(left: list[float], right: list[float]) -> bool:
    """Whether values are equal up to rounding."""
    return len(left) == len(right) and np.allclose(left, right, rtol=ROUNDING, atol=ROUNDING)


def index_bound(trial: AnyTrial) -> None:
    """`bound`, where an index has one, is never below the value."""
    for case in cases(trial):
        if case.index.bound is None:
            continue
        for word in WORDS:
            scratch = case.scratch(word)
            for arm, value in enumerate(case.values(word, scratch)):
                bound = case.index.bound(arm, case.estimate, word, case.numbers, scratch)
                if not bound >= value:
                    did = f"bound of arm {arm} is {bound!r}, and its value {value!r}"
                    raise finding(f"{did} ({case.where()})", "a bound that is not below the value")


def index_bonus(trial: AnyTrial) -> None:
    """`bonus`, where an index has one, makes its value: (s + √(a n + c))/n, a and c for all arms.

    It may read neither arms nor their number, and an arm without information has the value +∞.
    """
    for case in cases(trial):
        if case.index.bonus is None:
            continue
        scratch = case.scratch(0)
        pair = case.index.bonus(case.estimate, case.numbers, scratch)
        if case.index.prepare_reads == "time":
            expect_no_arms(case, pair)
        for arm, value in enumerate(case.values(0, scratch)):
            made = bonus_value(case.estimate, arm, *pair)
            if not (value == made or abs(value - made) <= ROUNDING * max(1.0, abs(value))):
                did = f"bonus {pair} makes {made!r} of arm {arm}, and its value is {value!r}"
                raise finding(f"{did} ({case.where()})", "(s + √(a n + c))/n, or +∞ up to n = 0")


def expect_no_arms(case: Case, pair: tuple[float, float]) -> None:
    """Expect the same a and c where no arms can be seen."""
    nothing = Estimate([], [], case.estimate.time, case.estimate.num_agents)
    found = case.index.bonus(nothing, case.numbers, case.prepared(nothing, 0, case.numbers))
    if not same(pair, found):
        did = f"bonus is {pair}, and {found} where it cannot see the arms ({case.where()})"
        raise finding(did, "that prepare and bonus read the time and the number of agents alone")


def bonus_value(estimate: Estimate, arm: int, a: float, c: float) -> float:
    """Return the value that a bonus makes of one arm."""
    total, count = estimate.sums[arm], estimate.counts[arm]
    if count <= NO_INFORMATION * estimate.num_agents:
        return math.inf
    return float((total + math.sqrt(max(0.0, a * count + c))) / count)


def same(left: Any, right: Any) -> bool:
    """Whether two nested lists of floats are equal; NaN is equal to itself."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return len(left) == len(right) and all(map(same, left, right))


def cases(trial: AnyTrial) -> Iterator[Case]:
    """Yield choices to try an index on; none for a policy that is not made of parts."""
    parts = trial.policy.parts
    if parts is None:
        return
    views = trial.views()
    numbers, others = parts.index.numbers(views[0]), parts.index.numbers(views[-1])
    for case, pulls in enumerate(PULLS):
        first, second = (estimate_of(trial, 2 * case + i, pulls + i) for i in range(2))
        other = second._replace(time=first.time, num_agents=first.num_agents)
        yield Case(parts.index, first, numbers, other, others)


def estimate_of(trial: AnyTrial, number: int, pulls: int) -> Estimate:
    """Return the estimate of some pulls; every other one is mixed, with what rounding leaves."""
    assert trial.policy.parts is not None  # noqa: S101  `cases` has seen to it
    registers = trial.policy.parts.statistic.registers(trial.num_arms)
    values, key = registers.zeros(), word_at(trial.seed, number)
    for at in range(pulls):
        arm = int(uniform_of(word_at(key, 2 * at)) * trial.num_arms)
        registers.add(values, arm, 0.5 + 0.3 * normal_of(word_at(key, 2 * at + 1)))
    if number % 4 > 1:
        values = 0.3 * values - 1e-17
    agents = 1.0 + number % 3
    time = max(2.0, float(registers.version(values)))
    told = registers.read(values, time=time, num_agents=agents, anticipation=1.0 + number % 2)
    return told._replace(
        sums=np.asarray(told.sums).tolist(), counts=np.asarray(told.counts).tolist()
    )
