"""Policies whose agents tell each other single pulls: to neighbours, or further on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coopbandits.core.aggregate import FloodedPulls, NeighborhoodSums
from coopbandits.core.index import UCB
from coopbandits.core.policy import Parts, Policy


@dataclass(frozen=True)
class UCBNetwork(Policy):
    r"""UCB-Network (Kolla, Jagannathan, Gopalan 2018): neighbours' pulls × UCB.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln t / m_k}`, :math:`m_k` the
    pulls of the arm by the agent and its neighbours, t the agent's own pulls.

    Parameters
    ----------
    constant : float
        B; 8 is the authors' 2 for rewards in [0, 1].
    exploring : bool
        Whether only pulls are told of another arm than the one with the best mean (ComEx).
    fair : bool
        Whether agents with many neighbours leave out some of what they hear (LF).

    Notes
    -----
    Knows who its neighbours are; to be fair also the smallest number of neighbours in the network.
    Sends 2 values, the arm and its reward, to each of them in every round.

    *Differs from the paper*: nothing known.
    """

    constant: float = 8.0
    exploring: bool = False
    fair: bool = False
    name: ClassVar[str] = "ucb-network"

    @property
    def parts(self) -> Parts:
        """The neighbours' pulls × UCB."""
        return Parts(NeighborhoodSums(self.exploring, self.fair), UCB(self.constant))


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
        B; 4 gives bounds that fail with probability t⁻², as the authors' do.
    wait : int
        How many rounds old another agent's pull must be to count (Delayed MP-UCB; Madhushani,
        Dubey, Leonard, Pentland 2021).

    Notes
    -----
    Knows N, its own number, who its neighbours are, and the number of the round, common to all.
    Sends 4 values to each neighbour for every pull that was made at most `hop_limit` − 1 hops away.

    *Differs from the paper*, which is about heavy-tailed rewards and takes robust means: here it is
    the plain mean, with the bonus for sub-Gaussian rewards.
    """

    hop_limit: int
    constant: float = 4.0
    wait: int = 0
    name: ClassVar[str] = "mp-ucb"

    @property
    def parts(self) -> Parts:
        """Flooded pulls × UCB."""
        return Parts(FloodedPulls(self.hop_limit, self.wait), UCB(self.constant))
