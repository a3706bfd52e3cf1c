"""What can be chosen: ways to compress a file, and what one was worth.

The reward is the share of its size that a file lost, less what the processor time cost. Both are
measured, at the very choice: bytes, and seconds of the compressing thread alone, so that others on
the machine hardly matter.
"""

from __future__ import annotations

import bz2
import lzma
import time
import zlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

OPTIONS: dict[str, Callable[[bytes], bytes]] = {
    "zlib-1": partial(zlib.compress, level=1),
    "zlib-9": partial(zlib.compress, level=9),
    "bz2-9": partial(bz2.compress, compresslevel=9),
    "lzma-0": partial(lzma.compress, preset=0),
    "lzma-6": partial(lzma.compress, preset=6),
}
"""Name → library and level; all are in Python's standard library."""

BYTES_PER_SECOND = 3_000_000
"""A second of processor time costs as much as storing this many bytes."""


class Measurement(NamedTuple):
    """One file, compressed in one way.

    Attributes
    ----------
    size, compressed : int
        Bytes before and after.
    seconds : float
        Processor time of the compression.
    """

    size: int
    compressed: int
    seconds: float

    @property
    def reward(self) -> float:
        """Share of bytes saved, less the cost of the time; 0 where it was not worth it."""
        gain = self.size - self.compressed - BYTES_PER_SECOND * self.seconds
        return max(0.0, gain / self.size)


def measure(option: str, data: bytes) -> Measurement:
    """Compress some data."""
    began = time.thread_time()
    compressed = OPTIONS[option](data)
    return Measurement(len(data), len(compressed), time.thread_time() - began)
