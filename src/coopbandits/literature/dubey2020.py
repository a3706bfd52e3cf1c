"""MP-UCB: the news of every pull travels over some hops.

Dubey and Pentland, "Cooperative multi-agent bandits with heavy tails", ICML 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coopbandits.core.aggregate import FloodedPulls
from coopbandits.core.index import UCB
from coopbandits.core.policy import Parts, Policy


@dataclass(frozen=True)
class MPUCB(Policy):
    r"""MP-UCB (Dubey, Pentland 2020): pulls flooded over some hops × UCB.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln t / m_k}`, :math:`m_k` the
    pulls of the arm that the agent made or heard of, t the agent's own pulls.

    Parameters
    ----------
    hop_limit : int
        The paper's γ, how many links the news of a pull may cross; with 1 the arms are those of
        `ucb-network`.
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
        return Parts(FloodedPulls(self.hop_limit, self.wait), UCB(self.constant))
