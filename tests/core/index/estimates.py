"""Estimates of every kind, and all indices in all their settings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from coopbandits.core import (
    INDICES,
    KLUCB,
    MOSS,
    UCB,
    BayesUCB,
    CentredDraw,
    Elimination,
    EpsilonGreedy,
    Estimate,
    Index,
    LocalView,
    RobustUCB,
    TopTwo,
)
from coopbandits.literature import UCL, InflatedUCB

from ..fleet import one_view

SETTINGS: tuple[Index, ...] = (
    *(kind() for kind in INDICES),
    UCB(0.5), InflatedUCB(2.0, "closed"), UCL(2.0, 0.5, 3.0), BayesUCB("bernoulli"), KLUCB(c=3.0),
    KLUCB("bernoulli"), KLUCB("bernoulli", 3.0), MOSS(horizon=500, constant=1.0),
    CentredDraw("estimate"), TopTwo(0.2, "bernoulli"), EpsilonGreedy(0.1), Elimination(500),
    RobustUCB(3.0, 1.5, 1.0),
)  # fmt: skip


def ids(index: Index) -> str:
    return index.spelling


def view_of(num_arms: int, sigma: float = 0.7) -> LocalView:
    told = {"epsilon_c:closed": 1.3}
    return one_view(num_arms=num_arms, sigma=sigma, global_knowledge=told)


def numbers_of(index: Index, num_arms: int, sigma: float = 0.7) -> tuple[float, ...]:
    return index.numbers(view_of(num_arms, sigma))


def told(index: Index, estimate: Estimate) -> Estimate:
    """What an index is told: squares of arms, their sum or none, as its statistic adds them up."""
    num_arms, squares = len(estimate.counts), list(estimate.squares)
    size = index.statistic.registers(num_arms).size - 2 * num_arms
    return estimate._replace(squares=squares if size == num_arms else [sum(squares)] * size)


def prepared(index: Index, estimate: Estimate, word: int, fill: float = math.nan) -> list[float]:
    """The scratch after `prepare`, which finds anything in it."""
    estimate = told(index, estimate)
    scratch = [fill] * index.scratch_size(len(estimate.counts))
    index.prepare(estimate, word, numbers_of(index, len(estimate.counts)), scratch)
    return scratch


counts = st.one_of(
    st.sampled_from([0.0, 1.0, 1e-13, -1e-13, -0.3, 5e-324, -0.0, 1e15]),
    st.floats(-2.0, 1e6),
    st.integers(0, 50).map(float),
)
means = st.one_of(st.floats(-3.0, 3.0), st.sampled_from([0.0, 1.0, 0.5, 1e9, -1e9, 1e100, -1e100]))


@st.composite
def estimates(draw: st.DrawFn, num_arms: int | None = None) -> Estimate:
    """What an aggregation may tell, mixing's leftovers and huge rewards among it.

    With squares of every arm; `told` makes of them what an index asks for.
    """
    size = num_arms or draw(st.sampled_from([1, 2, 3, 5]))
    found = draw(st.lists(counts, min_size=size, max_size=size))
    of_arms = draw(st.lists(means, min_size=size, max_size=size))
    sums = [
        mean * (count or draw(st.sampled_from([0.0, 1e-16, -1.0])))
        for mean, count in zip(of_arms, found, strict=True)
    ]
    scatter = draw(st.sampled_from([1.0, 1.5]))
    squares = [scatter * s * s / n if n > 1e-9 else 0.0 for s, n in zip(sums, found, strict=True)]
    return Estimate(
        sums,
        found,
        time=draw(st.one_of(st.floats(1.0, 1e9), st.just(max(1.0, sum(found))))),
        num_agents=draw(st.sampled_from([1.0, 3.0, 100.0])),
        anticipation=draw(st.sampled_from([1.0, 1.0, 2.5])),
        squares=squares,
    )


words = st.integers(0, 2**64 - 1)


def as_arrays(estimate: Estimate) -> Estimate:
    return estimate._replace(sums=np.array(estimate.sums), counts=np.array(estimate.counts))


def some_estimate(num_arms: int = 3, **changes: Any) -> Estimate:
    """Nothing special: counts 4, 9, 14 … with means falling from 0.6."""
    found = 4.0 + 5.0 * np.arange(num_arms)
    sums = (0.6 - 0.05 * np.arange(num_arms)) * found
    squares = (2.0 * sums**2 / found).tolist()
    made = Estimate(sums, found, float(found.sum()), 1.0, 1.0, squares)
    return made._replace(**changes)
