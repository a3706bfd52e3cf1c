"""Sources: what happens to each reward of an agent before it counts, such as noise for privacy.

A source turns a reward into the number that is added up, sent and played on in its place. Sums of
such numbers add up as sums of rewards do, so a source goes with every aggregation. As an
aggregation is, it is written as functions on fields (`core.aggregate.fields`): agents call them as
they are, and the driver compiles them.

`Truncated` is for rewards with heavy tails, of which no variance need exist.

**Private.** What is added up is a noisy sum, released piece by piece. Every arm has a binary tree
over the agent's pulls of it (Chan, Shi, Song 2011; Dwork et al. 2010). The sum of the first n
rewards is made of one block per binary digit 1 of n, and every block that is ever used has one
Laplace variate, drawn once. What a pull counts is the difference of two such sums, so that what has
been added up is the noisy sum of all pulls, whatever adds it up.

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
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from struct import pack
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from coopbandits.core.aggregate.fields import FieldState, Layout, agent_state, layout_of, whole
from coopbandits.core.checks import require_count, require_epsilon, require_moment, require_positive
from coopbandits.core.draws import signed_word
from coopbandits.core.errors import InputError
from coopbandits.core.index import ANY_REWARDS, UNIT_REWARDS, Support
from coopbandits.core.spelling import Named

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView, State


class Source(Named, ABC):
    """What happens to rewards at their source, as a value; its settings are those of a dataclass.

    Attributes
    ----------
    keeps_range : bool
        Whether rewards in [0, 1] become numbers in [0, 1].
    derived : tuple of str
        Fields that `start` fills for good: no part of an exported state.
    plain_only : str
        Why only plain Python runs it, in words that follow "has no compiled kernel"; "" where it
        can be compiled.
    most_pulls : float
        How many pulls of an agent it is made for.
    """

    keeps_range: ClassVar[bool] = False
    derived: ClassVar[tuple[str, ...]] = ()
    plain_only: str = ""

    @property
    def support(self) -> Support:
        """The smallest and the largest reward that it is made for."""
        return ANY_REWARDS

    @property
    def needs(self) -> frozenset[str]:
        """What an agent must know, as in `Policy.needs`."""
        return frozenset()

    @property
    def most_pulls(self) -> float:
        return math.inf

    def fields(self, num_arms: int) -> Mapping[str, Any]:
        """Return the shape of every field that it remembers, or `int` or `float` for a number.

        They stand among the fields of aggregations, and have other names.
        """
        return {}

    def start(self, s: Any, view: LocalView) -> None:
        """Fill the fields of one agent, all 0, as it begins."""

    @staticmethod
    @abstractmethod
    def drawn(s: Any, arm: int, reward: float, estimate: Estimate) -> float:
        """Return what a reward counts as; `estimate` is what the agent knew before it."""

    def check_pull(self, s: Any, arm: int) -> None:
        """Reject a pull beyond `most_pulls`."""

    def check_state(self, values: State) -> None:
        """Reject fields that have the right form, but that no agent can hold."""

    def reopened(self, s: Any, word: int) -> None:
        """Note that the state may be older than what was sent; see `ReopenedAgent`."""
        # Most sources draw no noise that must not be used again.

    def layout(self, num_arms: int) -> Layout:
        return layout_of(self.spelling, self.fields(num_arms))

    def make(self, view: LocalView) -> SourceState:
        return SourceState(view, self)


class SourceState(FieldState):
    """The fields of a source for one agent, whose rewards pass it."""

    def __init__(self, view: LocalView, source: Source) -> None:
        self.spec: Source = source
        layout = source.layout(view.num_arms)
        self.state = agent_state(layout, 0)
        self.fields = tuple(name for name in layout.names if name not in source.derived)
        source.start(self.state, view)

    def drawn(self, arm: int, reward: float, estimate: Estimate) -> float:
        self.spec.check_pull(self.state, arm)
        return self.spec.drawn(self.state, arm, reward, estimate)

    def reopened(self, word: int) -> None:
        self.spec.reopened(self.state, word)

    def check_state(self, values: State) -> None:
        self.spec.check_state(values)


@dataclass(frozen=True)
class Truncated(Source):
    r"""Truncation at the source, for rewards with :math:`E|X|^p \le u`.

    A reward counts as 0 where :math:`|X| > (u\,n_k/\ln s^2)^{1/p}`, with :math:`n_k` the pulls of
    its arm that the agent knows of, this one included, and s all of them (the truncated mean of
    Bubeck, Cesa-Bianchi and Lugosi 2013, its samples in the order in which they are made).

    Parameters
    ----------
    limit : float
        u.
    moment : float
        p, above 1 and at most 2.

    Notes
    -----
    Goes with the index `robust-ucb`, whose bonus needs no variance. *Differs from the paper*, in
    which one agent sees all samples: here each truncates by what it knows when it pulls, so sums
    stay sums, and thresholds lag behind by as long as news takes. No bound is proven for that.
    """

    limit: float
    moment: float = 2.0
    name: ClassVar[str] = "truncated"
    keeps_range: ClassVar[bool] = True
    derived: ClassVar[tuple[str, ...]] = ("limit", "moment")

    def __post_init__(self) -> None:
        require_positive("limit", self.limit)
        require_moment(self.moment)

    def fields(self, num_arms: int) -> Mapping[str, Any]:
        return {"limit": float, "moment": float}

    def start(self, s: Any, view: LocalView) -> None:
        s.me.limit, s.me.moment = self.limit, self.moment

    @staticmethod
    def drawn(s: Any, arm: int, reward: float, estimate: Estimate) -> float:
        count = estimate.counts[arm] + 1.0
        known = s.me.limit * count / (2.0 * math.log(max(2.0, estimate.time)))
        return reward if abs(reward) <= known ** (1.0 / s.me.moment) else 0.0


STEPS = 2**20
"""Rewards and noise are whole multiples of 1/STEPS."""

SECRET_BYTES = 32
"""How long a secret is."""

MOST_STEPS = 2**50
"""Noise of a smaller scale fits into 64 bits, and so do the numbers that it is drawn from."""

NEAREST = 2.0**52
"""Added and taken away again, it leaves the nearest whole number, the even one of two."""


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
    derived: ClassVar[tuple[str, ...]] = ("secret", "scale")

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_count("horizon", self.horizon)

    @property
    def needs(self) -> frozenset[str]:
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
        """L, the number of blocks that a pull is in."""
        return int(self.horizon).bit_length()

    @property
    def most_pulls(self) -> float:
        return self.horizon

    @property
    def scale(self) -> int:
        """The scale of the noise of a block, in steps; 0 for no noise."""
        if not self.is_noisy:
            return 0
        return math.ceil(Fraction(STEPS) / Fraction(self.epsilon) * self.levels)

    @property
    def plain_only(self) -> str:  # type: ignore[override]  # by a setting
        """Too much noise would not fit into 64 bits, as compiled code counts."""
        return "" if self.scale < MOST_STEPS else f" for noise as large as that of {self.spelling}"

    def fields(self, num_arms: int) -> Mapping[str, Any]:
        """Return the fields that determine the noise: pulls in the current trees, and a key."""
        return {
            "in_trees": whole(num_arms),
            "life": int,  # the word with which the present trees began, 0 for the first
            "secret": whole(SECRET_BYTES // 8),
            "scale": int,
        }

    def start(self, s: Any, view: LocalView) -> None:
        if self.is_noisy and len(view.secret) != SECRET_BYTES:
            raise InputError(
                f"secret of agent {view.agent_id} has {len(view.secret)} bytes; private needs "
                f"{SECRET_BYTES} random bytes of its own; set LocalView.secret"
            )
        s.me.scale = self.scale
        if self.is_noisy:
            s.secret[:] = np.frombuffer(view.secret, dtype="<i8")

    def check_pull(self, s: Any, arm: int) -> None:
        if s.in_trees[arm] >= self.horizon:
            raise InputError(
                f"arm {arm} was pulled more than {self.horizon} times, for which the privacy of "
                "rewards was planned; give a larger horizon"
            )

    @staticmethod
    def drawn(s: Any, arm: int, reward: float, estimate: Estimate) -> float:
        """Return by how much the noisy sum of an arm grows."""
        pulls, level = int(s.in_trees[arm]) + 1, 0
        s.in_trees[arm] = pulls
        if s.me.scale == 0:
            return reward
        # The pull completes a block as large as the lowest digit 1 of n, and that one takes the
        # place of all smaller blocks: those of the digits 1 that end n − 1.
        while (pulls >> level) & 1 == 0:
            level += 1
        steps = noise_of(s, arm, level, pulls - (1 << level))
        for smaller in range(level):
            steps -= noise_of(s, arm, smaller, pulls - (2 << smaller))
        clipped = min(1.0, max(0.0, reward)) * STEPS
        steps += int((clipped + NEAREST) - NEAREST)
        return steps / STEPS

    def reopened(self, s: Any, word: int) -> None:
        """Begin new trees, which have other noise and none of the rewards so far."""
        s.in_trees[:], s.me.life = 0, signed_word(word)

    def check_state(self, values: State) -> None:
        pulls: Any = values["in_trees"]
        if (pulls < 0).any() or (pulls > self.horizon).any():
            raise InputError(
                f"state field in_trees is {pulls.tolist()}; they go from 0 to {self.horizon}"
            )
        if not -(2**63) <= values["life"] < 2**63:
            raise InputError(f"state field life is {values['life']}; it has 64 bits")


def noise_of(s: Any, arm: int, level: int, first: int) -> int:
    """Return the noise of the block of 2^level pulls from `first` on, in steps."""
    return laplace_of(s.secret, s.me.life, arm, level, first, s.me.scale)


def laplace_of(secret: Any, life: int, arm: int, level: int, first: int, scale: int) -> int:
    """Return the variate of a block by its key and its place; compiled code has it, too."""
    place = pack("<q3Q", life, arm, level, first)
    return laplace(Coins(secret.astype("<i8").tobytes(), place), scale)


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


SOURCES: tuple[type[Source], ...] = (Private, Truncated)
"""Every source that ships."""
