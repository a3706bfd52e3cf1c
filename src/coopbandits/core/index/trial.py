"""Tries an index of one's own in plain Python, before anything is compiled of it.

Compiled code does not look where it reads and writes: an index that fills more scratch than it asks
for, or reads a number that it does not have, would play garbage or end the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from coopbandits.core.choice import as_lists
from coopbandits.core.contract import Estimate
from coopbandits.core.errors import InputError
from coopbandits.core.index.index import Index
from coopbandits.core.spelling import one_line
from coopbandits.core.statistic import Registers
from coopbandits.core.statistic.linear import in_context

WORD = 0x9E3779B97F4A7C15
"""Some random bits."""

ROUNDS = (0, 1, 3)
"""How often every arm has been pulled where an index is tried."""


class Places(list[float]):
    """Floats of which single places alone are to be used, from the first one on.

    Compiled code knows no more than where they begin: places counted from the end, and the length,
    are lost there.
    """

    def __init__(self, what: str, values: Sequence[float]) -> None:
        super().__init__(values)
        self.what, self.asked_length = what, False

    def _check(self, place: Any) -> None:
        if isinstance(place, slice):
            self.asked_length |= place.stop is None or place.stop < 0 or (place.start or 0) < 0
        elif not 0 <= place < super().__len__():
            raise NoPlaceError(self.what.format(place=place, size=super().__len__()))

    def __getitem__(self, place: Any) -> Any:
        self._check(place)
        return super().__getitem__(place)

    def __setitem__(self, place: Any, value: Any) -> None:
        self._check(place)
        super().__setitem__(place, value)

    def __len__(self) -> int:
        self.asked_length = True
        return super().__len__()

    def __iter__(self) -> Iterator[float]:
        self.asked_length = True
        return super().__iter__()


class NoPlaceError(IndexError):
    """An index used a place that it does not have."""


def try_index(index: Index, numbers: Sequence[float], registers: Registers) -> bool:
    """Refuse an index whose functions fail on small estimates; return whether it can be compiled.

    It cannot where it asks how long its numbers or its scratch are.
    """
    told_numbers = Places(
        "number {place}, and its numbers(view) returns {size}; return all that it reads, and count "
        "from 0",
        numbers,
    )
    asked = False
    for rounds in ROUNDS:
        for word in (0, WORD) if index.random else (0,):
            first, again = _Calls(index), _Calls(index)
            for calls in (first, again):  # each as if it were the only one
                estimate = _estimate(registers, rounds)
                if index.values is not None:
                    calls("values", estimate, word, numbers)
                if not registers.num_features:
                    asked |= _try(calls, as_lists(estimate), word, told_numbers)
                elif index.values is None:
                    _try_with_features(calls, as_lists(estimate), word, numbers)
            first.require_same(again)
    return not (asked or told_numbers.asked_length)


class _Calls:
    """Calls the functions of an index, and notes what each made of its arguments."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.notes: list[tuple[str, str]] = []

    def __call__(self, name: str, *arguments: Any) -> Any:
        found = _called(self.index, name, *arguments)
        # What `prepare` makes is in its scratch, which `copy` does not ask for its length.
        made = arguments[-1].copy() if name == "prepare" else found
        plain = made.tolist() if isinstance(made, np.ndarray) else made
        self.notes.append((name, repr(plain)))  # as text, a NaN is equal to another
        return found

    def require_same(self, again: _Calls) -> None:
        """Reject an index whose results differ on the same arguments."""
        for (name, made), (_, other) in zip(self.notes, again.notes, strict=True):
            if made != other:
                raise InputError(
                    f"{name} of index {self.index.spelling} does something else when it is called "
                    "again with the same arguments; draw from the word that it is given, with "
                    "random = True, and not from random or np.random"
                )


def _try(calls: _Calls, estimate: Estimate, word: int, numbers: Places) -> bool:
    """Call all functions for one choice; return whether it was asked how long the scratch is."""
    index, num_arms = calls.index, len(estimate.counts)
    scratch = _scratch(index, num_arms)
    calls("prepare", estimate, word, numbers, scratch)
    values = []
    for arm in range(num_arms):
        given = (arm, estimate, word, numbers, scratch)
        found = calls("value", *given)
        if not isinstance(found, float | int | np.number | np.bool_):
            raise InputError(
                f"value of index {index.spelling} returns {found!r} for arm {arm}; return a float"
            )
        values.append(float(found))
        if index.bound is not None:
            calls("bound", *given)
    if index.pick is not None:
        found = calls("pick", values, estimate, word, numbers, scratch)
        if not isinstance(found, int | np.integer):
            raise InputError(
                f"pick of index {index.spelling} returns {found!r}; return an arm, an int from 0"
            )
    asked = scratch.asked_length
    if index.bonus is not None:
        calls("bonus", estimate, numbers, scratch)
        if index.prepare_reads == "time":  # there are no arms to see where compiled engines call it
            nothing, scratch = estimate._replace(sums=[], counts=[]), _scratch(index, 1)
            calls("prepare", nothing, word, numbers, scratch)
            calls("bonus", nothing, numbers, scratch)
    return asked or scratch.asked_length


def _try_with_features(
    calls: _Calls, estimate: Estimate, word: int, numbers: Sequence[float]
) -> None:
    """Reject an index on linear models whose functions work on compiled arrays alone."""
    index, num_arms = calls.index, len(estimate.extra.features)
    scratch = [0.0] * _size(index, num_arms)
    try:
        index.prepare(estimate, word, numbers, scratch)
        values = [index.value(arm, estimate, word, numbers, scratch) for arm in range(num_arms)]
    except Exception as error:
        raise InputError(
            f"index {index.spelling} looks at features, and its prepare and value fail in plain "
            f"Python ({one_line(error)}); write values(estimate, word, numbers) as well, which "
            "returns one number per arm"
        ) from error
    calls.notes.append(("value", repr(values)))


def _called(index: Index, name: str, *arguments: Any) -> Any:
    function: Callable[..., Any] = getattr(index, name)
    try:
        return function(*arguments)
    except NoPlaceError as error:
        raise InputError(f"{name} of index {index.spelling} uses {error}") from error
    except InputError:
        raise
    except Exception as error:
        estimate = next(each for each in arguments if isinstance(each, Estimate))
        seen = "no arms" if not len(estimate.counts) else f"counts {np.unique(estimate.counts)}"
        raise InputError(
            f"{name} of index {index.spelling} raises {one_line(error)}, at time {estimate.time:g} "
            f"with {seen}; repair it"
        ) from error


def _scratch(index: Index, num_arms: int) -> Places:
    return Places(
        "place {place} of scratch, which has {size}; return as many as it fills from "
        "scratch_size(num_arms), and count from 0",
        [0.0] * _size(index, num_arms),
    )


def _size(index: Index, num_arms: int) -> int:
    size = index.scratch_size(num_arms)
    if not isinstance(size, int | np.integer) or size < 0:
        raise InputError(
            f"scratch_size of index {index.spelling} returns {size!r} for {num_arms} arms; return "
            "a whole number, at least 0"
        )
    return int(size)


def _estimate(registers: Registers, rounds: int) -> Estimate:
    """Return what is known after so many pulls of every arm."""
    num_arms, size = registers.num_arms, registers.num_features
    values, features = registers.zeros(), np.ones((num_arms, size)) / max(1, size)
    for _ in range(rounds):
        for arm in range(num_arms):
            registers.record(values, arm, 0.5, features[arm] if size else None)
    time = max(2.0, float(registers.pulls(values)))
    estimate = registers.read(values, time=time, num_agents=1.0)
    return in_context(estimate, features) if size else estimate
