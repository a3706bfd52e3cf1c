"""Differential privacy of single rewards: what is added up is a noisy sum, released piece by piece.

Every arm has a binary tree over the agent's pulls of it (Chan, Shi, Song 2011; Dwork et al. 2010).
The sum of the first n rewards is made of one block per binary digit 1 of n, and every block that is
ever used has one Laplace variate, drawn once. What a pull counts is the difference of two such
sums, so that what has been added up is the noisy sum of all pulls, whatever adds it up.

Differential privacy assumes an attacker who sees every message and knows all rewards but one. Such
an attacker also knows the noise of every block that does not hold the unknown reward. So noise
comes from a key that no message depends on, `LocalView.secret`, by a keyed cryptographic hash:
SplitMix64, which is good enough for simulated rewards, can be inverted from two known variates.
Variates are whole numbers with exactly the discrete Laplace distribution (Canonne, Kamath, Steinke
2020): floats would tell by their last bits which rewards are possible (Mironov 2012).

The noise of a block protects one set of rewards. Used for two, it cancels in the difference of what
was released. So it must never be drawn again for other rewards: an agent that lost its memory gets
another secret, and one whose memory may be older than what it sent (`reopened`) begins new trees
with a new key. Its earlier rewards stay in the blocks that were released, with their noise, and are
in no block of the new trees, so that every reward is in L blocks at most, however often that
happens. The noise in the sum grows with every such opening.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from struct import pack
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from coopbandits.core.checks import require_count, require_epsilon
from coopbandits.core.errors import InputError
from coopbandits.core.index import ANY_REWARDS, UNIT_REWARDS, Support
from coopbandits.core.sources.source import Source, Tap

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView, State

STEPS = 2**20
"""Rewards and noise are whole multiples of 1/STEPS."""

SECRET_BYTES = 32
"""How long a secret is."""


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
    Rewards are clipped to [0, 1] and rounded to multiples of :math:`2^{-20}`, as is the noise.
    Knows a secret.

    *Differs from the papers*: one tree per arm, over the agent's pulls of it; Fed_UCB's trees are
    over rounds.
    """

    epsilon: float
    horizon: int
    name: ClassVar[str] = "private"

    def __post_init__(self) -> None:
        """Refuse settings outside what it is defined for."""
        require_epsilon(self.epsilon)
        require_count("horizon", self.horizon)

    @property
    def needs(self) -> frozenset[str]:
        """A secret, from which the noise is drawn, where there is any."""
        return frozenset({"secret"} if self.is_noisy else ())

    @property
    def support(self) -> Support:
        """Noise hides what a reward in [0, 1] can change, and no more."""
        return UNIT_REWARDS if self.is_noisy else ANY_REWARDS

    @property
    def is_noisy(self) -> bool:
        return self.epsilon != math.inf

    @property
    def levels(self) -> int:
        """L, in how many blocks a pull lies."""
        return int(self.horizon).bit_length()

    def make(self, view: LocalView) -> PrivateTap:
        """Return what one agent's rewards pass."""
        return PrivateTap(view, self)


class PrivateTap(Tap):
    """Counts the pulls of every arm in its present tree; the noise follows from these and the key.

    Attributes
    ----------
    counts : array of int
        Pulls per arm since the present trees began.
    life : int
        The word with which they began; 0 for the first trees.
    """

    fields = ("counts", "life")

    def __init__(self, view: LocalView, settings: Private) -> None:
        if settings.is_noisy and len(view.secret) != SECRET_BYTES:
            raise InputError(
                f"secret of agent {view.agent_id} has {len(view.secret)} bytes; private needs "
                f"{SECRET_BYTES} random bytes that nobody else knows: fill in LocalView.secret"
            )
        self.secret, self.horizon = view.secret, settings.horizon
        self.levels = settings.levels
        per_level = Fraction(STEPS) / Fraction(settings.epsilon) if settings.is_noisy else 0
        self.scale = math.ceil(per_level * settings.levels)  # 0 for no noise
        self.counts, self.life = np.zeros(view.num_arms, dtype=np.int64), 0

    def drawn(self, arm: int, reward: float, estimate: Estimate) -> float:
        """Return by how much the noisy sum of an arm grows."""
        del estimate
        pulls = int(self.counts[arm]) + 1
        if pulls > self.horizon:
            raise InputError(
                f"arm {arm} was pulled more than {self.horizon} times, for which the privacy of "
                "rewards was planned; give a larger horizon"
            )
        self.counts[arm] = pulls
        if self.scale == 0:
            return reward
        # The pull completes a block as large as the lowest digit 1 of n, and that one takes the
        # place of all smaller blocks: those of the digits 1 that end n − 1.
        level = (pulls & -pulls).bit_length() - 1
        noise = self.noise(arm, level, pulls - (1 << level))
        for smaller in range(level):
            noise -= self.noise(arm, smaller, pulls - (2 << smaller))
        return (round(min(1.0, max(0.0, reward)) * STEPS) + noise) / STEPS

    def noise(self, arm: int, level: int, first: int) -> int:
        """Return the noise of the block of 2^level pulls from `first` on, in steps."""
        place = pack("<4Q", self.life, arm, level, first)
        return laplace(Coins(self.secret, place), self.scale)

    def reopened(self, word: int) -> None:
        """Begin new trees, which have other noise and none of the rewards so far."""
        self.counts[:], self.life = 0, word

    def check_state(self, values: State) -> None:
        """Refuse counts that cannot be."""
        counts: Any = values["counts"]
        if (counts < 0).any() or (counts > self.horizon).any():
            raise InputError(
                f"state field counts is {counts.tolist()}; they go from 0 to {self.horizon}"
            )
        if not 0 <= values["life"] < 2**64:
            raise InputError(f"state field life is {values['life']}; it has 64 bits")


class Coins:
    """Uniform whole numbers from a keyed hash in counter mode."""

    def __init__(self, key: bytes, place: bytes) -> None:
        self.key, self.place, self.hashes = key, place, 0
        self.bits, self.left = 0, 0

    def below(self, bound: int) -> int:
        """Return one of 0 … bound − 1, all equally likely."""
        size = (bound - 1).bit_length()
        while True:
            while self.left < size:
                block = self.place + pack("<Q", self.hashes)
                fresh = int.from_bytes(blake2b(block, key=self.key).digest(), "little")
                self.bits |= fresh << self.left
                self.left, self.hashes = self.left + 512, self.hashes + 1
            found = self.bits & ((1 << size) - 1)
            self.bits, self.left = self.bits >> size, self.left - size
            if found < bound:
                return found

    def falls(self, over: int, under: int) -> bool:
        """Return True with probability exp(−over/under), over ≤ under: algorithm 1 of the paper."""
        tries = 1
        while self.below(tries * under) < over:
            tries += 1
        return tries % 2 == 1


def laplace(coins: Coins, scale: int) -> int:
    """Return x with a probability proportional to exp(−|x|/scale): algorithm 2 of the paper."""
    while True:
        rest = coins.below(scale)
        if not coins.falls(rest, scale):
            continue
        size = rest
        while coins.falls(1, 1):
            size += scale
        negative = coins.below(2)
        if size or not negative:  # 0 has one sign, not two
            return -size if negative else size
