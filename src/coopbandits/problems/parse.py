"""Means as text, `1,0.8x16`: what the command line takes and what a problem prints."""

from __future__ import annotations

import math
import re
from itertools import groupby
from typing import TYPE_CHECKING

from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_ARMS = 1_000_000
"""Longer lists are refused: a typo such as `x1000000000` would otherwise fill the memory."""

_ITEM = re.compile(
    r"(?P<number>[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)\s*([x×]\s*(?P<times>\d+))?",
    re.ASCII | re.IGNORECASE,
)


def parse_means(text: str) -> list[float]:
    """Read a list of means such as `1,0.8x16`, where `x16` repeats the number 16 times.

    Parameters
    ----------
    text : str
        Numbers separated by commas, each with an optional `x` (or `×`) and a count.

    Examples
    --------
    >>> parse_means("1, 0.8x3")
    [1.0, 0.8, 0.8, 0.8]
    """
    means: list[float] = []
    for item in text.split(","):
        value, times = _parse_item(item.strip(), text)
        if times > MOST_ARMS - len(means):
            raise InputError(
                f"means {_shorten(text)} ask for more than {MOST_ARMS} arms; repeat fewer times"
            )
        means.extend([value] * times)
    return means


def format_means(means: Iterable[float], most: int | None = None) -> str:
    """Write means so that `parse_means` reads the same numbers; `…` after `most` items."""
    # Equal numbers may be written differently (0.0 and -0.0), so the text decides what repeats.
    groups = [(text, len(list(group))) for text, group in groupby(repr(float(m)) for m in means)]
    items = [text if times == 1 else f"{text}x{times}" for text, times in groups]
    return ", ".join(items if most is None or len(items) <= most else [*items[:most], "…"])


def _parse_item(item: str, text: str) -> tuple[float, int]:
    match = _ITEM.fullmatch(item)
    if match is None:
        what = f"part {_shorten(item)} is no number" if item else "there is an empty part"
        raise InputError(
            f"means {_shorten(text)} cannot be read: {what}; "
            "write numbers separated by commas, such as 1,0.8x16 for 1 and sixteen times 0.8"
        )
    value = float(match["number"])
    # Do not convert counts with too many digits: int() refuses thousands of them.
    digits = (match["times"] or "1").lstrip("0")
    times = int(digits or "0") if len(digits) <= len(str(MOST_ARMS)) else MOST_ARMS + 1
    if not math.isfinite(value) or times == 0:
        what = "repeats zero times" if times == 0 else "is too large for a float"
        raise InputError(
            f"means {_shorten(text)} cannot be read: part {_shorten(item)} {what}; "
            "use finite numbers and counts of at least 1, or leave the part out"
        )
    return value, times


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
