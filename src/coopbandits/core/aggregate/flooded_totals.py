"""Flooding of totals: everybody keeps everybody's own totals, and passes on what is newer.

Per known agent there is one entry: its number, the rounds behind its totals, and their registers.
The number of pulls ever only grows, so it is an entry's version, and of two entries the one with
more pulls wins, for the own entry too: an agent that lost its memory hears of its former self.

A message to neighbour j is [number of this message | number of the last one heard from j | entries]
and carries the entries that j is not known to have: those that changed since the last message of
which j told that it arrived, less those that came from j. Messages are numbered by rounds. As every
message carries all since the last one acknowledged, whoever got it has all that the sender had: one
number per neighbour is enough, and what is lost is sent again until it is known to have arrived.
With `lazy` the own entry is news only once it has grown enough (`core.aggregate.lazy`), and where
there is neither news nor anything to acknowledge, nothing is sent at all.

Invariants: idempotent and order-free, so loss, delay and repetition only make entries older. What
is known is exact. Without faults an entry is as old as its agent is far away, and no protocol is
fresher. Memory and messages grow with the number of agents: all registers and 2 values per entry.

**Forgetting.** With a discount γ an entry holds its agent's totals as they counted in the round of
its last pull, which the rounds behind them tell; whoever reads it lets them age since then
(`forgetting`). So entries stay as their author told them, and growing old is no news. Counts no
longer only grow, so the number of pulls ever made travels beside them as the version. With a window
of w rounds, what was known w rounds ago is taken off what is known now. It begins anew where an
entry brings more than w rounds at once, as after a partition: what is old would count as recent.

*Differs from the paper*: nothing known; it is folklore (anti-entropy, Demers et al. 1987).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.aggregate.aggregation import OWN, ROBUST, AnyAggregation, MessageSize
from coopbandits.core.aggregate.entries import HEADER
from coopbandits.core.aggregate.flooded_machine import FloodedTotalsMachine
from coopbandits.core.aggregate.forgetting import check_forgetting
from coopbandits.core.aggregate.lazy import require_growth, require_lazy
from coopbandits.core.aggregate.pooling import Spread, carried, require_spread
from coopbandits.core.statistic import VersionedRegisters

if TYPE_CHECKING:
    from coopbandits.core.contract import LocalView
    from coopbandits.core.statistic import Registers, Statistic


@dataclass(frozen=True)
class FloodedTotals(AnyAggregation):
    """Exact totals of all agents heard of, each as stale as its message delay.

    Parameters
    ----------
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.
    window : int or None
        How many rounds of totals are read; None for all.
    lazy : float
        β: the own totals are told again once the pulls of some arm have grown by this share, and by
        one. 0 tells every pull.
    spread : float, "estimate" or None
        τ, by which the means of sites differ: others' pulls then count in part (`pooling`). None
        pools everything; "estimate" finds τ out, with K + 3 values more in an entry.

    Notes
    -----
    Knows its own number, who its neighbours are, and whether rounds are common (otherwise nothing
    is anticipated). Sends 2 values to each neighbour in every round, and all registers and 2 more,
    or 3 with a discount, for every agent of whom the neighbour may know less.
    """

    discount: float = 1.0
    window: int | None = None
    lazy: float = 0.0
    spread: Spread = None
    name: ClassVar[str] = "flooded-totals"
    mode: ClassVar[str] = ROBUST
    shares: ClassVar[str] = OWN
    exact: ClassVar[bool] = True
    checks_claims: ClassVar[bool] = True
    takes_time: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    outlives: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse what does not forget in one way, no such share, and no spread."""
        check_forgetting(self.discount, self.window)
        require_lazy(self, self.lazy)
        require_spread(self, self.spread)
        if self.lazy or self.spread is not None:
            object.__setattr__(self, "exact", False)
        if self.spread is not None:
            object.__setattr__(self, "totals", False)

    @property
    def uncertified(self) -> str:
        """Why no pulls are certified; "" where every pull heard of is told as it is made."""
        if self.spread is not None:
            return "counts the pulls of others in parts"
        # A pull is told once later ones have made the totals grow: its reward has a say in that.
        return "lets rewards decide which pulls are told" if self.lazy else ""

    def carried(self, asked: Statistic) -> Statistic:
        """Return sums of sites where their spread is estimated."""
        return carried(self.spread, asked)

    @property
    def takes_context(self) -> bool:
        """Yes."""
        return True

    def make(self, view: LocalView, registers: Registers) -> FloodedTotalsMachine:
        """Return the machine of one agent."""
        require_growth(self.lazy, registers)
        versioned = self._versioned(registers)
        return FloodedTotalsMachine(view, versioned, self.window, self.lazy, self.spread)

    def _versioned(self, registers: Registers) -> Registers:
        """Return registers whose version only grows, whatever is forgotten."""
        if self.discount == 1.0:
            return registers
        return VersionedRegisters(registers.decaying(self.discount))

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size without news, and with news of everybody."""
        when = f"with news of {max_agents} agents in every round"
        size = self._versioned(registers).size
        return MessageSize(HEADER, HEADER + max_agents * (HEADER + size), when)
