"""Words and what is made of them: known answers, distribution, independence of order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta, gamma, kstest

from coopbandits.core.draws import (
    CELL_BITS,
    TAIL_CELLS,
    betas,
    betas_of,
    gamma_of,
    gammas,
    mix,
    normal_of,
    normal_quantile,
    normals,
    normals_of,
    stream_key,
    uniform_of,
    uniforms,
    word_at,
    word_of,
    words,
    words_of,
)

MILLION = words(2024, np.arange(1_000_000, dtype=np.uint64))


def counters(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, dtype=np.uint64)


def test_splitmix64_known_answer() -> None:
    assert words(1234567, np.arange(5, dtype=np.uint64)).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_keys_and_counters_wrap_around_quietly() -> None:
    largest = 2**64 - 1
    assert words(largest, counters(largest)).tolist() == mix(counters(largest)).tolist()
    assert words(0, counters(largest)).tolist() == mix(counters(0)).tolist() == [0]


def test_mixing_function_is_one_to_one_on_a_sample() -> None:
    assert np.unique(MILLION).size == MILLION.size


def test_words_do_not_depend_on_order_or_chunks() -> None:
    backwards = words(2024, np.arange(1000, dtype=np.uint64)[::-1])
    assert backwards[::-1].tolist() == MILLION[:1000].tolist()
    chunks = [words(2024, np.arange(a, a + 250, dtype=np.uint64)) for a in range(0, 1000, 250)]
    assert np.concatenate(chunks).tolist() == MILLION[:1000].tolist()
    square = normals(MILLION[:1000].reshape(20, 50))
    assert square.ravel().tolist() == normals(MILLION[:1000]).tolist()
    assert [float(normals(MILLION[i : i + 1])[0]) for i in range(100)] == square.ravel()[
        :100
    ].tolist()


def test_words_of_many_keys_are_those_of_each() -> None:
    keys, places = words(3, counters(0, 1, 2)), counters(5, 2**64 - 1)
    table = words_of(keys[:, None], places[None, :])
    for key, row in zip(keys.tolist(), table, strict=True):
        assert np.array_equal(row, words(key, places))


def test_keys_of_streams_differ_wherever_their_places_do() -> None:
    places = [(0,), (0, 0), (0, 1), (1, 0), (3, 0, 0), (3, 0, 0, 0), (3, 1, 0, 0), (3, 0, 1, 0)]
    keys = {stream_key(seed, *place) for seed in (0, 1, 2**100) for place in places}
    assert len(keys) == 3 * len(places)
    assert stream_key(7, 1, 2) == stream_key(7, 1, 2)
    assert all(0 <= key < 2**64 for key in keys)


def test_uniforms_lie_strictly_inside() -> None:
    """At the outermost words too: Φ⁻¹ has no value at 0 and 1."""
    first, last = uniforms(counters(0, 2**64 - 1))
    assert 0.0 < first < 2.0**-50
    assert 1.0 - 2.0**-50 < last < 1.0


def test_normals_of_the_outermost_words_are_finite() -> None:
    low, high = normals(counters(0, 2**64 - 1))
    assert -9.0 < low < -8.0
    assert 8.0 < high < 9.0


def test_uniforms_are_uniform() -> None:
    sample = uniforms(MILLION)
    assert kstest(sample, "uniform").pvalue > 0.01
    assert sample.mean() == pytest.approx(0.5, abs=4 * (1 / 12) ** 0.5 / 1000)
    assert sample.var() == pytest.approx(1 / 12, rel=0.005)


def test_every_bit_is_fair() -> None:
    for bit in range(64):
        ones = int(((MILLION >> np.uint64(bit)) & np.uint64(1)).sum())
        assert abs(ones - 500_000) < 4.5 * 500


def test_normals_have_the_normal_moments() -> None:
    sample = normals(MILLION)
    assert kstest(sample, "norm").pvalue > 0.01
    assert sample.mean() == pytest.approx(0.0, abs=0.004)
    assert sample.var() == pytest.approx(1.0, abs=0.006)
    assert (sample**3).mean() == pytest.approx(0.0, abs=0.016)
    assert (sample**4).mean() == pytest.approx(3.0, abs=0.04)


def test_normals_are_the_quantiles_of_the_uniforms() -> None:
    assert np.abs(normals(MILLION) - ndtri(uniforms(MILLION))).max() < 1e-9


def test_normals_are_exact_around_every_cell_border() -> None:
    """First and last word of every cell, the outermost words of all included."""
    first = np.arange(1 << CELL_BITS, dtype=np.uint64) << np.uint64(64 - CELL_BITS)
    last = first + np.uint64((1 << (64 - CELL_BITS)) - 1)
    for border in (first, last):
        assert np.abs(normals(border) - ndtri(uniforms(border))).max() < 1e-9


def test_normals_are_monotone_in_the_word() -> None:
    ordered = np.sort(MILLION)
    # The table's cubics meet with an error of 1e-9, so that monotone means: up to that.
    assert np.diff(normals(ordered)).min() > -1e-9


def test_tails_and_centre_are_both_hit() -> None:
    cells = (MILLION >> np.uint64(64 - CELL_BITS)).astype(np.int64)
    edge = (1 << CELL_BITS) - TAIL_CELLS
    assert (cells < TAIL_CELLS).any()
    assert (cells >= edge).any()
    assert ((cells >= TAIL_CELLS) & (cells < edge)).any()


SMALL = [1e-300, 1e-20, 2.0**-54, 1e-12, 1e-6, 0.01, 0.0749, 0.0751, 0.3, 0.5]
LARGE = [0.7, 0.9249, 0.9251, 0.99, 1 - 1e-6, 1 - 1e-12, 1 - 2.0**-53]


def test_quantile_agrees_with_scipy() -> None:
    for p in SMALL + LARGE:
        assert normal_quantile(p) == pytest.approx(float(ndtri(p)), rel=1e-13, abs=1e-15)


@pytest.mark.covering(3)
@pytest.mark.parametrize("key", [0, 1, 2, 2023, 2025, 2**63, 2**64 - 1])
def test_keys_are_independent(key: int) -> None:
    other = uniforms(words(key, np.arange(1_000_000, dtype=np.uint64)))
    correlation = np.corrcoef(uniforms(MILLION), other)[0, 1]
    assert abs(correlation) < 4.5 / 1000


@pytest.mark.parametrize("lag", [1, 2, 17, 1000])
def test_neighbouring_words_are_independent(lag: int) -> None:
    sample = uniforms(MILLION)
    assert abs(np.corrcoef(sample[:-lag], sample[lag:])[0, 1]) < 4.5 / 1000


KEYS = MILLION[:100_000]
SHAPES = [1.0, 1.3, 2.0, 5.5, 40.0, 1e4, 1e8]


def naive_gamma(key: int, shape: float) -> tuple[float, int]:
    """Marsaglia and Tsang (2000), one variate; and the trials it took."""
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    for trial in range(100):
        x = float(normals(words(key, counters(2 * trial)))[0])
        u = float(uniforms(words(key, counters(2 * trial + 1)))[0])
        if 1 + c * x <= 0:
            continue
        v = (1 + c * x) ** 3
        if math.log(u) < x**2 / 2 + d - d * v + d * math.log(v):
            return d * v, trial + 1
    raise AssertionError("a hundred trials")


@pytest.mark.parametrize("shape", SHAPES)
def test_gammas_have_the_gamma_distribution(shape: float) -> None:
    sample = gammas(KEYS, np.full(KEYS.size, shape))
    assert kstest(sample, gamma(shape).cdf).pvalue > 0.01
    standard = (sample - shape) / math.sqrt(shape)
    assert standard.mean() == pytest.approx(0.0, abs=4 / math.sqrt(KEYS.size))
    # Fourth moment of a standardised gamma: 3 + 6/shape.
    spread = math.sqrt((2 + 6 / shape) / KEYS.size)
    assert standard.var() == pytest.approx(1.0, abs=4 * spread)
    assert np.isfinite(sample).all()
    assert (sample > 0).all()


@pytest.mark.parametrize("shape", SHAPES[:-1])
def test_gammas_are_the_naive_ones(shape: float) -> None:
    naive = [naive_gamma(int(key), shape) for key in KEYS[:3000]]
    found = gammas(KEYS[:3000], np.full(3000, shape))
    np.testing.assert_allclose(found, [value for value, _ in naive], rtol=1e-12)
    trials = {trial for _, trial in naive}
    assert max(trials) >= (2 if shape < 100 else 1)  # rejections are part of what was compared


def test_a_rejection_shifts_nobody() -> None:
    """Another shape in one place, which takes other trials there, leaves all the rest."""
    shapes = np.full(200, 1.0)
    before = gammas(KEYS[:200], shapes)
    rejected = [i for i in range(200) if naive_gamma(int(KEYS[i]), 1.0)[1] > 1]
    assert rejected
    for place in (*rejected, 0, 199):
        changed = shapes.copy()
        changed[place] = 300.0
        after = gammas(KEYS[:200], changed)
        assert after[place] > 100.0
        assert np.delete(after, place).tolist() == np.delete(before, place).tolist()
        assert gammas(KEYS[place : place + 1], shapes[:1]).tolist() == [before[place]]


@pytest.mark.parametrize(
    ("a", "b"),
    [(1.0, 1.0), (1.0, 9.0), (2.5, 1.0), (30.0, 50.0), (1e8, 1e8), (1.0, 1e8), (1e8, 2.0)],
)
def test_betas_have_the_beta_distribution(a: float, b: float) -> None:
    size = 50_000
    sample = betas(12345, np.full(size, a), np.full(size, b))
    assert kstest(sample, beta(a, b).cdf).pvalue > 0.01
    assert sample.mean() == pytest.approx(a / (a + b), abs=4 * beta(a, b).std() / math.sqrt(size))
    assert sample.var() == pytest.approx(beta(a, b).var(), rel=0.06)
    assert ((sample > 0) & (sample <= 1)).all()


def test_betas_of_one_arm_do_not_hang_on_the_others() -> None:
    a, b = np.linspace(1.0, 5.0, 40), np.linspace(3.0, 1.0, 40)
    before = betas(77, a, b)
    for place in range(40):
        other = a.copy()
        other[place] += 10.0
        after = betas(77, other, b)
        assert after[place] != before[place]
        assert np.delete(after, place).tolist() == np.delete(before, place).tolist()


def test_betas_of_different_words_are_independent() -> None:
    ones = np.ones(50_000)
    first, second = betas(1, ones, ones), betas(2, ones, ones)
    assert abs(np.corrcoef(first, second)[0, 1]) < 4.5 / math.sqrt(50_000)
    # Within one word too: arm k takes the words k and K + k, and no arm another's.
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 4.5 / math.sqrt(50_000)


# One number at a time, as indices ask for them.

SOME_KEYS = [0, 1, 2**63, 2**64 - 1, *MILLION[:40].tolist()]


def test_one_word_is_that_of_many() -> None:
    for key in SOME_KEYS:
        for counter in (0, 1, 7, 2**32, 2**64 - 1):
            assert word_at(key, counter) == int(words(key, counters(counter))[0])
    assert type(word_at(5, 5)) is int


def test_one_uniform_is_that_of_many() -> None:
    drawn = [*MILLION[:3000].tolist(), 0, 2**64 - 1]
    assert [uniform_of(word) for word in drawn] == uniforms(np.array(drawn, np.uint64)).tolist()


def test_one_normal_is_that_of_many() -> None:
    """In the tails too, and at the edges of cells."""
    edges = [cell << (64 - CELL_BITS) for cell in range(1 << CELL_BITS)]
    drawn = [*MILLION[:3000].tolist(), *edges, *(edge - 1 for edge in edges[1:]), 2**64 - 1]
    assert [normal_of(word) for word in drawn] == normals(np.array(drawn, np.uint64)).tolist()


@pytest.mark.parametrize("size", [0, 1, 2, 10, 49, 130])
def test_normals_of_one_key_are_those_of_its_words(size: int) -> None:
    for key in (0, 2**64 - 1, *MILLION[:200].tolist()):
        assert normals_of(key, size) == [normal_of(word_at(key, i)) for i in range(size)]


@pytest.mark.parametrize("size", [0, 1, 3, 7, 20])
def test_betas_of_one_key_are_those_of_its_gammas(size: int) -> None:
    """Rejected trials too, which about one key in twenty has."""
    shapes = [1.0 + 3.0 * k for k in range(size)] + [1.0 + 0.1 * k for k in range(size)]
    for key in (0, 2**64 - 1, *MILLION[:200].tolist()):
        drawn = [gamma_of(word_at(key, k), shape) for k, shape in enumerate(shapes)]
        pairs = zip(drawn[:size], drawn[size:], strict=True)
        assert betas_of(key, shapes) == [a / (a + b) for a, b in pairs]


@pytest.mark.parametrize("shape", [1.0, 1.5, 2.0, 30.0, 1e6])
def test_one_gamma_is_that_of_many(shape: float) -> None:
    keys = MILLION[:3000]
    many = gammas(keys, np.full(keys.size, shape)).tolist()
    found = [gamma_of(key, shape) for key in keys.tolist()]
    assert found == many


def test_gammas_meet_all_that_can_reject_them() -> None:
    """Among these keys are first trials below 0, and such that are rejected otherwise."""
    firsts = [1.0 + normal_of(word_at(key, 0)) / math.sqrt(6.0) for key in MILLION[:3000].tolist()]
    assert min(firsts) <= 0.0
    rejected = [
        not math.isclose(first**3 * (2 / 3), gamma_of(key, 1.0))
        for key, first in zip(MILLION[:3000].tolist(), firsts, strict=True)
        if first > 0.0
    ]
    assert 0.0 < np.mean(rejected) < 0.2


def test_words_of_uniforms_are_as_good_as_those_they_were_made_from() -> None:
    words_of = [word_of(uniform_of(word_at(7, place))) for place in range(4000)]
    assert len(set(words_of)) == 4000
    assert all(0 <= word < 2**64 for word in words_of)
    assert kstest([uniform_of(word) for word in words_of], "uniform").pvalue > 1e-3
