"""GSE, gossip successive elimination: arms are ruled out by means that all agents track together.

By Liu, Qiu, Yang and Xu, 2025.

Agents may earn differently from an arm; the one with the largest mean over all of them is sought.
With x the own means, z ← z + Σ_j (z_j − z)/N + x(new) − x(old) in every round, over the neighbours
that were heard: since each change is the other's loss, Σ z = Σ x over all agents always, provided
that links work both ways. A message is [z | which arms are out], the latter as bits of as few
values as hold them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import told_agents
from coopbandits.core.aggregate.fields import Aggregation, FieldMachine, Sizes, whole
from coopbandits.core.aggregate.messages import (
    BITS,
    check_counts,
    check_vectors,
    flag_values,
    has_flag,
    write_flags,
)
from coopbandits.core.checks import require_count, require_number, require_positive
from coopbandits.core.contract import Estimate, LocalView, State, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.index import Index
from coopbandits.core.policy import Parts, Policy
from coopbandits.core.statistic.arm_sums import counts_of, sums_of

OUT = 1e15
"""Added to the count of an arm that is out."""


@dataclass(frozen=True)
class GSE(Policy):
    r"""GSE (Liu, Qiu, Yang, Xu 2025), for sites that differ and links that come and go.

    Plays the arm that it pulled least of those left. Arm k is out for good once :math:`z_k + c_k <
    \max_l (z_l - c_l)`, or when a neighbour says so, with :math:`c_k = \sqrt{4σ^2 \ln T/m_k} + (τ +
    \sqrt N)/m_k`, :math:`m_k = N \max(n_k - K \ln T/p, 1)` and :math:`n_k` the own pulls.

    Parameters
    ----------
    horizon : int
        T.
    up : float
        p, the probability that a link works in a round.
    spread : float or None
        τ in units of :math:`\ln T/p`; None for N, as the authors have it on grids. On a complete
        graph they take 1.

    Notes
    -----
    Knows N, T and p. Sends K values, and one more per 52 arms, to each neighbour in every round.

    *Differs from the paper*, whose pseudocode we know from the authors' program: the bonus is for
    rewards in [0, 1] there (σ = 1/2), and is scaled by σ here; if every arm is said to be out, the
    one with the largest z is kept.
    """

    horizon: int
    up: float = 1.0
    spread: float | None = None
    name: ClassVar[str] = "gse"

    def __post_init__(self) -> None:
        require_count("horizon", self.horizon, least=2)
        require_number("up", self.up, "a number above 0, and at most 1", 0.0, math.nextafter(1, 2))
        if self.spread is not None:
            require_positive("spread", self.spread)

    @property
    def parts(self) -> Parts:
        return Parts(RuledOut(self.horizon, self.up, self.spread), LeastPulled())


@dataclass(frozen=True)
class RuledOut(Aggregation):
    """Own pulls, the means tracked together, and which arms are out."""

    horizon: int
    up: float = 1.0
    spread: float | None = None
    name: ClassVar[str] = "ruled-out"
    counts_pulls: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset({"num_agents"})
    derived: ClassVar[tuple[str, ...]] = ("num_agents", "level", "burn_in", "bias")

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        return {
            "sums": sizes.arms,
            "counts": sizes.arms,
            "means": sizes.arms,
            "tracked": sizes.arms,  # z
            "out": whole(sizes.arms),
            "num_agents": float,
            "level": float,
            "burn_in": float,
            "bias": float,
        }

    def message_width(self, sizes: Sizes) -> int:
        return sizes.arms + flag_values(sizes.arms)

    def start(self, s: Any, view: LocalView) -> None:
        num_agents, log = told_agents(view, "gse"), math.log(self.horizon)
        spread = float(num_agents if self.spread is None else self.spread)
        s.me.num_agents = float(num_agents)
        s.me.level = 4.0 * view.sigma**2 * log
        s.me.burn_in = view.num_arms * log / self.up
        s.me.bias = spread * log / self.up + math.sqrt(num_agents)

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        num_arms = agent.registers.num_arms
        check_vectors(messages, num_arms + flag_values(num_arms))
        for j, message in messages.items():
            flags = message[agent.state.tracked.size :]
            if not ((flags >= 0.0) & (flags < 2.0**BITS) & (flags == np.floor(flags))).all():
                raise InputError(
                    f"message from {j} has flags {flags.tolist()}; they are whole numbers below "
                    f"2^{BITS}"
                )

    def check_state(self, agent: FieldMachine, values: State) -> None:
        check_counts("counts", values["counts"])
        if values["out"].all():
            raise InputError("state field out leaves no arm; one is always left")

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        rows.add(s.sums, sums_of(pull))
        rows.add(s.counts, counts_of(pull))

    @staticmethod
    def message(s: Any, out: Vector) -> int:
        """Write [z | flags]."""
        size = s.tracked.size
        rows.copy(out[:size], s.tracked)
        return int(size + write_flags(s.out, out[size:]))

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Average with who was heard, add what the own means changed by, and rule arms out."""
        size = s.tracked.size
        for k in range(size):
            pulled, mean = 0.0, s.sums[k] / max(1.0, s.counts[k])
            for link in range(lengths.size):
                if lengths[link] > 0:
                    pulled += inbox[link, k] - s.tracked[k]
                    if has_flag(inbox[link, size:], k):
                        s.out[k] = 1
            s.tracked[k] = s.tracked[k] + pulled / s.me.num_agents + mean - s.means[k]
            s.means[k] = mean
        rule_out(s)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write own sums and counts; arms that are out have huge counts."""
        counts = counts_of(totals)
        rows.copy(sums_of(totals), s.sums)
        for k in range(counts.size):
            counts[k] = s.counts[k] + OUT * s.out[k]


def rule_out(s: Any) -> None:
    """Rule out arms that lie below another by more than both are uncertain."""
    num_arms, highest, left, last = s.tracked.size, -math.inf, 0, 0
    for k in range(num_arms):
        highest = max(highest, s.tracked[k] - width_of(s, k))
        if s.tracked[k] > s.tracked[last]:
            last = k
    for k in range(num_arms):
        if s.tracked[k] + width_of(s, k) < highest:
            s.out[k] = 1
        left += s.out[k] == 0
    if left == 0:
        s.out[last] = 0


def width_of(s: Any, arm: int) -> float:
    """Return how uncertain z is."""
    known = s.me.num_agents * max(s.counts[arm] - s.me.burn_in, 1.0)
    return float(math.sqrt(s.me.level / known) + s.me.bias / known)


@dataclass(frozen=True)
class LeastPulled(Index):
    """The arm pulled least of those left; among equals the lowest."""

    name: ClassVar[str] = "least-pulled"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        """Return the count, less than nothing."""
        return -float(estimate.counts[arm])
