"""Pairs of parts that fit, chosen so that every part is in one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from coopbandits.core.aggregate import AnyAggregation, CentralAggregation
from coopbandits.core.index import Index
from coopbandits.core.policy import fits

T = TypeVar("T")
A = TypeVar("A", bound=AnyAggregation | CentralAggregation)


def turned(parts: Sequence[T], at: int) -> list[T]:
    """Return the parts from a place on, and then those before it."""
    at %= len(parts)
    return [*parts[at:], *parts[:at]]


def fitting(aggregation: AnyAggregation | CentralAggregation, indices: Sequence[Index]) -> Index:
    """Return the first index that fits."""
    return next(index for index in indices if fits(aggregation, index))


def covering(aggregations: Sequence[A], indices: Sequence[Index]) -> list[tuple[A, Index]]:
    """Return one pair of every index, and one of every aggregation that is in none of them."""
    found = [
        (next(each for each in turned(aggregations, at) if fits(each, index)), index)
        for at, index in enumerate(indices)
    ]
    paired = {aggregation for aggregation, _ in found}
    return found + [
        (aggregation, fitting(aggregation, turned(indices, at)))
        for at, aggregation in enumerate(aggregations)
        if aggregation not in paired
    ]
