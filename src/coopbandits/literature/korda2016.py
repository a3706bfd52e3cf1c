r"""DCB: buffers that pairs of agents average.

Korda, Szörényi and Li, "Distributed clustering of linear bandits in peer to peer networks", ICML
2016.

In every round a random permutation ρ is drawn, and agent i reads the buffer of ρ(i)::

    buffer_i ← ½ (buffer_i + buffer_ρ(i)), and the new pull at its end
    longer than ℓ(t) = ⌈4 log₂(N^{3/2} t)⌉: the oldest entry joins what is acted on

After ℓ(t) rounds every agent's copy of a pull weighs nearly 1/N, so what is acted on is multiplied
by N. A message is a whole buffer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.central import (
    TURN,
    CentralAggregation,
    ServingController,
    ServingMemory,
)
from coopbandits.core.aggregate.fields import AGENTS, Sizes, whole
from coopbandits.core.draws import uniform_of, word_at

if TYPE_CHECKING:
    from coopbandits.core.contract import LocalView, Vector
    from coopbandits.core.index import Index
    from coopbandits.core.statistic import Registers

MOST_ROUNDS = 2**32
"""Rounds for which there is room in buffers; later they grow no longer."""


@dataclass(frozen=True)
class PermutedBuffers(CentralAggregation):
    """Delayed averages over random partners, anywhere in the network.

    Notes
    -----
    With `lin-ucb` this is DCB. *Differs from the paper* in its slips: (a) its section 2 also adds
    the partner's active statistics to the own ones, which would double every round; its algorithm 3
    does not. (b) Averaging keeps the weights of a pull at a sum of 1, where the text has N; so the
    active statistics are multiplied by N. (c) The buffer's length is printed as 4 log and as
    4 log₂; it is the latter.
    """

    name: ClassVar[str] = "permuted-buffers"

    def memory(self, index: Index) -> BufferMemory:
        return BufferMemory()

    def make(self, index: Index, registers: Registers, sigma: float) -> ServingController:
        return ServingController(BufferMemory(), index, registers, sigma)


@dataclass(frozen=True)
class BufferMemory(ServingMemory):
    """A buffer, its entries one after another from the oldest, and active statistics per agent."""

    name: ClassVar[str] = "buffer-memory"

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        agents, width = sizes.agents, sizes.width
        room = width * (longest(max(1, agents), MOST_ROUNDS) + 1)
        return {
            "active": (agents, width),
            "pulls": (agents, width),  # of this round
            "buffers": (2, agents, room),  # of this round and the next: `side` and 1 − `side`
            "filled": whole(2, agents),  # values in each
            "is_here": whole(agents),  # 1 once it has pulled
            "here": whole(agents),  # the agents that are, in ascending order
            "order": whole(agents),  # and their partners
            "drawn": agents,
            "sorted": agents,
            "side": int,
            "present": int,
            "rounds": int,
            **TURN,
        }

    def start(self, s: Any, view: LocalView) -> None:
        """Begin with nothing."""

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        if s.is_here[s.me.agent] == 0:
            s.is_here[s.me.agent] = 1
            s.me.present += 1
        rows.add(s.pulls[s.me.agent], pull)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Average buffers with partners, and let the oldest entries take effect."""
        s.me.rounds += 1
        if s.me.present == 0:
            return
        draw_partners(s)
        most = longest(s.me.present, min(s.me.rounds, MOST_ROUNDS))
        for i in range(s.me.present):
            agent, partner = s.here[i], s.order[i]
            lengths[agent] = s.filled[s.me.side, partner]
            average(s, agent, partner, most)
            rows.fill(s.pulls[agent], 0.0)
        s.me.side = 1 - s.me.side

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write what the agent acts on, as often as there are agents."""
        about[AGENTS] = float(s.me.present + (1 if s.is_here[s.me.agent] == 0 else 0))
        rows.set_scaled(totals, about[AGENTS], s.active[s.me.agent])


def longest(agents: int, rounds: int) -> int:
    return math.ceil(4.0 * math.log2(agents**1.5 * rounds))


def draw_partners(s: Any) -> None:
    """Put those that are here in a random order, in which the i-th is the partner of the i-th."""
    number = s.me.present
    at = 0
    for agent in range(s.is_here.size):
        if s.is_here[agent] == 1:
            s.here[at] = agent
            s.drawn[at] = s.sorted[at] = uniform_of(word_at(s.me.word, at))
            at += 1
    rows.sort(s.sorted[:number])
    for i in range(number):
        low, high = 0, number - 1
        while low < high:
            middle = (low + high) // 2
            if s.sorted[middle] < s.drawn[i]:
                low = middle + 1
            else:
                high = middle
        s.order[low] = s.here[i]


def average(s: Any, agent: int, partner: int, most: int) -> None:
    """Average two buffers from their newest entries on, and add the agent's pull at the end."""
    side, width = s.me.side, s.active.shape[1]
    own = s.buffers[side, agent, : s.filled[side, agent]]
    other = s.buffers[side, partner, : s.filled[side, partner]]
    mixed, length = s.buffers[1 - side, agent], max(own.size, other.size)
    rows.fill(mixed[:length], 0.0)
    rows.add(mixed[length - own.size : length], own)
    rows.add(mixed[length - other.size : length], other)
    rows.scale(mixed[:length], 0.5)
    rows.copy(mixed[length : length + width], s.pulls[agent])
    length += width
    surplus = max(0, length - most * width)
    for at in range(0, surplus, width):
        rows.add(s.active[agent], mixed[at : at + width])
    rows.copy(mixed[: length - surplus], mixed[surplus:length])
    s.filled[1 - side, agent] = length - surplus
