"""Compiled noise of private rewards: what `core.sources.laplace_of` returns, to the bit.

There Python hashes, and its whole numbers have no end; here BLAKE2b (RFC 7693) is written out for a
key of 32 bytes and a message of 40, and numbers fit into 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.sim.cpu.compiling import inner

HASH, MIXED, MESSAGE, BIT, HASHES, KEY, PLACE = 0, 8, 24, 40, 41, 42, 46
"""Places in the working memory: the hash (8 words), what is mixed (16), a message (16), how many
bits of the hash were taken, how many hashes were made, the key (4 words), the place (4)."""

ROOM = 50
BITS = 512

_START = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    dtype=np.uint64,
)  # fmt: skip
_ORDERS = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    dtype=np.int64,
)
_PARAMETERS = np.uint64(0x01010000 ^ 32 << 8 ^ 64)
"""Of the hash: 64 bytes of it, a key of 32, no tree."""

_ZERO, _ONE, _ALL = np.uint64(0), np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)
_64, _63, _32, _24, _16 = map(np.uint64, (64, 63, 32, 24, 16))
_BLOCK, _END = np.uint64(128), np.uint64(128 + 40)


@inner(forceinline=True)
def turned(word: Any, by: Any) -> Any:
    return (word >> by) | (word << (_64 - by))


@inner
def mix(w: Any, a: int, b: int, c: int, d: int, x: Any, y: Any) -> None:
    """Mix two words of a message into four others."""
    a, b, c, d = MIXED + a, MIXED + b, MIXED + c, MIXED + d
    w[a] = w[a] + w[b] + x
    w[d] = turned(w[d] ^ w[a], _32)
    w[c] = w[c] + w[d]
    w[b] = turned(w[b] ^ w[c], _24)
    w[a] = w[a] + w[b] + y
    w[d] = turned(w[d] ^ w[a], _16)
    w[c] = w[c] + w[d]
    w[b] = turned(w[b] ^ w[c], _63)


@inner
def compress(w: Any, length: Any, last: Any) -> None:
    """Take a block of a message into the hash."""
    for i in range(8):
        w[MIXED + i], w[MIXED + 8 + i] = w[HASH + i], _START[i]
    w[MIXED + 12] ^= length
    w[MIXED + 14] ^= last
    for step in range(12):
        m = _ORDERS[step % 10]
        for i in range(4):
            mix(w, i, 4 + i, 8 + i, 12 + i, w[MESSAGE + m[2 * i]], w[MESSAGE + m[2 * i + 1]])
        for i in range(4):
            x, y = w[MESSAGE + m[8 + 2 * i]], w[MESSAGE + m[9 + 2 * i]]
            mix(w, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, x, y)
    for i in range(8):
        w[HASH + i] ^= w[MIXED + i] ^ w[MIXED + 8 + i]


@inner
def hash_next(w: Any) -> None:
    """Hash the place and the number of this hash."""
    for i in range(8):
        w[HASH + i] = _START[i]
    w[HASH] ^= _PARAMETERS
    for i in range(16):
        w[MESSAGE + i] = w[KEY + i] if i < 4 else _ZERO
    compress(w, _BLOCK, _ZERO)
    for i in range(4):
        w[MESSAGE + i] = w[PLACE + i]
    w[MESSAGE + 4] = w[HASHES]
    compress(w, _END, _ALL)
    w[HASHES] += _ONE
    w[BIT] = _ZERO


@inner
def below(w: Any, bound: int) -> int:
    """Return one of 0 … bound − 1, all equally likely."""
    size, rest = 0, bound - 1
    while rest > 0:
        size, rest = size + 1, rest >> 1
    while True:
        found, read = _ZERO, 0
        while read < size:
            if w[BIT] == BITS:
                hash_next(w)
            at: Any = np.int64(w[BIT])
            taken: Any = min(64 - at % 64, size - read)
            bits = (w[HASH + at // 64] >> np.uint64(at % 64)) & ((_ONE << np.uint64(taken)) - _ONE)
            found |= bits << np.uint64(read)
            read += taken
            w[BIT] += np.uint64(taken)
        if np.int64(found) < bound:
            return np.int64(found)  # type: ignore[return-value]  # an int to numba


@inner
def falls(w: Any, over: int, under: int) -> bool:
    """Return True with probability exp(−over/under)."""
    tries = 1
    while below(w, tries * under) < over:
        tries += 1
    return tries % 2 == 1


@inner(allocates=True)
def laplace_of(secret: Any, life: int, arm: int, level: int, first: int, scale: int) -> int:
    """Return the variate of a block by its key and its place."""
    w = np.zeros(ROOM, dtype=np.uint64)
    for i in range(4):
        w[KEY + i] = np.uint64(secret[i])
    w[PLACE], w[PLACE + 1] = np.uint64(life), np.uint64(arm)
    w[PLACE + 2], w[PLACE + 3] = np.uint64(level), np.uint64(first)
    w[BIT] = np.uint64(BITS)
    while True:
        rest = below(w, scale)
        if not falls(w, rest, scale):
            continue
        size = rest
        while falls(w, 1, 1):
            size += scale
        negative = below(w, 2)
        if size > 0 or negative == 0:  # 0 has one sign, not two
            return -size if negative > 0 else size
