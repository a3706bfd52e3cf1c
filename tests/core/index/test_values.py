"""All arms at once are what they are one by one; `Index.values` is only faster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coopbandits.core import LocalView
from coopbandits.core.choice import choose_arm, index_values
from coopbandits.core.contract import Estimate
from coopbandits.core.draws import words
from coopbandits.core.index import BetaDraw, CentredDraw, Index, NormalDraw
from coopbandits.core.index.posterior import FEW_BETAS, FEW_NORMALS
from coopbandits.core.registry import INDICES

from .estimates import told

DRAWS = [
    *(kind() for kind in INDICES if kind.values is not None), CentredDraw(sigma="estimate"),
]  # fmt: skip
WORDS = words(5, np.arange(40, dtype=np.uint64)).tolist()


def estimate_of(num_arms: int, seed: int, pulls: int = 500) -> Estimate:
    """Some totals; mixing has left the counts of one arm just below 0."""
    some = np.random.default_rng(seed)  # noqa: TID251  not a tape
    counts = some.integers(0, max(1, pulls), num_arms).astype(float)
    sums = counts * some.random(num_arms)
    sums[0], counts[0] = 1e-17, -1e-17
    squares = np.maximum(0.0, sums)
    return Estimate(sums, counts, max(2.0, counts.sum()), 3.0, some.uniform(1.0, 2.0), squares)


def numbers_of(index: Index, num_arms: int) -> tuple[float, ...]:
    return index.numbers(LocalView(0, 1.0, {}, num_arms=num_arms, sigma=0.7))


@pytest.mark.covering
@pytest.mark.parametrize("index", DRAWS, ids=lambda index: index.spelling)
@pytest.mark.parametrize("num_arms", [FEW_NORMALS, 17, 200])
def test_values_are_those_of_single_arms(index: Index, num_arms: int) -> None:
    for pulls in (0, 3, 500):
        numbers = numbers_of(index, num_arms)
        for seed, word in enumerate(WORDS[: 4000 // num_arms]):
            estimate = told(index, estimate_of(num_arms, seed, pulls))
            singly, _, _ = index_values(index, numbers, estimate, word)
            together = index.values(estimate, word, numbers)
            np.testing.assert_allclose(together, singly, rtol=1e-12, atol=1e-12)
            playable = [3, 1, 7]
            chosen = choose_arm(index, numbers, estimate, word, playable)
            assert chosen == max(playable, key=lambda arm: singly[arm])


@pytest.mark.parametrize("index", [NormalDraw(), CentredDraw(), BetaDraw()], ids=lambda i: i.name)
def test_few_arms_are_drawn_to_the_bit(index: Index) -> None:
    for few in range(1, FEW_BETAS if isinstance(index, BetaDraw) else FEW_NORMALS):
        for seed, word in enumerate([0, 2**64 - 1, *WORDS]):
            estimate, numbers = estimate_of(few, seed, pulls=seed), numbers_of(index, few)
            singly, _, _ = index_values(index, numbers, estimate, word)
            assert index.values(estimate, word, numbers).tolist() == singly


class Upside(BetaDraw):
    """Prefers what the parent avoids."""

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return -BetaDraw.value(arm, estimate, word, numbers, scratch)


class Renamed(BetaDraw):
    """Draws what the parent draws."""


def test_shortcuts_are_not_inherited_with_other_values() -> None:
    estimate = estimate_of(20, 1)
    singly, _, _ = index_values(BetaDraw(), (), estimate, 7)
    shortcuts = [cls.values for cls in (Renamed, Upside)]
    assert shortcuts == [BetaDraw.values, None]
    assert choose_arm(Renamed(), (), estimate, 7) == int(np.argmax(singly))
    assert choose_arm(Upside(), (), estimate, 7) == int(np.argmin(singly))
