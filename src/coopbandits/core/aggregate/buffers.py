r"""Buffers that pairs of agents average, as in DCB (Korda, Szörényi, Li 2016).

In every round a random permutation ρ is drawn, and agent i reads the buffer of ρ(i)::

    buffer_i ← ½ (buffer_i + buffer_ρ(i)), and the new pull at its end
    longer than ℓ(t) = ⌈4 log₂(N^{3/2} t)⌉: the oldest entry joins what is acted on

After ℓ(t) rounds every agent's copy of a pull weighs nearly 1/N, so what is acted on is multiplied
by N. A message is a whole buffer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.central import CentralAggregation, Controller
from coopbandits.core.choice import choose_arm
from coopbandits.core.draws import words
from coopbandits.core.statistic.linear import in_context

if TYPE_CHECKING:
    from coopbandits.core.contract import Context, Vector
    from coopbandits.core.index import Index
    from coopbandits.core.statistic import Registers


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

    def make(self, index: Index, registers: Registers, sigma: float) -> BufferController:
        """Return all agents together: partners are anywhere."""
        return BufferController(index, registers, sigma, delay=-1)


class BufferController(Controller):
    """A buffer and active statistics per agent."""

    def __init__(self, index: Index, registers: Registers, sigma: float, delay: int) -> None:
        super().__init__(index, registers, sigma, delay)
        self.buffers: dict[int, list[Vector]] = {}
        self.active: dict[int, Vector] = {}
        self.pulls: dict[int, Vector] = {}  # of this round
        self.agent, self.word = 0, 0

    def turn(self, agent: int) -> None:
        """Let an agent choose and observe next."""
        self.agent = agent
        if agent not in self.active:
            self.active[agent], self.buffers[agent] = self.registers.zeros(), []

    def choose(
        self, word: int, allowed: Sequence[int] | None = None, context: Context | None = None
    ) -> int:
        """Return the arm of the agent whose turn it is, on its active statistics."""
        if not self.pulls:
            self.word = word  # partners of the round are drawn from its first word
        known = len(self.active) * self.active[self.agent]
        time = max(2.0, float(self.registers.version(known)))
        estimate = self.registers.read(known, time=time, num_agents=float(len(self.active)))
        if context is not None:
            estimate = in_context(estimate, context)
        return choose_arm(self.index, self.numbers, estimate, word, allowed)

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Take in one reward of that agent."""
        pull = self.pulls.setdefault(self.agent, self.registers.zeros())
        self.registers.record(pull, arm, reward, context)

    def end_round(self) -> Sequence[Vector]:
        """Average buffers with partners, and let the oldest entries take effect."""
        self.rounds += 1
        agents = sorted(self.active)
        number = len(agents)
        order = np.argsort(words(self.word, np.arange(number, dtype=np.uint64))).tolist()
        told = {agents[i]: self.buffers[agents[order[i]]] for i in range(number)}
        longest = math.ceil(4.0 * math.log2(number**1.5 * self.rounds)) if number else 0
        mixed = {agent: _averaged(self.buffers[agent], told[agent]) for agent in agents}
        for agent in agents:
            buffer = [*mixed[agent], self.pulls.get(agent, self.registers.zeros())]
            while len(buffer) > longest:
                self.active[agent] = self.active[agent] + buffer.pop(0)
            self.buffers[agent] = buffer
        self.pulls = {}
        return [np.concatenate(told[agent]) for agent in agents if told[agent]]


def _averaged(own: list[Vector], other: list[Vector]) -> list[Vector]:
    """Return the averages of two buffers, entry by entry from the newest."""
    length = max(len(own), len(other))
    zero = 0.0 * (own or other)[0] if length else None
    pairs = zip(_filled(own, length, zero), _filled(other, length, zero), strict=True)
    return [0.5 * (one + two) for one, two in pairs]


def _filled(buffer: list[Vector], length: int, zero: Vector | None) -> list[Vector]:
    return [*([zero] * (length - len(buffer)) if zero is not None else []), *buffer]
