"""The tapes: a word depends on its place alone, and different places are unrelated."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core.draws import Words, normals, uniforms, words
from coopbandits.sim.tapes import (
    DECISIONS,
    IDENTITY,
    REWARDS,
    agent_keys,
    arm_order,
    identity_words,
    tape_words,
    variates,
)

PULLS = 5_000
PLACES = list(product((0, 1, 2**63), (REWARDS, DECISIONS), (0, 1, 1000)))


def tapes() -> Iterator[Words]:
    """Three agents' tapes for every seed, stream and run of `PLACES`."""
    for seed, stream, run in PLACES:
        yield tape_words(agent_keys(seed, stream, run, 3), 0, PULLS)


@pytest.fixture(scope="module")
def all_tapes() -> Words:
    return np.concatenate(list(tapes()))


def test_same_place_same_word(all_tapes: Words) -> None:
    assert np.array_equal(all_tapes, np.concatenate(list(tapes())))


def test_no_word_occurs_twice(all_tapes: Words) -> None:
    assert np.unique(all_tapes).size == 3 * len(PLACES) * PULLS


def test_tapes_are_uncorrelated(all_tapes: Words) -> None:
    """At equal pulls and one pull apart; 54 tapes make some 1400 pairs, so 5 standard errors."""
    centred = uniforms(all_tapes) - 0.5
    for later in (0, 1):
        left, right = centred[:, : PULLS - later], centred[:, later:]
        correlations = 12.0 * left @ right.T / (PULLS - later)
        if later == 0:
            np.testing.assert_allclose(np.diag(correlations), 1.0, atol=0.05)
            np.fill_diagonal(correlations, 0.0)
        assert np.abs(correlations).max() < 5.0 / np.sqrt(PULLS)


def test_every_bit_is_fair(all_tapes: Words) -> None:
    """Across agents and runs at one pull number too, where counters are the same."""
    for sample in (all_tapes.ravel(), agent_keys(3, REWARDS, 0, 100_000)):
        for bit in range(64):
            share = ((sample >> np.uint64(bit)) & np.uint64(1)).mean()
            assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(sample.size)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**200),
    run=st.integers(0, 2**40),
    stream=st.sampled_from([REWARDS, DECISIONS]),
    first=st.integers(0, 2**40),
    cut=st.integers(1, 29),
)
def test_chunks_and_agents_change_nothing(
    seed: int, run: int, stream: int, first: int, cut: int
) -> None:
    keys = agent_keys(seed, stream, run, 5)
    assert np.array_equal(agent_keys(seed, stream, run, 3), keys[:3])
    whole = tape_words(keys, first, 30)
    parts = [tape_words(keys, first, cut), tape_words(keys, first + cut, 30 - cut)]
    assert np.array_equal(whole, np.concatenate(parts, axis=1))


def test_a_tape_is_the_sequence_of_its_key() -> None:
    keys = agent_keys(8, REWARDS, 2, 4)
    counters = np.arange(10, 50, dtype=np.uint64)
    for key, row in zip(keys.tolist(), tape_words(keys, 10, 40), strict=True):
        assert np.array_equal(row, words(key, counters))


def test_orders_of_arms_are_equally_likely() -> None:
    """24 orders of four arms in 4800 runs: chi-square with 23 degrees of freedom, 1e-6 quantile."""
    orders = [tuple(arm_order(8, run, 4)) for run in range(4800)]
    counts = np.array([orders.count(order) for order in permutations(range(4))])
    assert counts.sum() == 4800
    assert ((counts - 200) ** 2 / 200).sum() < 69


def test_an_order_depends_on_seed_and_run_alone() -> None:
    assert np.array_equal(arm_order(1, 2, 50), arm_order(1, 2, 50))
    others = [arm_order(seed, run, 50).tolist() for seed in (1, 2) for run in (2, 3)]
    assert len({tuple(order) for order in others}) == 4
    assert arm_order(1, 2, 1).tolist() == [0]


def test_every_agent_is_born_with_a_word_of_its_own() -> None:
    assert identity_words(1, 2, 5) == identity_words(1, 2, 9)[:5]
    everybody = [identity_words(seed, run, 50) for seed in (1, 2) for run in (2, 3)]
    assert len(set().union(*everybody)) == 200
    assert IDENTITY not in (REWARDS, DECISIONS)
    assert all(0 < word < 2**64 for word in everybody[0])


def test_variates_are_what_the_problem_declares(all_tapes: Words) -> None:
    row = all_tapes[:1, :1000]
    assert np.array_equal(variates("normal", row), normals(row))
    assert np.array_equal(variates("uniform", row), uniforms(row))
    assert not np.array_equal(variates("normal", row), variates("uniform", row))
