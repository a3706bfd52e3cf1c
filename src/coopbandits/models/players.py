"""Players that collide: rhoRand, MCTopM, and time division.

Each knows the number M of players and nothing of what the others do, but for its own collisions.
It senses what its arm would have paid, also in a collision.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from coopbandits.core.special import bernoulli_upper
from coopbandits.models.coins import Dice


class Player(ABC):
    r"""One player: own counts, and KL-UCB's :math:`\max\{q : n_k\,kl(\hat\mu_k, q) \le \ln t\}`.

    Parameters
    ----------
    num_arms, players : int
        K and M.
    dice : Dice
        The player's own chance.
    """

    name: ClassVar[str]

    def __init__(self, num_arms: int, players: int, dice: Dice) -> None:
        self.players, self.dice = players, dice
        self.counts, self.sums = np.zeros(num_arms), np.zeros(num_arms)
        self.indices = [math.inf] * num_arms

    @abstractmethod
    def choose(self) -> int:
        """Return the arm to play."""

    @abstractmethod
    def react(self, arm: int, collided: bool, before: list[float]) -> None:
        """Take note of a collision, or of none; `before` are the indices before this round."""

    def observe(self, arm: int, sensed: float, collided: bool) -> None:
        """Take in what an arm paid, or would have."""
        before = self.indices
        self.counts[arm] += 1.0
        self.sums[arm] += sensed
        log = math.log(self.counts.sum())
        self.indices = [
            bernoulli_upper(s / n, log / n) if n > 0.0 else math.inf
            for s, n in zip(self.sums.tolist(), self.counts.tolist(), strict=True)
        ]
        self.react(arm, collided, before)

    def ranked(self) -> list[int]:
        """Return the arms by falling index, equal ones in any order."""
        ties = self.dice.uniforms(len(self.indices)).tolist()
        return sorted(range(len(ties)), key=lambda k: (-self.indices[k], ties[k]))


class RhoRand(Player):
    """rhoRand (Anandkumar, Michael, Tang, Swami 2011).

    Plays the arm with the ρ-th largest index, and draws another rank ρ of 1 to M after a collision.
    """

    name = "rho-rand"

    def __init__(self, num_arms: int, players: int, dice: Dice) -> None:
        super().__init__(num_arms, players, dice)
        self.rank = dice.one_of(range(players))

    def choose(self) -> int:
        """Return the arm of the own rank."""
        return self.ranked()[self.rank]

    def react(self, arm: int, collided: bool, before: list[float]) -> None:
        """Draw another rank after a collision."""
        del arm, before
        if collided:
            self.rank = self.dice.one_of(range(self.players))


class MCTopM(Player):
    """MCTopM (Besson, Kaufmann 2018): musical chairs among the M best arms.

    Stays on its arm while that is among the M best; leaves it for one of them whose index was not
    above it before. After a collision it takes another of them, unless it is seated: on this arm
    once without a collision.
    """

    name = "mc-top-m"

    def __init__(self, num_arms: int, players: int, dice: Dice) -> None:
        super().__init__(num_arms, players, dice)
        self.arm, self.seated = dice.one_of(range(num_arms)), False

    def choose(self) -> int:
        """Return the arm sat on."""
        return self.arm

    def react(self, arm: int, collided: bool, before: list[float]) -> None:
        """Stay, or take another chair."""
        best = self.ranked()[: self.players]
        if arm not in best:
            modest = [k for k in best if before[k] <= before[arm]]
            self.arm, self.seated = self.dice.one_of(modest or best), False
        elif collided and not self.seated:
            self.arm = self.dice.one_of(best)
        else:
            self.seated = True


class TDFS(Player):
    """Time-division fair sharing (Liu, Zhao 2010).

    With an offset o it plays, in round t, the arm with the ((t + o) mod M)-th largest index, so
    that players with different offsets share the M best arms evenly. After a collision it draws
    another offset.
    """

    name = "tdfs"

    def __init__(self, num_arms: int, players: int, dice: Dice) -> None:
        super().__init__(num_arms, players, dice)
        self.offset, self.rounds = dice.one_of(range(players)), 0

    def choose(self) -> int:
        """Return the arm whose turn it is."""
        return self.ranked()[(self.rounds + self.offset) % self.players]

    def react(self, arm: int, collided: bool, before: list[float]) -> None:
        """Draw another offset after a collision."""
        del arm, before
        self.rounds += 1
        if collided:
            self.offset = self.dice.one_of(range(self.players))
