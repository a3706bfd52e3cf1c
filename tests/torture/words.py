"""Streams of random words, each of which follows from its key alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coopbandits.core.draws import words

BLOCK = 64
"""So many words are made at once, which is cheaper than one by one."""


def words_of(key: int) -> Iterator[int]:
    """Yield the words of a key, one after the other."""
    at = 1
    while True:
        yield from words(key, np.arange(at, at + BLOCK, dtype=np.uint64)).tolist()
        at += BLOCK
