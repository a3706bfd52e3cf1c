"""Policies without communication, to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.agent import CooperativeAgent, LocalView
from coopbandits.core.aggregate.local import LocalSums
from coopbandits.core.checks import require_positive
from coopbandits.core.index.ucb import ucb_index
from coopbandits.core.policy import Policy

if TYPE_CHECKING:
    from coopbandits.core.agent import Agent


@dataclass(frozen=True)
class IndependentUCB(Policy):
    r"""N separate UCBs that never talk: the price of not cooperating.

    Plays the arm with the largest :math:`\hat\mu_k + \sqrt{B σ^2 \ln t / n_k}` of the agent's own
    t pulls, after every arm has been pulled once.

    Parameters
    ----------
    constant : float
        B; 4 matches DDUCB's default.

    Notes
    -----
    Knows nothing of the network and sends nothing. *Differs from the paper* (Auer, Cesa-Bianchi,
    Fischer 2002, where B σ² = 2 for rewards in [0, 1]): the constant is a parameter.
    """

    constant: float = 4.0
    name: ClassVar[str] = "independent-ucb"

    def __post_init__(self) -> None:
        """Refuse a bonus that is no bonus."""
        require_positive("constant", self.constant)

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        index = partial(ucb_index, scale=self.constant * view.sigma**2)
        return CooperativeAgent(view, LocalSums(view), index, self.spelling)
