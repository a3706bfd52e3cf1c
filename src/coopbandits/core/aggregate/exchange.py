"""What aggregations share: checks of what arrives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbandits.core import rows
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import Registers

FEW = 64
"""Below this size Python's sum beats a numpy call."""


def anticipation(num_agents: float, rounds: float, recorded: float) -> float:
    """Return c = max(1, N̂(t − 1)/B): rounds of agents that passed, over those behind the data."""
    return max(1.0, num_agents * rounds / recorded) if recorded > 0.0 else 1.0


def check_messages(messages: Mapping[int, Vector], expected: list[int], size: int) -> None:
    """Refuse all but one finite vector of this size from each of the expected neighbours."""
    if sorted(messages) != expected:
        raise InputError(
            f"messages arrived from {list(messages)}, but this round needs exactly one from each "
            f"of {expected}; deliver those"
        )
    check_vectors(messages, size)


def check_vectors(messages: Mapping[int, Vector], *sizes: int) -> None:
    """Refuse all but finite vectors of one of these sizes, from whomever they arrived."""
    shapes = [(size,) for size in sizes]
    for neighbor, message in messages.items():
        if np.shape(message) not in shapes:
            raise InputError(
                f"message from {neighbor} has shape {np.shape(message)}; this round takes "
                f"{' or '.join(map(str, shapes))}"
            )
        if not all_finite(message):
            raise InputError(f"message from {neighbor} has values that are not finite")


def check_means(messages: Mapping[int, Vector], registers: Registers) -> None:
    """Refuse all but finite vectors of means, in the place of sums, and counts of at least 0."""
    check_vectors(messages, registers.size)
    for neighbor, message in messages.items():
        least = registers.share(message).counts.min()
        if least < 0.0:
            raise InputError(
                f"message from {neighbor} tells of {least:g} pulls; counts are never negative"
            )


def all_finite(values: Vector) -> bool:
    """Return whether all values of a vector are finite."""
    # A finite sum, of squares where there are many, says so sooner; huge ones overflow: look again.
    total = sum(values.tolist()) if values.size <= FEW else np.vdot(values, values)
    return math.isfinite(total) or bool(np.isfinite(values).all())


def largest(values: Vector) -> float:
    """Return the largest absolute value of a vector; not a number if one of them is none."""
    if values.size <= FEW and math.isfinite(sum(few := values.tolist())):
        return max(max(few), -min(few)) if few else 0.0
    return float(abs(values).max(initial=0.0))


def write_news(s: Any, out: Vector) -> int:
    """Write the first `num_news` rows of the field `news` as a message; return its length."""
    width = s.news.shape[1]
    for item in range(s.me.num_news):
        rows.copy(out[item * width : (item + 1) * width], s.news[item])
    return int(s.me.num_news * width)


def read_items(message: Vector, width: int, num_arms: int, sender: int) -> Vector:
    """Return a message as rows of `width` values that end in (arm, reward), or refuse it."""
    items = read_rows(message, width, sender)
    check_arms(items[:, -2], num_arms, f"message from {sender}")
    return items


def read_rows(message: Vector, width: int, sender: int) -> Vector:
    """Return a message as rows of `width` values, or refuse it."""
    if np.ndim(message) != 1 or np.size(message) % width:
        raise InputError(
            f"message from {sender} has shape {np.shape(message)}; "
            f"it must be one vector of {width} values per pull"
        )
    if not all_finite(message):
        raise InputError(f"message from {sender} has values that are not finite")
    return np.reshape(message, (-1, width))


def check_arms(arms: Vector, num_arms: int, source: str) -> None:
    """Refuse all but arms that exist."""
    strange = arms[(arms < 0) | (arms >= num_arms) | (arms != np.floor(arms))]
    if strange.size:
        raise InputError(
            f"{source} tells of arm {strange[0]:g}; arms are numbered 0 to {num_arms - 1}"
        )
