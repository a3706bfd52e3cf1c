"""Keys of many streams at once: the hash behind `draws.stream_key`, for arrays.

numpy's `SeedSequence` takes 40 µs per key, more than a fast engine takes for a whole run. Its hash
(O'Neill's seed_seq_fe, whose results numpy promises never to change) is restated here for arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.draws import Words

Halves = NDArray[np.uint32]

POOL = 4
INIT_A, MULT_A = 0x43B0D7E5, 0x931E8875
INIT_B, MULT_B = 0x8B51F9DD, 0x58F38DED
MIX_L, MIX_R = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_16 = np.uint32(16)
_BITS = (1 << 32) - 1


def stream_keys(seed: int, stream: int, places: range) -> Words:
    """Return what `stream_key(seed, stream, place)` returns for every one of some places."""
    numbers = np.array(places, dtype=np.uint64)
    low, high = numbers.astype(np.uint32), (numbers >> np.uint64(32)).astype(np.uint32)
    shared = _words(seed)
    shared += [0] * (POOL - len(shared)) + _words(stream)
    keys = _hashed(shared, [low])
    if high.any():  # a second word, where the number has one
        keys = np.where(high > 0, _hashed(shared, [low, high]), keys)
    return keys


def _words(number: int) -> list[int]:
    """Return a whole number as words of 32 bits, the lowest first, at least one."""
    words = [number & _BITS]
    while number := number >> 32:
        words.append(number & _BITS)
    return words


class _Scrambler:
    """Scrambles values, each with a constant that depends on how many came before."""

    def __init__(self, start: int, factor: int) -> None:
        self.constant, self.factor = start, factor

    def __call__(self, value: Halves) -> Halves:
        before, self.constant = self.constant, self.constant * self.factor & _BITS
        mixed: Halves = (value ^ np.uint32(before)) * np.uint32(self.constant)
        return mixed ^ (mixed >> _16)


def _mixed(left: Halves, right: Halves) -> Halves:
    mixed: Halves = left * MIX_L - right * MIX_R
    return mixed ^ (mixed >> _16)


def _hashed(shared: list[int], own: list[Halves]) -> Words:
    """Return the first 64 bits that follow from words that all share, and words of their own."""
    like = own[0]
    entropy = [np.full_like(like, word) for word in shared] + own
    scramble = _Scrambler(INIT_A, MULT_A)
    pool = [scramble(word) for word in entropy[:POOL]]
    for source in range(POOL):
        for target in range(POOL):
            if source != target:
                pool[target] = _mixed(pool[target], scramble(pool[source]))
    for word in entropy[POOL:]:
        for target in range(POOL):
            pool[target] = _mixed(pool[target], scramble(word))
    finish = _Scrambler(INIT_B, MULT_B)
    low, high = (finish(word).astype(np.uint64) for word in pool[:2])
    return low | high << np.uint64(32)
