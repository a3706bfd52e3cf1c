"""Policies on a ledger: short messages in large networks that fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coopbandits.core.aggregate import LedgerSums
from coopbandits.core.index import UCB
from coopbandits.core.policies.robust import Bounding, Drawing
from coopbandits.core.policy import Parts


@dataclass(frozen=True)
class LedgerTS(Drawing):
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

    @property
    def parts(self) -> Parts:
        """Ledger sums × a posterior draw."""
        return Parts(LedgerSums(self.discount), self.draw)


@dataclass(frozen=True)
class LedgerUCB(Bounding):
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

    @property
    def parts(self) -> Parts:
        """Ledger sums × UCB."""
        return Parts(LedgerSums(self.discount), UCB(self.constant))
