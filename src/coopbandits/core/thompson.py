"""Bayesian policies on a running consensus, and without one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from coopbandits.core.agent import Agent, CooperativeAgent, Index, LocalView
from coopbandits.core.aggregate.local import LocalSums
from coopbandits.core.coop_ucb import consensus
from coopbandits.core.errors import unknown_name
from coopbandits.core.index.posterior import beta_draw_index, normal_draw_index
from coopbandits.core.index.quantile import bayes_ucb_index
from coopbandits.core.policy import Policy

FAMILIES = ("gaussian", "bernoulli")


@dataclass(frozen=True)
class DecTS(Policy):
    r"""Dec-TS (Lalitha, Goldsmith 2020): a running consensus × a posterior draw.

    Gaussian: prior N(0, 1), a pull adds N/σ² to the precision τ and N u/σ² to h, both are mixed,
    and the arm with the largest draw from N(h/τ, 1/τ) is played. Bernoulli: prior Beta(1, 1), a
    pull adds N u and N(1 − u), both mixed.

    Parameters
    ----------
    family : {"gaussian", "bernoulli"}
        The rewards' family; "bernoulli" also takes rewards anywhere in [0, 1].

    Notes
    -----
    Knows its row of P, N and, for Gaussian rewards, σ. Sends 2K values to each neighbour in every
    round. No initial rounds: the first draw is from the prior.

    *Differs from the paper*: what travels are sums and counts, to which the prior is added when a
    draw is made; that is the same, since mixing keeps the prior, which is equal everywhere.
    """

    family: str = "gaussian"
    name: ClassVar[str] = "dec-ts"

    def __post_init__(self) -> None:
        """Refuse an unknown family."""
        require_family(self.family)

    @property
    def needs(self) -> frozenset[str]:
        """N."""
        return frozenset({"num_agents"})

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        index = draw_index(self.family, view.sigma)
        return CooperativeAgent(view, consensus(self, view), index, self.spelling)


@dataclass(frozen=True)
class DecBayesUCB(Policy):
    """Dec-BayesUCB, Gaussian: Dec-TS with a quantile of the posterior instead of a draw.

    Notes
    -----
    Knows its row of P, N and σ. Sends 2K values to each neighbour in every round.

    *Differs from the paper* (Lalitha, Goldsmith 2020): the level is 1 − 1/(t + 1), t the rounds
    completed, where the paper leaves its constants open.
    """

    name: ClassVar[str] = "dec-bayes-ucb"

    @property
    def needs(self) -> frozenset[str]:
        """N."""
        return frozenset({"num_agents"})

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        index = partial(bayes_ucb_index, sigma=view.sigma)
        return CooperativeAgent(view, consensus(self, view), index, self.spelling)


@dataclass(frozen=True)
class IndependentTS(Policy):
    """N separate Thompson samplers that never talk.

    Parameters
    ----------
    family : {"gaussian", "bernoulli"}
        The rewards' family, as in `DecTS`.

    Notes
    -----
    Knows nothing of the network and sends nothing. *Differs from the paper* (Thompson 1933):
    nothing known.
    """

    family: str = "gaussian"
    name: ClassVar[str] = "independent-ts"

    def __post_init__(self) -> None:
        """Refuse an unknown family."""
        require_family(self.family)

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        index = draw_index(self.family, view.sigma)
        return CooperativeAgent(view, LocalSums(view), index, self.spelling)


def require_family(family: str) -> None:
    """Refuse an unknown family of rewards."""
    if family not in FAMILIES:
        raise unknown_name("family of rewards", str(family), FAMILIES)


def draw_index(family: str, sigma: float) -> Index:
    """Return the posterior draw for a family of rewards."""
    return beta_draw_index if family == "bernoulli" else partial(normal_draw_index, sigma=sigma)
