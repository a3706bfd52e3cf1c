"""Whether a series of measurements stays where it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coopbandits.fleet.storage.journal import COMPACT_BYTES

WARM_SECONDS = 150.0
"""Until all is there that an agent keeps: at 100 pulls a second, the last 10 000 rewards."""

SLACK_MB, SLACK = 1.0, 0.02
"""Memory may grow by the larger of the two over the second half: what is left to fill up."""

JOURNAL_SLACK = 1 << 19
"""A snapshot stands before the events of a journal."""


class Sample(NamedTuple):
    """What one agent takes at a time."""

    seconds: float
    memory_mb: float
    descriptors: int
    journal: int


def find_growth(samples: Sequence[Sample]) -> list[str]:
    """Return a sentence for everything that grew over the second half of a run."""
    whole = samples[-1].seconds
    begin = max(whole / 2, min(WARM_SECONDS, 0.75 * whole))
    early = [one for one in samples if one.seconds < begin]
    late = [one for one in samples if one.seconds >= begin]
    found = []
    if (grown := _grown(late)) > max(SLACK_MB, SLACK * late[0].memory_mb):
        found.append(f"memory grew by {grown:.1f} MB, to {late[-1].memory_mb:.1f} MB")
    # One more is open for a moment whenever a journal is rewritten; what leaks stays to the end.
    before = float(np.median([one.descriptors for one in early]))
    after = min(one.descriptors for one in late[-max(1, len(late) // 4) :])
    if after > before:
        found.append(f"descriptors grew from {before:.0f} to {after}")
    bound = max(COMPACT_BYTES + JOURNAL_SLACK, max(one.journal for one in early))
    if (most := max(one.journal for one in late)) > 1.1 * bound:
        found.append(f"the journal grew to {most} bytes, beyond {bound}")
    return found


def _grown(samples: Sequence[Sample]) -> float:
    """Return by how much memory grew, along the line that fits best."""
    at = np.array([one.seconds for one in samples])
    slope = np.polyfit(at, [one.memory_mb for one in samples], 1)[0]
    return float(slope * (at[-1] - at[0]))
