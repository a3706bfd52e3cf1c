r"""Pull mixing: an agent moves towards the values that it heard, and stays where it heard nothing.

Per agent one vector x of registers. A pull adds to x; then, with whatever arrived,

    x_i ← x_i + Σ_{heard j} W_ij (x_j − x_i),      W_ij = 1 / (1 + max(d_i, d_j)),

d_i the number of neighbours that agent i heard of in the last `RECENT` rounds: Metropolis weights
of the links that are alive. A message is [x | d_i | Σ m | m], m the minima by which agents are
counted (`extrema`), left out where the neighbour told the same sum. A neighbour that was not alive
when the messages of a round were written is listened to from the next round on, so that both ends
of a link go by the same degrees.

Invariants: weights are positive and sum to less than 1, so x stays within what was heard, whatever
is lost. Where links fail in both directions at once W is symmetric and Σ_i x_i is kept exactly;
under one-way loss it is kept on average. Totals are N̂ x. With a discount γ, x ← γ x in every
round, and messages end in a stamp (`forgetting`).

*Differs from the paper* (Xiao, Boyd, Lall 2005, on averaging with Metropolis weights): degrees are
those of links alive, and averages become totals by an estimate of N.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import ON_AVERAGE, ROBUST
from coopbandits.core.aggregate.consensus import Averages
from coopbandits.core.aggregate.extrema import (
    COUNTING,
    CountingAggregation,
    check_count,
    counted,
    end_count,
    hear_minima,
    start_counting,
    write_drawn,
)
from coopbandits.core.aggregate.fields import AGENTS, FieldMachine, Sizes

if TYPE_CHECKING:
    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.contract import LocalView, Vector

RECENT = 10.0
"""A neighbour not heard for this many rounds is not counted as one."""


class PullMixingMachine(FieldMachine):
    """An agent that lets what a neighbour claims age before it is checked."""

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Reject averages beyond what one agent can have pulled, and minima that cannot be."""
        size, me = self.registers.size, self.state.me
        stamp, message = float(message[-1]), message[: message.size - self.stamps]
        if message.size >= size + 2:
            told, rest = message[:size], message[size:]
            if me.ticks:
                here = max(me.clock, claims.ticks(now))
                claims.check_near(stamp, here)
                told = told * self.registers.decay ** (here - stamp)
            elif self.stamps:
                claims.check_clock(stamp, now)
            claims.check_totals(self.registers, told, 1.0, now)
            claims.check_within("a degree", float(rest[0]), 0.0, float(claims.max_agents))
            check_count(rest[2:], claims, now)


@dataclass(frozen=True)
class PullMixing(Averages, CountingAggregation):
    """Network averages under any failures, and totals from an estimate of N.

    Parameters
    ----------
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.

    Notes
    -----
    Knows who its neighbours are, and a random word of its own. Sends all registers and 2 values to
    each neighbour in every round, a stamp where it forgets, and 33 more as long as the two differ
    about N̂.
    """

    discount: float = 1.0
    name: ClassVar[str] = "pull-mixing"
    mode: ClassVar[str] = ROBUST
    shares: ClassVar[str] = ON_AVERAGE
    takes_time: ClassVar[bool] = True
    converts: ClassVar[bool] = True
    machine: ClassVar[type[FieldMachine]] = PullMixingMachine
    derived: ClassVar[tuple[str, ...]] = ("weights", "degree", "born", "most_agents")

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        return {
            "mixed": sizes.width,  # x
            "ages": sizes.links,  # rounds since each neighbour was heard
            "weights": sizes.links,  # W_ij in this round
            "told": sizes.links,  # the Σ m that each neighbour told last
            "degree": float,
            **COUNTING,
        }

    def start(self, s: Any, view: LocalView) -> None:
        start_counting(s, view)

    @staticmethod
    def prepare(s: Any) -> None:
        degree = 0.0
        for link in range(s.ages.size):
            if s.ages[link] < RECENT:
                degree += 1.0
        s.me.degree = degree

    @staticmethod
    def message(s: Any, out: Vector) -> int:
        size = s.mixed.size
        rows.copy(out[:size], s.mixed)
        out[size], out[size + 1] = s.me.degree, s.me.total
        return write_drawn(s, out, size + 2)

    @staticmethod
    def cut(s: Any, link: int, length: int) -> int:
        """Leave out m where the neighbour told the same sum."""
        return s.mixed.size + 2 if s.told[link] == s.me.total else length

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        size, kept = s.mixed.size, 1.0
        for link in range(lengths.size):
            is_alive = s.ages[link] < RECENT
            s.ages[link] += 1.0
            s.weights[link] = 0.0
            if lengths[link] == 0:
                continue
            message = inbox[link]
            if is_alive:
                s.weights[link] = 1.0 / (1.0 + max(s.me.degree, message[size]))
                kept -= s.weights[link]
            s.ages[link] = 0.0
            s.told[link] = message[size + 1]
            hear_minima(s, message, size + 2, lengths[link])
        rows.scale(s.mixed, kept)
        for link in range(lengths.size):
            if s.weights[link] > 0.0:
                rows.add_scaled(s.mixed, s.weights[link], inbox[link, :size])
        end_count(s)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        about[AGENTS] = counted(s)
        rows.set_scaled(totals, about[AGENTS], s.mixed)
