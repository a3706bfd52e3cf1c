"""Differential privacy of single rewards: what is added up is a noisy sum, released piece by piece.

Every arm has a binary tree over the agent's pulls of it (Chan, Shi, Song 2011; Dwork et al. 2010).
The sum of the first n rewards is made of one block per binary digit 1 of n, and every block that is
ever used has one Laplace variate, drawn once. What a pull counts is the difference of two such
sums, so that what has been added up is the noisy sum of all pulls, whatever adds it up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from coopbandits.core.checks import require_count, require_number
from coopbandits.core.draws import uniform_of, word_at
from coopbandits.core.errors import InputError
from coopbandits.core.index import ANY_REWARDS, UNIT_REWARDS, Support
from coopbandits.core.sources.source import Source, Tap

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView, State


@dataclass(frozen=True)
class Private(Source):
    r"""Differential privacy of each reward.

    All that leaves an agent, the arms that it plays included, would be at most :math:`e^ε` times
    as likely had one reward been another. Counts are not hidden: they follow from the arms.

    Parameters
    ----------
    epsilon : float
        ε; infinity for no noise at all.
    horizon : int
        How many pulls an agent makes at most. The noise of a block has the scale L/ε, L the number
        of binary digits of this.

    Notes
    -----
    Rewards are clipped to [0, 1]. Knows a random word, which must stay secret.

    *Differs from the papers*: one tree per arm, over the agent's pulls of it; Fed_UCB's trees are
    over rounds. Laplace variates are made of 52 random bits in floating point, which is known to
    leak (Mironov 2012): this is for studying what privacy costs, and not for keeping secrets.
    """

    epsilon: float
    horizon: int
    name: ClassVar[str] = "private"

    def __post_init__(self) -> None:
        """Refuse settings outside what it is defined for."""
        if self.epsilon != math.inf:
            accepted = "a positive number, or inf for no noise"
            require_number("epsilon", self.epsilon, accepted, 0.0, math.inf)
        require_count("horizon", self.horizon)

    @property
    def needs(self) -> frozenset[str]:
        """A random word, from which the noise is drawn."""
        return frozenset({"random_word"})

    @property
    def support(self) -> Support:
        """Noise hides what a reward in [0, 1] can change, and no more."""
        return ANY_REWARDS if self.epsilon == math.inf else UNIT_REWARDS

    @property
    def levels(self) -> int:
        """L, in how many blocks a pull lies."""
        return int(self.horizon).bit_length()

    def make(self, view: LocalView) -> PrivateTap:
        """Return what one agent's rewards pass."""
        return PrivateTap(view, self)


class PrivateTap(Tap):
    """Counts the pulls of every arm; all noise follows from these and the agent's random word."""

    fields = ("counts",)

    def __init__(self, view: LocalView, settings: Private) -> None:
        self.key, self.horizon = view.random_word, settings.horizon
        self.levels = settings.levels
        self.scale = 0.0 if settings.epsilon == math.inf else settings.levels / settings.epsilon
        self.counts = np.zeros(view.num_arms, dtype=np.int64)

    def drawn(self, arm: int, reward: float, estimate: Estimate) -> float:
        """Return by how much the noisy sum of an arm grows."""
        del estimate
        before = int(self.counts[arm])
        if before >= self.horizon:
            raise InputError(
                f"arm {arm} was pulled more than {self.horizon} times, for which the privacy of "
                "rewards was planned; give a larger horizon"
            )
        self.counts[arm] = before + 1
        if self.scale == 0.0:
            return reward
        clipped = min(1.0, max(0.0, reward))
        return clipped + self.noise(arm, before + 1) - self.noise(arm, before)

    def noise(self, arm: int, pulls: int) -> float:
        """Return the noise of an arm's sum over so many pulls: one variate per block."""
        key, total = word_at(self.key, arm), 0.0
        for level in range(self.levels):
            if pulls >> level & 1:
                block = (pulls >> level << level) - (1 << level)  # the first pull of the block
                total += laplace_of(word_at(word_at(key, level), block), self.scale)
        return total

    def check_state(self, values: State) -> None:
        """Refuse counts that cannot be."""
        counts: Any = values["counts"]
        if (counts < 0).any() or (counts > self.horizon).any():
            raise InputError(
                f"state field counts is {counts.tolist()}; they go from 0 to {self.horizon}"
            )


def laplace_of(word: int, scale: float) -> float:
    """Return a Laplace variate with mean 0 and variance 2·scale²."""
    centred = uniform_of(word) - 0.5
    return -math.copysign(scale, centred) * math.log1p(-2.0 * abs(centred))
