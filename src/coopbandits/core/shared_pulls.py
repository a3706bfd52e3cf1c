"""Policies whose agents tell each other single pulls: to neighbours, or further on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from coopbandits.core.agent import Agent, CooperativeAgent, LocalView
from coopbandits.core.aggregate.flooded_pulls import FloodedPulls
from coopbandits.core.aggregate.neighborhood import NeighborhoodSums
from coopbandits.core.checks import require_count, require_positive
from coopbandits.core.index.ucb import ucb_index
from coopbandits.core.policy import Policy


@dataclass(frozen=True)
class UCBNetwork(Policy):
    r"""UCB-Network (Kolla, Jagannathan, Gopalan 2018): neighbours' pulls × UCB.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln t / m_k}`, :math:`m_k` the
    pulls of the arm by the agent and its neighbours, t the agent's own pulls.

    Parameters
    ----------
    constant : float
        B; 4 matches DDUCB's default.

    Notes
    -----
    Knows who its neighbours are. Sends 2 values, the arm and its reward, to each of them in every
    round.

    *Differs from the paper*, where B σ² = 2 for rewards in [0, 1]: the constant is a parameter.
    """

    constant: float = 4.0
    name: ClassVar[str] = "ucb-network"

    def __post_init__(self) -> None:
        """Refuse a bonus that is no bonus."""
        require_positive("constant", self.constant)

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        index = partial(ucb_index, scale=self.constant * view.sigma**2)
        return CooperativeAgent(view, NeighborhoodSums(view), index, self.spelling)


@dataclass(frozen=True)
class MPUCB(Policy):
    r"""MP-UCB (Dubey, Pentland 2020): pulls flooded over some hops × UCB.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln t / m_k}`, :math:`m_k` the
    pulls of the arm that the agent made or heard of, t the agent's own pulls.

    Parameters
    ----------
    hop_limit : int
        The paper's γ, how many links the news of a pull may cross; with 1 the arms are those of
        `UCBNetwork`.
    constant : float
        B; 4 matches DDUCB's default.

    Notes
    -----
    Knows its own number, who its neighbours are, and the number of the round, common to all. Sends
    4 values to each neighbour for every pull that was made at most `hop_limit` − 1 hops away.

    *Differs from the paper*, which is about heavy-tailed rewards and takes robust means: here it is
    the plain mean, and the constant is a parameter.
    """

    hop_limit: int
    constant: float = 4.0
    name: ClassVar[str] = "mp-ucb"
    needs_common_round: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        require_count("hop_limit", self.hop_limit)
        require_positive("constant", self.constant)

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        index = partial(ucb_index, scale=self.constant * view.sigma**2)
        aggregation = FloodedPulls(view, self.hop_limit)
        return CooperativeAgent(view, aggregation, index, self.spelling)
