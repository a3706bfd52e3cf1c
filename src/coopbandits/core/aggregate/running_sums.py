r"""Running-sum ratio consensus: mass is handed on in cumulative sums, so that none is ever lost.

Every agent holds mass: a vector y of registers and a weight z, 1 at the start. A pull adds to y.
Per round and link i → j, in all components of (y, z) alike, with d the number of neighbours j heard
within the last 2 g_j rounds, g_j being the mean gap between messages from j, so two rounds where
nothing is lost::

    o = (y, z) / (1 + d)                        the share of each, and what is kept
    S_ij ← S_ij + o                             only for those d neighbours
    (y, z) ← o + Σ_{heard j} (S_ji − R_ij),     R_ij ← S_ji

S_ij is all that was ever handed to j and R_ij all that ever arrived from j. A message is
[S_ij | Σ m | m], m the minima by which agents are counted (`extrema`). What is lost in one round
arrives with the next packet; nothing is acknowledged.

Invariant: Σ_i (y, z)_i + Σ_{i→j} (S_ij − R_ji) is what was put in, whatever is lost, late or out of
order. Σ z = N, so y/z tends to averages per agent; totals are N̂ y/z. S only grows in its weight,
by which an old packet is known. Without the gate (only neighbours heard) mass would drain into
links that are down for long; a gate of two rounds under any loss would slow down mixing where much
is lost. The mean gap moves by 0.2 of the difference with every message.

*Differs from the paper* (Hadjicostis, Vaidya, Domínguez-García 2016): S is per link and gated. A
link that works one way for ever still drains: who is heard is not known to hear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.extrema import (
    COUNTING,
    CountingAggregation,
    counted,
    end_count,
    hear_minima,
    start_counting,
    write_drawn,
)
from coopbandits.core.aggregate.fields import AGENTS, Sizes, whole

if TYPE_CHECKING:
    from coopbandits.core.contract import LocalView, Vector

PATIENCE = 2.0
"""A neighbour not heard for this many of its mean gaps is handed nothing."""

LEAST_WEIGHT = 1e-9
"""A weight z up to this is lost in the rounding of sums that have grown for long."""


@dataclass(frozen=True)
class RunningSums(CountingAggregation):
    """Network averages with all mass accounted for, and totals from an estimate of N.

    Notes
    -----
    Knows who its neighbours are, and a random word of its own. Sends all registers and 2 values to
    each neighbour in every round, and 33 more as long as the two differ about N̂. With hardly any
    weight an agent knows nothing: sums and counts are 0 then. Sums of what was handed on grow with
    the square of time, and so does their rounding: after 10 000 rounds about 1e-8 pulls.
    """

    name: ClassVar[str] = "running-sums"
    clips: ClassVar[bool] = True
    derived: ClassVar[tuple[str, ...]] = ("share", "alive", "born", "most_agents")

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        links, size = sizes.links, sizes.width + 1
        return {
            "held": size,  # y, z
            "share": size,
            "offered": size,  # Σ o, which S_ij is but for what was withheld from j
            "withheld": (links, size),
            "gated": whole(links),  # whether anything ever was
            "heard": (links, size),  # R_ij
            "ages": links,  # rounds since each neighbour was heard
            "gaps": links,  # mean rounds between its messages
            "told": links,  # the Σ m that each neighbour told last
            "alive": whole(links),
            **COUNTING,
        }

    def start(self, s: Any, view: LocalView) -> None:
        s.held[-1], s.gaps[:] = 1.0, 1.0
        start_counting(s, view)

    @staticmethod
    def age(s: Any, factors: Vector, factor: float) -> None:
        """Multiply all registers: weights stay."""
        size = s.held.size - 1
        rows.multiply(s.held[:size], factors)
        rows.multiply(s.share[:size], factors)
        for link in range(s.ages.size):
            rows.multiply(s.withheld[link, :size], factors)
            rows.multiply(s.heard[link, :size], factors)
        rows.multiply(s.offered[:size], factors)

    @staticmethod
    def age_message(s: Any, message: Vector, factors: Vector, factor: float) -> None:
        rows.multiply(message[: s.held.size - 1], factors)

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        rows.add(s.held[: pull.size], pull)

    @staticmethod
    def prepare(s: Any) -> None:
        parts = 1.0
        for link in range(s.ages.size):
            s.alive[link] = 1 if s.ages[link] < PATIENCE * s.gaps[link] else 0
            parts += s.alive[link]
        for w in range(s.held.size):
            s.share[w] = s.held[w] / parts

    @staticmethod
    def message(s: Any, link: int, out: Vector) -> int:
        """Write all that was ever handed to a neighbour, this round's share included."""
        size = s.held.size
        if s.alive[link] == 1:
            rows.add_up(out[:size], s.offered, s.share)
        else:
            rows.copy(out[:size], s.offered)
        if s.gated[link] == 1:
            rows.subtract(out[:size], s.withheld[link])
        out[size] = s.me.total
        # m is left out for a neighbour that told the same sum.
        return size + 1 if s.told[link] == s.me.total else write_drawn(s, out, size + 1)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        size = s.held.size
        rows.copy(s.held, s.share)
        rows.add(s.offered, s.share)
        for link in range(lengths.size):
            if s.alive[link] == 0:
                rows.add(s.withheld[link], s.share)
                s.gated[link] = 1
            s.ages[link] += 1.0
            if lengths[link] == 0:
                continue
            message, heard = inbox[link], s.heard[link]
            if message[size - 1] >= heard[size - 1]:  # else it is older than what was heard
                for w in range(size):
                    s.held[w] += message[w] - heard[w]
                    heard[w] = message[w]
            s.gaps[link] += 0.2 * (s.ages[link] - s.gaps[link])
            s.ages[link] = 0.0
            s.told[link] = message[size]
            hear_minima(s, message, size + 1, lengths[link])
        end_count(s)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        weight, about[AGENTS] = s.held[s.held.size - 1], counted(s)
        factor = about[AGENTS] / weight if weight > LEAST_WEIGHT else 0.0
        rows.set_scaled(totals, factor, s.held[: totals.size])
