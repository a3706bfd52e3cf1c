"""What aggregations share: pairs of sums and counts in one array, and checks of what arrives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coopbandits.core.agent import Vector
from coopbandits.core.errors import InputError


def add_pull(pair: Vector, arm: int, reward: float, weight: float) -> None:
    """Add one pull to an array of K reward sums and K pull counts."""
    pair[arm] += weight * reward
    pair[pair.size // 2 + arm] += weight


def check_messages(messages: Mapping[int, Vector], expected: list[int], size: int) -> None:
    """Refuse all but one finite vector of this size from each of the expected neighbours."""
    if sorted(messages) != expected:
        raise InputError(
            f"messages arrived from {list(messages)}, but this round needs exactly one from each "
            f"of {expected}; deliver those"
        )
    for neighbor, message in messages.items():
        if np.shape(message) != (size,):
            raise InputError(
                f"message from {neighbor} has shape {np.shape(message)}; this round takes {(size,)}"
            )
        if not np.isfinite(message).all():
            raise InputError(f"message from {neighbor} has values that are not finite")


def read_items(message: Vector, width: int, num_arms: int, sender: int) -> Vector:
    """Return a message as rows of `width` values that end in (arm, reward), or refuse it."""
    if np.ndim(message) != 1 or np.size(message) % width:
        raise InputError(
            f"message from {sender} has shape {np.shape(message)}; "
            f"it must be one vector of {width} values per pull"
        )
    if not np.isfinite(message).all():
        raise InputError(f"message from {sender} has values that are not finite")
    items = np.reshape(message, (-1, width))
    check_arms(items[:, -2], num_arms, f"message from {sender}")
    return items


def check_arms(arms: Vector, num_arms: int, source: str) -> None:
    """Refuse all but arms that exist."""
    strange = arms[(arms < 0) | (arms >= num_arms) | (arms != np.floor(arms))]
    if strange.size:
        raise InputError(
            f"{source} tells of arm {strange[0]:g}; arms are numbered 0 to {num_arms - 1}"
        )
