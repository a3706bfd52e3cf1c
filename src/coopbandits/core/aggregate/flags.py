"""Flags, such as one per arm or agent, as bits of few numbers: in fields, and in messages."""

from __future__ import annotations

import math
from typing import Any

BITS = 52
"""Flags in one value: whole numbers up to 2^53 are exact."""


def flag_values(flags: int) -> int:
    """Return how many values hold so many flags."""
    return -(-flags // BITS)


def is_set(row: Any, flag: int) -> bool:
    """Return whether a row of whole numbers has a flag."""
    return bool((row[flag // BITS] >> (flag % BITS)) & 1 == 1)


def set_flag(row: Any, flag: int) -> None:
    """Give a row of whole numbers a flag."""
    row[flag // BITS] |= 1 << (flag % BITS)


def write_flags(flags: Any, out: Any) -> int:
    """Write flags, each 0 or 1, into a message; return how many values that takes."""
    values, bit = 0, 1.0
    for k in range(flags.size):
        if k % BITS == 0:
            out[values], bit = 0.0, 1.0
            values += 1
        out[values - 1] += bit * flags[k]
        bit *= 2.0
    return values


def has_flag(values: Any, flag: int) -> bool:
    """Return whether values of a message hold a flag."""
    return bool(math.floor(values[flag // BITS] / 2.0 ** (flag % BITS)) % 2 == 1)
