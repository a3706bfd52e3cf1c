"""Gossip_UCB and Fed_UCB: agents that meet in pairs, whose sites may differ.

Zhu, Zhu, Liu and Liu, "Federated bandit: a gossiping approach", 2021. Means are tracked by
`TrackedMeans`, as in `zhu2021a`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coopbandits.core.index import UCB
from coopbandits.core.policy import Parts, Policy
from coopbandits.core.sourced import AtSource
from coopbandits.core.sources import Private
from coopbandits.literature.zhu2021a import TrackedMeans


@dataclass(frozen=True)
class GossipUCB(Policy):
    r"""Gossip_UCB (Zhu, Zhu, Liu, Liu 2021): means tracked in pairs × UCB.

    Looks for the arm with the largest mean over all agents, whose own means may differ. Plays the
    arm with the largest :math:`z_k + \sqrt{N B σ^2 \ln t/n_k}`, z the tracked means, :math:`n_k`
    the own pulls and t all of them.

    Parameters
    ----------
    constant : float
        B; 8 is the authors' 2 for rewards in [0, 1].

    Notes
    -----
    Knows N and its row of P. Made for the fault ``pairs=1``, by which an agent hears one neighbour
    at most in a round. Sends that one 2K values.

    *Differs from the paper*: the largest counts are told to the partner alone, where the paper's
    go to all neighbours; of the arms on which it lags behind an agent plays the lowest, not a
    random one. The paper's bonus has :math:`64/N^{17}` more, the same for all arms. Where several
    neighbours are heard, weights are those of P.
    """

    constant: float = 8.0
    name: ClassVar[str] = "gossip-ucb"

    @property
    def parts(self) -> Parts:
        return Parts(TrackedMeans(pairs=True), UCB(self.constant))


@dataclass(frozen=True)
class FedUCB(AtSource):
    r"""Fed_UCB (Zhu, Zhu, Liu, Liu 2021): Gossip_UCB on sums with differential privacy.

    The bonus is :math:`\sqrt{N B σ^2 (1/n_k + 128 N \ln^2 T \ln t \ln n_k/(n_k^2 ε^2)) \ln t}`.

    Parameters
    ----------
    epsilon : float
        ε; infinity for `GossipUCB`.
    horizon : int
        T, how many pulls an agent makes at most.
    constant : float
        B; 8 is the authors' 2 for rewards in [0, 1].

    Notes
    -----
    Knows N, its row of P, and a secret, from which noise is drawn. Sends as `GossipUCB` does.
    Rewards are clipped to [0, 1]. *Differs from the paper* as `GossipUCB` and `Private` do.
    """

    epsilon: float
    horizon: int
    constant: float = 8.0
    name: ClassVar[str] = "fed-ucb"

    def __post_init__(self) -> None:
        self.source, self.noisy  # noqa: B018  making them checks them

    @property
    def source(self) -> Private:
        return Private(self.epsilon, self.horizon)

    @property
    def noisy(self) -> Parts:
        """What is played on noisy sums; not `parts`, since without the source it is another."""
        tracked = TrackedMeans(pairs=True, epsilon=self.epsilon, horizon=self.horizon)
        return Parts(tracked, UCB(self.constant))
