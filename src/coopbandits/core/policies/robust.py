"""Policies for networks that fail: they know neither N nor λ, and use whatever messages arrive.

Pull mixing, a tree, flooding or a ledger, each × a posterior draw (TS) or × UCB, which bounds the
tail of the regret.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from coopbandits.core.aggregate import (
    AnyAggregation,
    FloodedTotals,
    LedgerSums,
    PullMixing,
    TreeSums,
)
from coopbandits.core.aggregate.pooling import Spread
from coopbandits.core.index import UCB, BetaDraw, CentredDraw, require_family
from coopbandits.core.policy import Parts, Policy
from coopbandits.core.spelling import AUTO


@dataclass(frozen=True)
class Drawing(Policy):
    """Posterior draws on totals that forget; for the settings see `GossipTS`."""

    family: str = AUTO
    sigma: str = "known"
    discount: float = 1.0

    @property
    @abstractmethod
    def totals(self) -> AnyAggregation: ...

    @property
    def parts(self) -> Parts:
        require_family(self.family)
        normal = CentredDraw(self.sigma)  # made for any family: it checks `sigma`
        return Parts(self.totals, BetaDraw() if self.family == "bernoulli" else normal)


@dataclass(frozen=True)
class Bounding(Policy):
    """UCB on totals that forget."""

    constant: float = 2.0
    discount: float = 1.0

    @property
    @abstractmethod
    def totals(self) -> AnyAggregation: ...

    @property
    def parts(self) -> Parts:
        return Parts(self.totals, UCB(self.constant))


@dataclass(frozen=True)
class OnTotals(Policy):
    """Settings of totals that all agents share, for one of the above."""

    discount: float = 1.0
    window: int | None = None
    lazy: float = 0.0
    spread: Spread = None


@dataclass(frozen=True)
class OnTree(OnTotals):
    """Totals of a tree."""

    @property
    def totals(self) -> AnyAggregation:
        return TreeSums(self.discount, self.window, self.lazy, self.spread)


@dataclass(frozen=True)
class Flooded(OnTotals):
    """Totals of a flood."""

    @property
    def totals(self) -> AnyAggregation:
        return FloodedTotals(self.discount, self.window, self.lazy, self.spread)


@dataclass(frozen=True)
class OnLedger(Policy):
    """Totals of a ledger."""

    discount: float = 1.0

    @property
    def totals(self) -> AnyAggregation:
        return LedgerSums(self.discount)


@dataclass(frozen=True)
class GossipTS(Drawing):
    """GossipTS: pull mixing × a posterior draw, with N estimated by extrema propagation.

    Draws every arm's mean from its posterior on N̂ times the mixed averages, prior one pull of the
    average reward, and plays the largest.

    Parameters
    ----------
    family : {"auto", "gaussian", "bernoulli"}
        The rewards' family; "bernoulli" accepts any rewards in [0, 1]. "auto" is "bernoulli" where
        rewards are known to lie in [0, 1], else "gaussian".
    sigma : {"known", "estimate"}
        Whether σ of Gaussian rewards is told or estimated from their scatter, which adds one value
        to a message. It makes no difference to a Bernoulli posterior.
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.

    Notes
    -----
    Knows who its neighbours are, a random word of its own and, unless estimated, σ. Sends 2K + 2
    values to each neighbour in every round, and 33 more as long as the two differ about N̂.

    *Differs from the paper*: none has it; it is Dec-TS (Lalitha, Goldsmith 2020) on averages that
    take any loss, with N̂ for N.
    """

    name: ClassVar[str] = "gossip-ts"

    @property
    def totals(self) -> AnyAggregation:
        return PullMixing(self.discount)


@dataclass(frozen=True)
class TreeTS(OnTree, Drawing):
    """TreeTS: exact sums on a tree that the agents make themselves × a posterior draw.

    Draws every arm's mean from its posterior, in which pulls still on their way are anticipated,
    and plays the largest.

    Parameters
    ----------
    family, sigma : str
        As in `GossipTS`.
    discount, window, lazy, spread
        As in `TreeSums`.

    Notes
    -----
    Knows who its neighbours are, a random word of its own and, unless estimated, σ. Sends 2K + 6
    values to each neighbour in every round, and 32 more until the number of agents is steady.

    *Differs from the paper*: none has it.
    """

    name: ClassVar[str] = "tree-ts"


@dataclass(frozen=True)
class FloodTS(Flooded, Drawing):
    """FloodTS: flooding of all agents' totals × a posterior draw.

    Draws every arm's mean from its posterior, in which pulls still on their way are anticipated,
    and plays the largest.

    Parameters
    ----------
    family, sigma : str
        As in `GossipTS`.
    discount, window, lazy, spread
        As in `FloodedTotals`.

    Notes
    -----
    Knows its own number, who its neighbours are and, unless estimated, σ. Sends 2 values to each
    neighbour in every round, and 2K + 2 for every agent of whom the neighbour may know less.

    *Differs from the paper*: none has it.
    """

    name: ClassVar[str] = "flood-ts"


@dataclass(frozen=True)
class TreeUCB(OnTree, Bounding):
    r"""TreeUCB: exact sums on a tree that the agents make themselves × UCB, to bound the tail.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln s / n_k}`, s the number of
    pulls known of.

    Parameters
    ----------
    constant : float
        B.
    discount, window, lazy, spread
        As in `TreeSums`.

    Notes
    -----
    Knows who its neighbours are, σ and a random word of its own. Sends what `TreeTS` sends.

    *Differs from the paper*: none has it.
    """

    name: ClassVar[str] = "tree-ucb"


@dataclass(frozen=True)
class FloodUCB(Flooded, Bounding):
    r"""FloodUCB: flooding of all agents' totals × UCB, to bound the tail.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln s / n_k}`, s the number of
    pulls known of.

    Parameters
    ----------
    constant : float
        B.
    discount, window, lazy, spread
        As in `FloodedTotals`.

    Notes
    -----
    Knows its own number, who its neighbours are, and σ. Sends what `FloodTS` sends.

    *Differs from the paper*: none has it.
    """

    name: ClassVar[str] = "flood-ucb"


@dataclass(frozen=True)
class LedgerTS(OnLedger, Drawing):
    """LedgerTS: pulls handed on to a root, and its ledger told to all × a posterior draw.

    Draws every arm's mean from its posterior, in which pulls still on their way are anticipated,
    and plays the largest.

    Parameters
    ----------
    family, sigma : str
        As in `GossipTS`.
    discount : float
        γ of `LedgerSums`.

    Notes
    -----
    Knows who its neighbours are, a random word of its own and, unless estimated, σ. Sends 6K + 13
    values to each neighbour in every round, and 32 or 33 more until the number of agents is steady.

    *Differs from the paper*: none has it.
    """

    name: ClassVar[str] = "ledger-ts"


@dataclass(frozen=True)
class LedgerUCB(OnLedger, Bounding):
    r"""LedgerUCB: pulls handed on to a root, and its ledger told to all × UCB, to bound the tail.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln s / n_k}`, s the number of
    pulls known of.

    Parameters
    ----------
    constant : float
        B.
    discount : float
        γ of `LedgerSums`.

    Notes
    -----
    Knows who its neighbours are, σ and a random word of its own. Sends what `LedgerTS` sends.

    *Differs from the paper*: none has it.
    """

    name: ClassVar[str] = "ledger-ucb"
