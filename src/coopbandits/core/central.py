"""Central policies: one controller that sees every pull. What cooperation is measured against.

The contract is smaller than an agent's: in every round, for every agent in turn, `choose` and then
`observe`; then `end_round`. A controller that acts on whole rounds reads what it knew at the start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from coopbandits.core.agent import Estimate, Index, Vector, best_arm
from coopbandits.core.checks import require_count, require_positive
from coopbandits.core.index.ucb import ucb_index
from coopbandits.core.spelling import Named
from coopbandits.core.thompson import draw_index, require_family


class Controller:
    """Pooled totals and an index on what they were `delay` rounds ago; delay −1 is at once."""

    def __init__(self, num_arms: int, index: Index, delay: int) -> None:
        self.index = index
        self.totals = np.zeros(2 * num_arms)
        self.history = [self.totals.copy() for _ in range(delay + 1)]
        self.rounds = 0

    def choose(self, word: int) -> int:
        """Return the arm for the next agent."""
        visible: Vector = self.history[0] if self.history else self.totals
        sums, counts = visible.reshape(2, -1)
        if len(self.history) > 1 and not counts.all():
            return self.rounds % counts.size  # nothing to go by yet: every arm in turn
        estimate = Estimate(sums, counts, max(2.0, float(counts.sum())), 1.0)
        return best_arm(self.index(estimate, word))

    def observe(self, arm: int, reward: float) -> None:
        """Take in one reward."""
        self.totals[arm] += reward
        self.totals[self.totals.size // 2 + arm] += 1.0

    def end_round(self) -> None:
        """Let time pass for what is only seen later."""
        self.rounds += 1
        if self.history:
            self.history = [*self.history[1:], self.totals.copy()]


class CentralPolicy(Named, ABC):
    """Settings that make a controller of all agents."""

    @abstractmethod
    def make_controller(self, num_arms: int, sigma: float) -> Controller:
        """Return a fresh controller."""


@dataclass(frozen=True)
class CentralUCB(CentralPolicy):
    r"""One UCB that makes all N T pulls one after another, each knowing all before it.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln s / n_k}`, s the number of
    all pulls so far.

    Parameters
    ----------
    constant : float
        B; 4 matches DDUCB's default.

    Notes
    -----
    Sees every pull. *Differs from the paper* (Auer, Cesa-Bianchi, Fischer 2002): the constant is a
    parameter.
    """

    constant: float = 4.0
    name: ClassVar[str] = "central-ucb"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        require_positive("constant", self.constant)

    def make_controller(self, num_arms: int, sigma: float) -> Controller:
        """Return a fresh controller."""
        return Controller(num_arms, partial(ucb_index, scale=self.constant * sigma**2), delay=-1)


@dataclass(frozen=True)
class CentralBatchedUCB(CentralPolicy):
    r"""One UCB that chooses one arm per round for all N agents.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln s / n_k}`, s = tN the
    number of all pulls in the t rounds completed.

    Parameters
    ----------
    constant : float
        B; 4 matches DDUCB's default.

    Notes
    -----
    Sees every pull. *Differs from the paper* (Auer, Cesa-Bianchi, Fischer 2002): the constant is a
    parameter.
    """

    constant: float = 4.0
    name: ClassVar[str] = "central-batched-ucb"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        require_positive("constant", self.constant)

    def make_controller(self, num_arms: int, sigma: float) -> Controller:
        """Return a fresh controller."""
        return Controller(num_arms, partial(ucb_index, scale=self.constant * sigma**2), delay=0)


@dataclass(frozen=True)
class DelayedCentralUCB(CentralPolicy):
    r"""The batched central UCB on statistics that are some rounds old.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln s / n_k}`, s the number of
    pulls behind them. Until every arm is seen, arms are played in turn.

    Parameters
    ----------
    delay : int
        By how many rounds rewards are late.
    constant : float
        B; 4 matches DDUCB's default.

    Notes
    -----
    Sees every pull. *Differs from the paper* (Auer, Cesa-Bianchi, Fischer 2002): the constant is a
    parameter.
    """

    delay: int
    constant: float = 4.0
    name: ClassVar[str] = "delayed-central-ucb"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        require_count("delay", self.delay)
        require_positive("constant", self.constant)

    def make_controller(self, num_arms: int, sigma: float) -> Controller:
        """Return a fresh controller."""
        return Controller(
            num_arms, partial(ucb_index, scale=self.constant * sigma**2), delay=self.delay
        )


@dataclass(frozen=True)
class CentralTS(CentralPolicy):
    """One posterior of all rewards so far; every agent plays its own draw from it.

    Parameters
    ----------
    family : {"gaussian", "bernoulli"}
        The rewards' family: prior N(0, 1) with known σ, or Beta(1, 1).

    Notes
    -----
    Sees every pull of the rounds before. *Differs from the paper* (Thompson 1933): pulls come in
    batches of N.
    """

    family: str = "gaussian"
    name: ClassVar[str] = "central-ts"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        require_family(self.family)

    def make_controller(self, num_arms: int, sigma: float) -> Controller:
        """Return a fresh controller."""
        return Controller(num_arms, draw_index(self.family, sigma), delay=0)
