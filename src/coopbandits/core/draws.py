"""Variates from 64-bit words: the only source of chance there is.

A word is a pure function of a key and a counter, so any driver can make any part of a tape in any
order and gets the same numbers. The generator is SplitMix64 (Steele, Lea, Flood 2014): a counter in
steps of the golden ratio, then a mixing function. A word becomes a uniform by its upper 52 bits,
and a normal by the quantile function, tabulated as cubics where it is smooth.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Vector

Words = NDArray[np.uint64]


# Constants are arrays without dimensions: to make one of a number costs as much as to use it.


def _word(number: int) -> Words:
    return np.array(number, dtype=np.uint64)


def _number(number: float) -> Vector:
    return np.array(number)


GOLDEN = _word(0x9E3779B97F4A7C15)
MIX_1 = _word(0xBF58476D1CE4E5B9)
MIX_2 = _word(0x94D049BB133111EB)
ONE, _12, _27, _30, _31 = map(_word, (1, 12, 27, 30, 31))
ZERO, HALF, ULP = map(_number, (0.0, 0.5, 2.0**-52))

CELL_BITS = 11
"""The unit interval is cut into 2^11 cells, each with its own cubic."""

PLACE_BITS = 48
"""The place inside a cell is told by the next 48 bits, which a float64 holds exactly."""

TAIL_CELLS = 28
"""In so many cells at either end the quantile function is computed, not tabulated."""

CELL_SHIFT = _word(64 - CELL_BITS)
PLACE_SHIFT = _word(64 - CELL_BITS - PLACE_BITS)
PLACE_MASK = _word((1 << PLACE_BITS) - 1)

_ALL_BITS = (1 << 64) - 1
_PLACE_BITS_SET = (1 << PLACE_BITS) - 1

_LANE = 128
"""Bits from one word to the next in an integer that holds several: as many as a product has."""

FEW = 16
"""So many rejected trials are made again one by one, which is faster than as arrays."""

TRIAL = np.array([[0], [1]], dtype=np.uint64)
"""Counters of the two words of a first trial."""

TINY = _number(2.0**-340)
"""A number whose cube is still a normal one, with a logarithm that is as good as −∞."""


def words(key: int, counters: Words) -> Words:
    """Return the words of one key at some counters."""
    return mix(np.uint64(key) + (counters + ONE) * GOLDEN)


def words_of(keys: Words, counters: Words) -> Words:
    """Return the words of some keys at some counters, which are broadcast together."""
    return mix(keys + (counters + ONE) * GOLDEN)


def stream_key(seed: int, *place: int) -> int:
    """Return the key of a stream of words: a hash of the seed and of whole numbers from 0."""
    # SeedSequence only hashes; no generator is made.
    sequence = np.random.SeedSequence(seed, spawn_key=place)  # noqa: TID251  hash only
    return int(sequence.generate_state(1, np.uint64)[0])


def mix(x: Words) -> Words:
    """Return SplitMix64's mixing function of every entry: a bijection on 64 bits."""
    x = (x ^ (x >> _30)) * MIX_1
    x = (x ^ (x >> _27)) * MIX_2
    return x ^ (x >> _31)


def word_at(key: int, counter: int) -> int:
    """Return one word of one key: what `words` returns for many, as Python's own number.

    Indices call this and the next three; compiled engines have them under the same names.
    """
    x = (key + (counter + 1) * 0x9E3779B97F4A7C15) & _ALL_BITS
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _ALL_BITS
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _ALL_BITS
    return x ^ (x >> 31)


def signed_word(word: int) -> int:
    """Return the signed 64-bit number of the same bits, which `word_at` takes for the same key."""
    return word - ((word >> 63) << 64)


def word_of(uniform: float) -> int:
    """Return a word that a uniform stands for, from which `word_at` makes any number of others."""
    return word_at(int(uniform * 2.0**52), 0)


def uniform_of(word: int) -> float:
    """Return the uniform of one word."""
    return ((word >> 12) + 0.5) * 2.0**-52


def remainder_of(word: int, shift: int, size: int) -> int:
    """Return the remainder of a word without its last `shift` bits."""
    return (word >> shift) % size


def normal_of(word: int) -> float:
    """Return the standard normal of one word."""
    cubics = _cubic_list()
    at = 4 * (word >> (64 - CELL_BITS))
    slope = cubics[at + 1]
    if slope == 0.0:  # where nothing is tabulated, and nowhere else
        return normal_quantile(uniform_of(word))
    x = float((word >> (64 - CELL_BITS - PLACE_BITS)) & _PLACE_BITS_SET)
    return cubics[at] + x * (slope + x * (cubics[at + 2] + x * cubics[at + 3]))


def normals_of(key: int, size: int) -> list[float]:
    """Return the standard normals of the first words of a key, to the bit as `normal_of` does.

    All words are mixed as one integer, which spares half of the time; for more than about 50 of
    them `normals` is faster.
    """
    ones, steps, mask = _lanes(size)
    mixed = _mixed_lanes((key & _ALL_BITS) * ones + steps, mask)
    cubics, found = _cubic_rows(), []
    for word in _words_in(mixed, size):
        constant, slope, second, third = cubics[word >> (64 - CELL_BITS)]
        y = (word >> (64 - CELL_BITS - PLACE_BITS)) & _PLACE_BITS_SET
        if slope == 0.0:  # where nothing is tabulated, and nowhere else
            found.append(normal_quantile(uniform_of(word)))
        else:
            found.append(constant + y * (slope + y * (second + y * third)))
    return found


def betas_of(key: int, parameters: list[float]) -> list[float]:
    """Return Beta(a_k, b_k) variates for parameters of at least 1, all a_k before all b_k.

    To the bit what two calls of `gamma_of` with the first words of a key make of each pair. All
    keys and all words of first trials are mixed as one integer, as in `normals_of`, and tried here:
    a call per step would take three times as long.
    """
    size = len(parameters)
    ones, steps, mask = _lanes(size)
    step = 0x9E3779B97F4A7C15 * ones
    keys = _mixed_lanes((key & _ALL_BITS) * ones + steps, mask)
    words = _words_in(_mixed_lanes(keys + step, mask), size)
    chances = _words_in(_mixed_lanes(keys + 2 * step, mask), size)
    cubics, gammas = _cubic_rows(), []
    for place, (shape, word, chance) in enumerate(zip(parameters, words, chances, strict=True)):
        constant, slope, second, third = cubics[word >> (64 - CELL_BITS)]
        if slope == 0.0:  # where nothing is tabulated, and nowhere else
            x = normal_quantile(uniform_of(word))
        else:
            y = (word >> (64 - CELL_BITS - PLACE_BITS)) & _PLACE_BITS_SET
            x = constant + y * (slope + y * (second + y * third))
        d = shape - 1.0 / 3.0
        base = 1.0 + 1.0 / math.sqrt(9.0 * d) * x
        if base > 0.0:
            v = base * base * base
            bound = 0.5 * x * x + d * (1.0 - v + math.log(v))
            if math.log(((chance >> 12) + 0.5) * 2.0**-52) < bound:
                gammas.append(d * v)
                continue
        gammas.append(_gamma_from((keys >> (_LANE * place)) & _ALL_BITS, shape, 1))
    half = size // 2
    return [a / (a + b) for a, b in zip(gammas[:half], gammas[half:], strict=True)]


def _mixed_lanes(x: int, mask: int) -> int:
    """Return SplitMix64's mixing function of the word in every lane of an integer."""
    x &= mask
    x = ((x ^ (x >> 30)) & mask) * 0xBF58476D1CE4E5B9 & mask
    x = ((x ^ (x >> 27)) & mask) * 0x94D049BB133111EB & mask
    return (x ^ (x >> 31)) & mask


def _words_in(lanes: int, size: int) -> tuple[int, ...]:
    return struct.unpack(f"<{2 * size}Q", lanes.to_bytes(_LANE // 8 * size, "little"))[::2]


@cache
def _lanes(size: int) -> tuple[int, int, int]:
    """Return 1, the counter's step and all bits of a word, in every lane of an integer."""
    ones = sum(1 << (_LANE * i) for i in range(size))
    steps = [((i + 1) * 0x9E3779B97F4A7C15 & _ALL_BITS) << (_LANE * i) for i in range(size)]
    return ones, sum(steps), _ALL_BITS * ones


def gamma_of(key: int, shape: float) -> float:
    """Return one Gamma(shape, 1) variate, for a shape of at least 1; see `gammas`."""
    return _gamma_from(key, shape, 0)


def _gamma_from(key: int, shape: float, trial: int) -> float:
    """Return what the trials from a number on make of it."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal_of(word_at(key, 2 * trial))
        base = 1.0 + c * x
        if base > 0.0:
            v = base * base * base
            bound = 0.5 * x * x + d * (1.0 - v + math.log(v))
            if math.log(uniform_of(word_at(key, 2 * trial + 1))) < bound:
                return d * v
        trial += 1


def uniforms(words: Words) -> Vector:
    """Return uniforms strictly between 0 and 1: odd multiples of 2^-53, which are exact."""
    return ((words >> _12).astype(np.float64) + HALF) * ULP


def _quantiles(uniforms: Vector) -> Any:
    return [normal_quantile(u) for u in uniforms.tolist()]


def normals(words: Words, quantiles: Callable[[Vector], Any] = _quantiles) -> Vector:
    """Return standard normals: the normal quantile of the uniform, within 1e-9.

    `quantiles` computes those that are not tabulated, one in forty.
    """
    cell = (words >> CELL_SHIFT).view(np.int64)
    x = ((words >> PLACE_SHIFT) & PLACE_MASK).astype(np.float64)
    c = _cubic_table().take(cell, axis=0)
    slopes = c[..., 1]
    values = c[..., 0] + x * (slopes + x * (c[..., 2] + x * c[..., 3]))
    tail = slopes == ZERO  # where nothing is tabulated, and nowhere else
    if np.count_nonzero(tail):
        values[tail] = quantiles(uniforms(words[tail]))
    return values


@cache
def normal_cubics() -> NDArray[np.float64]:
    """Return the cubic of every cell, four coefficients each, through four Chebyshev nodes.

    The argument is the whole number that the lower bits of the word are: coefficients are scaled.
    """
    cells = 1 << CELL_BITS
    nodes = 0.5 - 0.5 * np.cos(np.pi * (np.arange(4) + 0.5) / 4)
    smooth = range(TAIL_CELLS, cells - TAIL_CELLS)
    values = np.zeros((cells, 4))
    for cell in smooth:
        values[cell] = [normal_quantile((cell + x) / cells) for x in nodes]
    cubics = np.linalg.solve(np.vander(nodes, increasing=True), values.T).T
    scaled = cubics * 2.0 ** (-PLACE_BITS * np.arange(4))
    return np.ascontiguousarray(scaled, dtype=np.float64).ravel()


@cache
def _cubic_table() -> NDArray[np.float64]:
    return normal_cubics().reshape(-1, 4)


@cache
def _cubic_list() -> list[float]:
    cubics: list[float] = normal_cubics().tolist()  # a list's numbers are read several times faster
    return cubics


@cache
def _cubic_rows() -> list[tuple[float, float, float, float]]:
    every = iter(_cubic_list())
    return list(zip(every, every, every, every, strict=True))


# Wichura's coefficients of numerator and denominator, highest power first: centre, tail, far tail.
CENTRE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080),
    (5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867,
     5394.1960214247511077, 687.18700749205790830, 42.313330701600911252, 1.0),
)  # fmt: skip
TAIL = (
    (7.74545014278341407640e-4, 0.0227238449892691845833, 0.241780725177450611770,
     1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550,
     4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 0.0151986665636164571966,
     0.148103976427480074590, 0.689767334985100004550, 1.67638483018380384940,
     2.05319162663775882187, 1.0),
)  # fmt: skip
FAR_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     0.0265321895265761230930, 0.296560571828504891230, 1.78482653991729133580,
     5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 0.0148753612908506148525, 0.136929880922735805310,
     0.599832206555887937690, 1.0),
)  # fmt: skip


def normal_quantile(p: float) -> float:
    """Return Φ⁻¹(p) to about 1e-15 (algorithm AS 241 of Wichura, 1988); a compilable leaf."""
    q = p - 0.5
    central = abs(q) <= 0.425
    r = 0.180625 - q * q if central else math.sqrt(-math.log(min(p, 1.0 - p)))
    coefficients = CENTRE
    if not central:
        coefficients = TAIL if r <= 5.0 else FAR_TAIL
        r -= 1.6 if r <= 5.0 else 5.0
    top, bottom = 0.0, 0.0
    for i in range(8):
        top = top * r + coefficients[0][i]
        bottom = bottom * r + coefficients[1][i]
    return q * top / bottom if central else math.copysign(top / bottom, q)


def betas(word: int, a: Vector, b: Vector) -> Vector:
    """Return one Beta(a_k, b_k) variate for every k, for parameters of at least 1."""
    keys = mix(np.uint64(word) + _steps(2 * a.size))
    first, second = gammas(keys, np.concatenate([a, b])).reshape(2, -1)
    return first / (first + second)


@cache
def _steps(size: int) -> Words:
    """Return what `words` adds to a key at the first counters."""
    return (np.arange(size, dtype=np.uint64) + ONE) * GOLDEN


def gammas(keys: Words, shapes: Vector) -> Vector:
    """Return one Gamma(shape, 1) variate per key, for shapes of at least 1 (Marsaglia, Tsang 2000).

    Every key is a tape of its own, two words per trial, so that a rejection shifts nobody else.
    """
    values, rejected = _try_gammas(keys, shapes, 0)
    trials = 1
    while rejected.size > FEW:
        values[rejected], again = _try_gammas(keys[rejected], shapes[rejected], trials)
        rejected, trials = rejected[again], trials + 1
    for place in rejected.tolist():
        values[place] = _gamma_from(int(keys[place]), float(shapes[place]), trials)
    return values


def _try_gammas(keys: Words, shapes: Vector, trial: int) -> tuple[Vector, NDArray[np.int64]]:
    """Return what one trial makes of every key, and where that is rejected."""
    first, second = mix(keys + _trial_steps(trial))
    x, u = normals(first), uniforms(second)
    d = shapes - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    base = np.maximum(TINY, 1.0 + c * x)
    v = base * base * base  # as `gamma_of` rounds
    bound = HALF * x * x + d * (1.0 - v + np.log(v))
    return d * v, (np.log(u) >= bound).nonzero()[0]


@cache
def _trial_steps(trial: int) -> Words:
    """Return what `words_of` adds to keys at the counters of a trial."""
    return (TRIAL + np.uint64(2 * trial) + ONE) * GOLDEN
