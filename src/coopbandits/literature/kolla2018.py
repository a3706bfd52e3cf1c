"""UCB-Network: agents see the pulls of their neighbours.

Kolla, Jagannathan and Gopalan, "Collaborative learning of stochastic bandits over a social
network", IEEE/ACM Transactions on Networking 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coopbandits.core.aggregate import NeighborhoodSums
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
        return Parts(NeighborhoodSums(self.exploring, self.fair), UCB(self.constant))
