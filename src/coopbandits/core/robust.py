"""Policies for networks that fail: they know neither N nor λ, and take whatever messages arrive."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from coopbandits.core.agent import Agent, CooperativeAgent, Index, LocalView
from coopbandits.core.aggregate.flooded_totals import FloodedTotals
from coopbandits.core.aggregate.pull_mixing import PullMixing
from coopbandits.core.aggregate.tree_sums import TreeSums
from coopbandits.core.checks import require_positive
from coopbandits.core.errors import unknown_name
from coopbandits.core.index.posterior import beta_draw_index, centred_draw_index
from coopbandits.core.index.ucb import ucb_index
from coopbandits.core.policy import Policy
from coopbandits.core.thompson import require_family

SIGMAS = ("known", "estimate")

RANDOM_WORD = frozenset({"random_word"})


@dataclass(frozen=True)
class GossipTS(Policy):
    """GossipTS: pull mixing × a posterior draw, with N estimated by extrema propagation.

    Draws every arm's mean from its posterior on N̂ times the mixed averages, prior one pull of the
    average reward, and plays the largest.

    Parameters
    ----------
    family : {"gaussian", "bernoulli"}
        The rewards' family; "bernoulli" also takes rewards anywhere in [0, 1].
    sigma : {"known", "estimate"}
        Whether σ of Gaussian rewards is told or estimated from their scatter, which adds one value
        to a message. It makes no difference to a Bernoulli posterior.

    Notes
    -----
    Knows who its neighbours are, a random word of its own and, unless estimated, σ. Sends 2K + 2
    values to each neighbour in every round, and 32 more as long as the two differ about N̂.

    *Differs from the paper*: none has it; it is Dec-TS (Lalitha, Goldsmith 2020) on averages that
    take any loss, with N̂ for N.
    """

    family: str = "gaussian"
    sigma: str = "known"
    name: ClassVar[str] = "gossip-ts"

    def __post_init__(self) -> None:
        """Refuse unknown settings."""
        require_sampling(self.family, self.sigma)

    @property
    def needs(self) -> frozenset[str]:
        """A random word."""
        return RANDOM_WORD

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        sigma, squares = sigma_of(self, view)
        aggregation = PullMixing(view, squares=squares)
        return CooperativeAgent(view, aggregation, sampling(self.family, sigma), self.spelling)


@dataclass(frozen=True)
class TreeTS(Policy):
    """TreeTS: exact sums on a tree that the agents make themselves × a posterior draw.

    Draws every arm's mean from its posterior, in which pulls still on their way are anticipated,
    and plays the largest.

    Parameters
    ----------
    family, sigma : str
        As in `GossipTS`.

    Notes
    -----
    Knows who its neighbours are, a random word of its own and, unless estimated, σ. Sends 2K + 6
    values to each neighbour in every round, and 32 more until the number of agents is steady.

    *Differs from the paper*: none has it.
    """

    family: str = "gaussian"
    sigma: str = "known"
    name: ClassVar[str] = "tree-ts"

    def __post_init__(self) -> None:
        """Refuse unknown settings."""
        require_sampling(self.family, self.sigma)

    @property
    def needs(self) -> frozenset[str]:
        """A random word."""
        return RANDOM_WORD

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        sigma, squares = sigma_of(self, view)
        aggregation = TreeSums(view, squares=squares)
        return CooperativeAgent(view, aggregation, sampling(self.family, sigma), self.spelling)


@dataclass(frozen=True)
class FloodTS(Policy):
    """FloodTS: flooding of everybody's totals × a posterior draw.

    Draws every arm's mean from its posterior, in which pulls still on their way are anticipated,
    and plays the largest.

    Parameters
    ----------
    family, sigma : str
        As in `GossipTS`.

    Notes
    -----
    Knows its own number, who its neighbours are and, unless estimated, σ. Sends 2 values to each
    neighbour in every round, and 2K + 2 for every agent of whom the neighbour may know less.

    *Differs from the paper*: none has it.
    """

    family: str = "gaussian"
    sigma: str = "known"
    name: ClassVar[str] = "flood-ts"

    def __post_init__(self) -> None:
        """Refuse unknown settings."""
        require_sampling(self.family, self.sigma)

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        sigma, squares = sigma_of(self, view)
        aggregation = FloodedTotals(view, squares=squares)
        return CooperativeAgent(view, aggregation, sampling(self.family, sigma), self.spelling)


@dataclass(frozen=True)
class TreeUCB(Policy):
    r"""TreeUCB: exact sums on a tree that the agents make themselves × UCB, to bound the tail.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln s / n_k}`, s the number of
    pulls known of.

    Parameters
    ----------
    constant : float
        B.

    Notes
    -----
    Knows who its neighbours are, σ and a random word of its own. Sends what `TreeTS` sends.

    *Differs from the paper*: none has it.
    """

    constant: float = 2.0
    name: ClassVar[str] = "tree-ucb"

    def __post_init__(self) -> None:
        """Refuse a bonus that is no bonus."""
        require_positive("constant", self.constant)

    @property
    def needs(self) -> frozenset[str]:
        """A random word."""
        return RANDOM_WORD

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        index = partial(ucb_index, scale=self.constant * view.sigma**2)
        return CooperativeAgent(view, TreeSums(view), index, self.spelling)


@dataclass(frozen=True)
class FloodUCB(Policy):
    r"""FloodUCB: flooding of everybody's totals × UCB, to bound the tail.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln s / n_k}`, s the number of
    pulls known of.

    Parameters
    ----------
    constant : float
        B.

    Notes
    -----
    Knows its own number, who its neighbours are, and σ. Sends what `FloodTS` sends.

    *Differs from the paper*: none has it.
    """

    constant: float = 2.0
    name: ClassVar[str] = "flood-ucb"

    def __post_init__(self) -> None:
        """Refuse a bonus that is no bonus."""
        require_positive("constant", self.constant)

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        index = partial(ucb_index, scale=self.constant * view.sigma**2)
        return CooperativeAgent(view, FloodedTotals(view), index, self.spelling)


def require_sampling(family: str, sigma: str) -> None:
    """Refuse an unknown family of rewards, and an unknown way to know σ."""
    require_family(family)
    if sigma not in SIGMAS:
        raise unknown_name("way to know sigma", str(sigma), SIGMAS)


def sigma_of(policy: GossipTS | TreeTS | FloodTS, view: LocalView) -> tuple[float | None, bool]:
    """Return σ, None where it is to be estimated, and whether squares must travel for that."""
    squares = policy.family == "gaussian" and policy.sigma == "estimate"
    return (None if squares else view.sigma), squares


def sampling(family: str, sigma: float | None) -> Index:
    """Return the posterior draw for a family of rewards."""
    return beta_draw_index if family == "bernoulli" else partial(centred_draw_index, sigma=sigma)
