"""Baselines: independent agents, which never communicate, and central ones, which see every pull.

What cooperation is measured against: N separate learners, and one controller of all agents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coopbandits.core.aggregate import CentralTotals, LocalSums
from coopbandits.core.checks import require_count
from coopbandits.core.index import UCB, BetaDraw, Index, NormalDraw, require_family
from coopbandits.core.policy import CentralPolicy, Parts, Policy
from coopbandits.core.spelling import AUTO


def draw_index(family: str) -> Index:
    require_family(family)
    return BetaDraw() if family == "bernoulli" else NormalDraw()


@dataclass(frozen=True)
class IndependentUCB(Policy):
    r"""N separate UCBs that never talk: the price of not cooperating.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln t / n_k}` of the agent's own
    t pulls, after every arm has been pulled once.

    Parameters
    ----------
    constant : float
        B.
    discount, window
        As in `LocalSums`.

    Notes
    -----
    Knows nothing of the network and sends nothing. *Differs from the paper* (Auer, Cesa-Bianchi,
    Fischer 2002, where B σ² = 2 for rewards in [0, 1]): the constant is a parameter.
    """

    constant: float = 2.0
    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "independent-ucb"

    @property
    def parts(self) -> Parts:
        return Parts(LocalSums(self.discount, self.window), UCB(self.constant))


@dataclass(frozen=True)
class IndependentTS(Policy):
    """N separate Thompson samplers that never talk.

    Parameters
    ----------
    family : {"auto", "gaussian", "bernoulli"}
        The rewards' family; "bernoulli" accepts any rewards in [0, 1]. "auto" is "bernoulli" where
        rewards are known to lie in [0, 1], else "gaussian".
    discount, window
        As in `LocalSums`.

    Notes
    -----
    Knows nothing of the network and sends nothing. *Differs from the paper* (Thompson 1933):
    nothing known.
    """

    family: str = AUTO
    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "independent-ts"

    @property
    def parts(self) -> Parts:
        return Parts(LocalSums(self.discount, self.window), draw_index(self.family))


@dataclass(frozen=True)
class CentralUCB(CentralPolicy):
    r"""One UCB that makes all N T pulls one after another, each knowing all before it.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln s / n_k}`, s the number of
    all pulls so far.

    Parameters
    ----------
    constant : float
        B.
    discount, window
        As in `CentralTotals`.

    Notes
    -----
    Sees every pull. *Differs from the paper* (Auer, Cesa-Bianchi, Fischer 2002): the constant is a
    parameter.
    """

    constant: float = 2.0
    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "central-ucb"

    @property
    def parts(self) -> Parts:
        return Parts(CentralTotals(None, self.discount, self.window), UCB(self.constant))


@dataclass(frozen=True)
class CentralBatchedUCB(CentralPolicy):
    r"""One UCB that chooses one arm per round for all N agents.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln s / n_k}`, s = tN the
    number of all pulls in the t rounds completed.

    Parameters
    ----------
    constant : float
        B.
    discount, window
        As in `CentralTotals`.

    Notes
    -----
    Sees every pull. *Differs from the paper* (Auer, Cesa-Bianchi, Fischer 2002): the constant is a
    parameter.
    """

    constant: float = 2.0
    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "central-batched-ucb"

    @property
    def parts(self) -> Parts:
        return Parts(CentralTotals(0, self.discount, self.window), UCB(self.constant))


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
        B.
    discount, window
        As in `CentralTotals`.

    Notes
    -----
    Sees every pull. *Differs from the paper* (Auer, Cesa-Bianchi, Fischer 2002): the constant is a
    parameter.
    """

    delay: int
    constant: float = 2.0
    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "delayed-central-ucb"

    def __post_init__(self) -> None:
        require_count("delay", self.delay)
        super().__post_init__()

    @property
    def parts(self) -> Parts:
        return Parts(CentralTotals(self.delay, self.discount, self.window), UCB(self.constant))


@dataclass(frozen=True)
class CentralTS(CentralPolicy):
    """One posterior of all rewards so far; every agent plays its own draw from it.

    Parameters
    ----------
    family : {"auto", "gaussian", "bernoulli"}
        The rewards' family: prior N(0, 1) with known σ, or Beta(1, 1); "auto" as in `DecTS`.
    discount, window
        As in `CentralTotals`.

    Notes
    -----
    Sees every pull of the rounds before. *Differs from the paper* (Thompson 1933): pulls come in
    batches of N.
    """

    family: str = AUTO
    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "central-ts"

    @property
    def parts(self) -> Parts:
        return Parts(CentralTotals(0, self.discount, self.window), draw_index(self.family))
