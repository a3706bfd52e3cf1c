"""Maps rewards between the application's scale and the agent's."""

from __future__ import annotations

import math
from typing import NamedTuple

from coopbandits.core.errors import InputError

MOST = 1e60
"""The largest reward, range or σ; one over it is the smallest σ.

A fleet makes fewer than 1e18 pulls. So sums, sums of squares and even squares of sums stay below
1e160, and none of what is computed of them leaves the numbers that floats have.
"""


class RewardScale(NamedTuple):
    """Maps the declared range onto [0, 1]; without a range rewards are unchanged.

    Attributes
    ----------
    low, high : float
        The declared range, or (0, 1).
    bounded : bool
        Whether a range is declared; rewards outside are refused.
    sigma : float
        σ on the agent's scale.
    """

    low: float
    high: float
    bounded: bool
    sigma: float

    def unit(self, reward: float) -> float:
        """Return a reward on the agent's scale, or refuse it."""
        if not math.isfinite(reward):
            raise InputError(f"reward {reward} is not finite; rewards are finite numbers")
        if not self.bounded:
            _require_summable(reward)
            return reward
        if not self.low <= reward <= self.high:
            raise InputError(
                f"reward {reward} lies outside the declared range {self.low:g} to {self.high:g}; "
                "hand in rewards within it, or declare another reward_range on all nodes"
            )
        return (reward - self.low) / (self.high - self.low)

    def reward(self, unit: float) -> float:
        """Return a value of the agent's scale on the application's."""
        return self.low + unit * (self.high - self.low)

    def interval(self, middle: float, half: float) -> tuple[float, float]:
        """Return an interval of the agent's scale as rewards, clipped to the range."""
        ends = self.reward(middle - half), self.reward(middle + half)
        return (max(self.low, ends[0]), min(self.high, ends[1])) if self.bounded else ends


def _require_summable(reward: float) -> None:
    if abs(reward) > MOST:
        raise InputError(
            f"reward {reward} is too large to be summed up; hand in rewards between {-MOST:g} and "
            f"{MOST:g}, in a larger unit"
        )


def reward_scale(reward_range: tuple[float, float] | None, sigma: float | None) -> RewardScale:
    """Return the scale for a declared range, σ or both.

    Rewards in [0, 1] have a variance proxy of at most 1/4, whatever their distribution (Hoeffding).
    """
    if reward_range is None:
        if sigma is None:
            raise InputError("neither reward_range nor sigma is given; give at least one")
        return RewardScale(0.0, 1.0, bounded=False, sigma=sigma)
    low, high = reward_range
    return RewardScale(low, high, True, 0.5 if sigma is None else sigma / (high - low))
