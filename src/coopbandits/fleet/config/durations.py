"""Durations as people write them: "90s", "30min", "2h", "7d"."""

from __future__ import annotations

import math
import re
from typing import Any

from coopbandits.core.errors import InputError

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

LONGEST = 100 * 365 * UNITS["d"]

DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)", re.ASCII)


def duration(what: str, value: Any) -> float:
    """Read a duration, to seconds."""
    found = DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    seconds = float(found[1]) * UNITS[found[2]] if found else math.nan
    if not 0.0 < seconds <= LONGEST:
        raise InputError(
            f"{what} is {value!r}; it must be a number and a unit in quotes, such as '90s', "
            "'30min', '2h' or '7d', up to 100 years"
        )
    return seconds


def shown(seconds: float) -> str:
    """Return a duration in the largest unit of which it is at least one.

    Examples
    --------
    >>> shown(5400.0)
    '1.5 h'
    """
    fitting = [unit for unit, size in UNITS.items() if seconds >= size]
    unit = fitting[-1] if fitting else "s"
    return f"{seconds / UNITS[unit]:.3g} {unit}"
