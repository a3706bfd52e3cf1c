"""The spans of rounds that kernels are launched for, and what pulls count in them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coopbandits.core.aggregate.forgetting import decayed_rounds
from coopbandits.core.contract import Vector
from coopbandits.core.policy import Parts
from coopbandits.sim.gpu.backend import Backend
from coopbandits.sim.record import Task

FOREVER = 1 << 60

Weigh = Callable[[float, int], Vector]
"""From a discount and a number of rounds: what a pull of each of them adds to registers, and last
what a pull of the round after them would."""


def units_of_the_start(discount: float, rounds: int) -> Vector:
    """Weigh pulls by what one of the first round counts; see `sim.cpu.ageing`."""
    return discount ** -np.arange(rounds + 1.0)


def units_of_the_end(discount: float, rounds: int) -> Vector:
    """Weigh pulls by what they count after the span; see `sim.cpu.staged.Stages`."""
    return discount ** np.arange(float(rounds), -1.0, -1.0)


def discount_of(parts: Parts) -> float:
    """Return what is left of a pull after a round."""
    found: float = getattr(parts.aggregation, "discount", 1.0)
    return found


def passed_of(parts: Parts, horizon: int) -> Vector:
    """Return what all pulls of an agent count in each round."""
    discount = discount_of(parts)
    passed: Vector = discount * decayed_rounds(discount, np.arange(float(horizon)))
    return passed


class Spans:
    """Spans, uploaded together."""

    def __init__(
        self,
        task: Task,
        spans: list[tuple[int, int]],
        backend: Backend,
        discount: float,
        weigh: Weigh,
    ) -> None:
        firsts, rounds = (np.array(column, dtype=np.int64) for column in zip(*spans, strict=True))
        slots = np.searchsorted(task.rounds, firsts, side="right")
        ends = np.searchsorted(task.rounds, firsts + rounds, side="right")
        self.firsts, self.rounds, self.slots, self.stops = firsts, rounds, slots, ends - slots
        lists = [
            np.append(task.rounds[slot:end] - first, FOREVER)
            for slot, end, first in zip(slots, ends, firsts, strict=True)
        ]
        starts = np.cumsum([0, *(each.size for each in lists[:-1])])
        self.listed = backend.upload(np.concatenate(lists).astype(np.int64))
        self.ages = {}
        for size in set(rounds.tolist()) if discount != 1.0 else ():
            weights = weigh(discount, size)
            self.ages[size] = backend.upload(np.stack([weights, 1.0 / weights], axis=1))
        ages = [self.ages[size].address if self.ages else 0 for size in rounds.tolist()]
        table = [firsts, rounds, self.listed.address + 8 * starts, slots, self.stops, ages]
        self.table = backend.upload(np.stack(table, axis=1).astype(np.int64))

    def address(self, number: int) -> int:
        """Return where a span stands."""
        place: int = self.table.address + 48 * number
        return place
