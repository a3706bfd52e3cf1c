"""Extrema propagation: how many agents there are, from the smallest of many random numbers.

Every agent draws L exponential variates, and all keep the smallest value heard of each. The minimum
of N unit exponentials is exponential with rate N, so the L minima m of a network tell

    N̂ = (L − 1) / Σ m,      unbiased, with a relative standard deviation of 1/√(L − 2).

A minimum is the same however often and in whatever order things arrive, so loss is only delay.

**Generations.** A minimum that no agent drew, or whose agent has left, would be kept for ever. So
an agent collects again every `GENERATION` rounds, from its own variates alone. Generations are
numbered, and an agent that hears of a later one joins it at once: all take part in it soon after
the first. Until a generation is `SETTLED` rounds old N̂ is no smaller than the last one's. So a
false minimum ends with its generation, at most `GENERATION + SETTLED` rounds after the last lie.

Where minima travel beside other values, a message ends in the sum Σ m, and in the L minima too as
long as the neighbour has not told the same sum: one value where two neighbours agree. Minima of a
later generation than the first are followed by its number.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import MessageSize
from coopbandits.core.aggregate.fields import Aggregation, FieldMachine, Sizes
from coopbandits.core.aggregate.messages import check_vectors
from coopbandits.core.checks import require_count
from coopbandits.core.draws import uniforms, words
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.contract import LocalView, State, Vector
    from coopbandits.core.statistic import Registers

EXPONENTIALS = 32
"""L; the estimate is within 18 % of N in two of three networks."""

GENERATION = 10_000
"""Rounds after which minima are collected again."""

SETTLED = GENERATION // 4
"""Rounds after which a generation is taken to have reached all agents."""

IMPOSSIBLE = 1e-12
"""A minimum below this, divided by the number of agents, is a lie: none of a million million
networks has one in a given place."""


def require_word(view: LocalView) -> int:
    """Return an agent's random word, or say that it was not given one."""
    if not 0 < view.random_word < 2**64:
        raise InputError(
            f"random_word of agent {view.agent_id} is {view.random_word}; this policy needs 64 "
            "random bits of every agent's own, from 1 to 2^64 − 1"
        )
    return view.random_word


def exponentials(word: int) -> Vector:
    """Return L unit exponentials of a random word; its counter 0 is left for other uses."""
    counters = np.arange(1, EXPONENTIALS + 1, dtype=np.uint64)
    values: Vector = -np.log(uniforms(words(word, counters)))
    return values


def count_agents(total: float) -> float:
    """Return N̂ = (L − 1)/Σ m, at least 1."""
    return max(1.0, (EXPONENTIALS - 1) / total)


def check_minima(messages: Mapping[int, Vector], start: int, sums: int = 0) -> None:
    """Check that minima, the values from `start` on, are positive, and generations whole.

    `sums` is 1 where Σ m comes first.
    """
    number = start + sums + EXPONENTIALS
    for neighbor, message in messages.items():
        if message.size > start and message[start:].min() <= 0.0:
            raise InputError(f"message from {neighbor} has minima that are not positive")
        if message.size > number and not message[number] == message[number] // 1.0 < 2.0**53:
            raise InputError(
                f"message from {neighbor} has minima of generation {message[number]:g}; it is a "
                "whole number"
            )


COUNTING: dict[str, Any] = {
    "born": EXPONENTIALS, "minima": EXPONENTIALS, "generation": int, "collecting": int,
    "last_count": float, "most_agents": float, "total": float,
}  # fmt: skip
"""Fields of agents that count each other by minima, for the functions below; `total` is Σ m."""


def start_counting(s: Any, view: LocalView) -> None:
    s.born[:] = exponentials(require_word(view))
    s.minima[:] = s.born
    s.me.total, s.me.most_agents = rows.total(s.minima), view.max_agents


def counted(s: Any) -> float:
    """Return N̂, no more than there can be."""
    return float(min(s.me.most_agents, max(s.me.last_count, count_agents(s.me.total))))


def write_drawn(s: Any, out: Any, at: int) -> int:
    """Write [m | generation] from a place on, 0 left out; return where it ends."""
    rows.copy(out[at : at + EXPONENTIALS], s.minima)
    if s.me.generation == 0:
        return at + EXPONENTIALS
    out[at + EXPONENTIALS] = s.me.generation
    return at + EXPONENTIALS + 1


def hear_minima(s: Any, message: Any, at: int, end: int) -> None:
    """Take in [m | generation] from a place to the end; nothing where both were left out."""
    if at == end:
        return
    number = int(message[at + EXPONENTIALS]) if end > at + EXPONENTIALS else 0
    if number > s.me.generation:
        collect_again(s, number)
    if number == s.me.generation:
        rows.lower(s.minima, message[at : at + EXPONENTIALS])
        s.me.total = rows.total(s.minima)


def end_count(s: Any) -> None:
    s.me.collecting += 1
    if s.me.collecting == SETTLED:
        s.me.last_count = 0.0
    elif s.me.collecting >= GENERATION:
        collect_again(s, s.me.generation + 1)


def collect_again(s: Any, generation: int) -> None:
    """Begin another generation with the agent's own variates."""
    s.me.last_count = count_agents(s.me.total)
    rows.copy(s.minima, s.born)
    s.me.total = rows.total(s.minima)
    s.me.generation, s.me.collecting = generation, 0


def check_counting(values: State) -> None:
    for name in ("generation", "collecting"):
        require_count(f"state field {name}", values[name], least=0)


def check_count(told: Vector, claims: Claims, now: float) -> None:
    """Reject [m | generation] that no agent can have drawn, or that cannot be yet."""
    if told.size == 0:
        return
    least = IMPOSSIBLE / claims.max_agents
    claims.check_within("a minimum", float(told[:EXPONENTIALS].min()), least, math.inf)
    number = float(told[EXPONENTIALS]) if told.size > EXPONENTIALS else 0.0
    latest = claims.most_rounds(now) / GENERATION + 1.0
    claims.check_within("a generation", number, 0.0, latest)


class CountingAggregation(Aggregation):
    """One whose agents count each other: [registers | a value | Σ m | m | generation] is sent."""

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        size = agent.registers.size + 1
        check_vectors(messages, size + 1, size + 1 + EXPONENTIALS, size + 2 + EXPONENTIALS)
        check_minima(messages, size, sums=1)

    def check_state(self, agent: FieldMachine, values: State) -> None:
        check_counting(values)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"random_word"})

    def message_width(self, sizes: Sizes) -> int:
        return sizes.width + 1 + 1 + EXPONENTIALS + 1

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size without and with the minima by which agents are counted."""
        usual = registers.size + 2 + (self.decaying(registers).decay != 1.0)
        return MessageSize(usual, usual + EXPONENTIALS + 1, "while agents are being counted")
