"""Resilient UCB, and agents that lie to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.trimmed_means import TrimmedMeans, TrimmedMeansMachine
from coopbandits.core.checks import require_number
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.errors import unknown_name
from coopbandits.core.index import UCB
from coopbandits.core.policy import Parts, Policy
from coopbandits.core.statistic import ArmSums

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView, Vector

ATTACKS = ("raise", "swap")
"""What a liar tells: a bad arm is good, or the two best arms are each other."""


@dataclass(frozen=True)
class ResilientUCB(Policy):
    r"""Resilient UCB (Zhu, Koppel, Velasquez, Liu 2023): trimmed means × UCB.

    Plays the arm with the largest :math:`z_k + \sqrt{g_k B σ^2 \ln t/n_k}`, z the own mean averaged
    with those of neighbours but for the f largest and f smallest, :math:`g_k = (4/M^2 + κ/M +
    κ)/4` for M means averaged, and 1 where there are too few of them.

    Parameters
    ----------
    liars : int
        f, how many neighbours of an agent may lie.
    kappa : float
        κ, at least 1: a neighbour counts if it has pulled an arm at least 1/κ times as often.
    constant : float
        B; 8 is the authors' 2 for rewards in [0, 1].

    Notes
    -----
    Knows who its neighbours are. Sends 2K values to each of them in every round. *Differs from the
    paper*: a neighbour that was not heard counts with what it told last.
    """

    liars: int = 1
    kappa: float = 1.5
    constant: float = 8.0
    name: ClassVar[str] = "resilient-ucb"

    @property
    def parts(self) -> Parts:
        """Trimmed means × UCB."""
        return Parts(TrimmedMeans(self.liars, self.kappa), UCB(self.constant))


@dataclass(frozen=True)
class Liar(Policy):
    """Lies to agents that tell their means, and plays UCB on its own pulls itself.

    Parameters
    ----------
    attack : {"raise", "swap"}
        "raise" tells that the arm which the liar finds worst has the mean `mean`, from as many
        pulls as it has heard of; "swap" exchanges the means of the two arms that it finds best.
    mean : float
        What "raise" tells.

    Notes
    -----
    It sends what agents of `trimmed-means` send, so give it to some agents of a population,
    ``resilient-ucb+liar@0``. Knows who its neighbours are. The attacks are ours.
    """

    attack: str = "raise"
    mean: float = 1.0
    name: ClassVar[str] = "liar"

    def __post_init__(self) -> None:
        """Refuse an unknown attack, and a mean that is no number."""
        if self.attack not in ATTACKS:
            raise unknown_name("attack", str(self.attack), ATTACKS)
        require_number("mean", self.mean, "a finite number", -math.inf, math.inf)

    def make_agent(self, view: LocalView) -> CooperativeAgent:
        """Return a fresh liar."""
        machine = LyingMachine(self, view)
        return CooperativeAgent(view, machine, UCB(8.0), self.spelling)


class LyingMachine(TrimmedMeansMachine):
    """Believes nobody, and tells something else than it knows."""

    def __init__(self, settings: Liar, view: LocalView) -> None:
        super().__init__(TrimmedMeans(), view, ArmSums().registers(view.num_arms))
        self.attack, self.claim = settings.attack, settings.mean

    def estimate(self) -> Estimate:
        """Return the own totals."""
        own = self.state.own.copy()
        time = max(2.0, float(self.registers.version(own)))
        return self.registers.read(own, time=time, num_agents=1.0)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return means and counts, of which some are made up."""
        message = super().outgoing(neighbor)
        if message is None or message.size < 4:  # with a single arm there is nothing to gain
            return message
        means, counts = message[: message.size // 2], message[message.size // 2 :]
        order = np.argsort(means, kind="stable")
        if self.attack == "swap":
            means[order[-2:]] = means[order[:-3:-1]]
            return message
        worst = int(order[0])
        means[worst] = self.claim
        told = self.state.heard[:, counts.size + worst]
        counts[worst] = max(float(counts[worst]), float(told.max(initial=0.0)))
        return message
