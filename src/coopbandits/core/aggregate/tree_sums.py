r"""Tree sums: exact totals over a spanning tree that the agents grow by themselves, and regrow.

**Sums.** An agent tells neighbour j the cumulative statistics of all on its own side of that link::

    payload to j = V − [j is a tree neighbour] R_j,     V = O + Σ_{tree neighbours j} R_j

O being the own totals (registers, a = 1 agent, B the rounds behind them) and R_j the last payload
from j. All of it is cumulative, hence idempotent: a lost or a late message is only a delay. On a
tree that stands, V is exact, every agent's share delayed by its distance, and a(V) = N; while the
tree changes, it may count too much or too little.

**Tree.** The agents grow it by themselves (`spanning_tree`), by four control values in a message. A
child that fell silent leaves V.

**Rounds behind totals.** B counts from the round of an agent's first pull to that of its last. An
agent that lost its memory begins anew, so B tells that the pulls of before are not in its totals.
Anticipated is what is missing of the rounds since the own first pull: after all have lost their
memory nothing is on its way.

**Number of agents.** N̂ = a(V) once it was the same for 20 rounds and is at least 0.45 of what
extrema propagation says (`extrema`); before that the larger of the two. Rounds without any message
do not count: while an agent hears nothing, a(V) cannot change. A number that a(V) had in 2500
steady rounds, and no other since, is believed whatever minima say. The 32 minima travel until a(V)
is steady, and for 100 rounds of every later generation. A message has 6 values beside the
registers, 32 or 33 more with the minima.

**Forgetting.** With a discount γ a message has one value more, a stamp: the sender's clock when it
wrote the payload (`forgetting`). O and R_j are multiplied by γ for every round that the clock moves
on, and what comes late by one more γ for every round it is late. So V is exactly the sum of all
pulls known, each times γ to its age. B decays too, a does not. With a window of w rounds
V(t) − V(t − w) is read; where a(V) changes or V falls the tree has been regrown, V(t − w) says
nothing about the pulls in V(t), and the window begins anew.

**Lazy.** With `lazy` the payload is left out of messages, and the four control values are all that
is sent, as long as it has not grown enough (`core.aggregate.lazy`), the number of agents on this
side is the same, and no 32 rounds have passed: so what was lost, or told to an agent that forgot
it, is told again.

*Differs from the paper*: none has it. The model of Martínez-Rubio, Kanade and Rebeschini (2019)
forbids global structures that are given, while this one is made by the agents.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import (
    OWN,
    ROBUST,
    Aggregation,
    ContextMachine,
    MessageSize,
)
from coopbandits.core.aggregate.arms import moved_rows
from coopbandits.core.aggregate.exchange import anticipation, check_vectors
from coopbandits.core.aggregate.extrema import EXPONENTIALS, check_count, check_minima
from coopbandits.core.aggregate.forgetting import (
    age_rows,
    check_forgetting,
    check_past,
    decayed_rounds,
    follow,
    has_fallen,
)
from coopbandits.core.aggregate.lazy import is_news, require_growth, require_lazy
from coopbandits.core.aggregate.pooling import Spread, carried, pooled, require_spread
from coopbandits.core.aggregate.spanning_tree import CHILD, CONTROL, NOBODY, SpanningTree
from coopbandits.core.aggregate.ticks import ClockedMachine
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Estimate, LocalView, Share, State, Vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers, Statistic

STEADY = 20
"""Rounds for which a(V) must be the same."""

FEWEST = 0.45
"""A steady count of agents that is a smaller share of what minima say may be that of a part."""

CERTAIN = 2500
"""Steady rounds of the same a(V) after which it is believed whatever minima say. They may be a
liar's, or those of agents that have left, and one network in 42 000 draws so small ones itself."""

SPREAD = 100
"""Rounds for which the minima of a new generation travel although a(V) is steady."""

REFRESH = 32
"""Rounds after which a lazy agent tells its totals in any case."""


@dataclass(frozen=True)
class TreeSums(Aggregation):
    """Exact network totals, each agent's part delayed by its distance on the tree.

    Parameters
    ----------
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.
    window : int or None
        How many rounds of totals are read; None for all.
    lazy : float
        β: totals are told again once the pulls of some arm have grown by this share, and by one, or
        after 32 rounds. 0 tells them in every round.
    spread : float, "estimate" or None
        τ, by which the means of sites differ: others' pulls then count in part (`pooling`). None
        pools everything; "estimate" finds τ out, with K + 3 values more in a message.

    Notes
    -----
    Knows who its neighbours are, a random word of its own, and whether rounds are common (otherwise
    nothing is anticipated). Sends all registers and 6 values to each neighbour in every round, one
    more with a discount, and 32 more until the number of agents is steady.
    """

    discount: float = 1.0
    window: int | None = None
    lazy: float = 0.0
    spread: Spread = None
    name: ClassVar[str] = "tree-sums"
    mode: ClassVar[str] = ROBUST
    shares: ClassVar[str] = OWN
    exact: ClassVar[bool] = True
    overtakes: ClassVar[bool] = True
    checks_claims: ClassVar[bool] = True
    takes_time: ClassVar[bool] = True

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
        """Why no pulls are certified: nothing in V tells whether a part of the tree is in twice."""
        return "counts some pulls more than once while its tree is rebuilt"

    def carried(self, asked: Statistic) -> Statistic:
        """Return sums of sites where their spread is estimated."""
        return carried(self.spread, asked)

    @property
    def needs(self) -> frozenset[str]:
        """A random word."""
        return frozenset({"random_word"})

    @property
    def takes_context(self) -> bool:
        """Yes."""
        return True

    def make(self, view: LocalView, registers: Registers) -> TreeSumsMachine:
        """Return the machine of one agent."""
        require_growth(self.lazy, registers)
        decaying = registers.decaying(self.discount)
        return TreeSumsMachine(view, decaying, self.window, self.lazy, self.spread)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size without and with the minima by which agents are counted."""
        del max_agents
        full = registers.size + 6 + (registers.decay * self.discount != 1.0)
        usual = CONTROL if self.lazy else full
        return MessageSize(usual, full + EXPONENTIALS + 1, "while agents are being counted")


class TreeSumsMachine(SpanningTree, ClockedMachine, ContextMachine):
    """Own totals, what neighbours told, and the agent's place on the tree."""

    fields: tuple[str, ...] = (
        "rounds", "own", "payloads", "agents_seen", "steady", "standing", "stood", "first",
        *SpanningTree.placing, *SpanningTree.counting,
    )  # fmt: skip
    links: tuple[str, ...] = ("payloads", *SpanningTree.placing_links)
    registered = MappingProxyType({"own": (0, 2), "payloads": (0, 2), "past": (0, 2)})
    counted = MappingProxyType({"told": 1})

    def __init__(
        self,
        view: LocalView,
        registers: Registers,
        window: int | None = None,
        lazy: float = 0.0,
        spread: Spread = None,
    ) -> None:
        self.registers, self.common_round, self.window = registers, view.common_round, window
        self.spread, self.sigma = spread, view.sigma
        self.stamps = int(registers.decay != 1.0)  # whether messages tell when they were written
        self._start_tree(view)
        self.rounds = 0
        self.own = np.append(registers.zeros(), [1.0, 0.0])  # O, ending in a and B
        self.payloads = np.zeros((len(self.places), self.own.size))  # R_j
        self._start_counting(view)
        self.agents_seen, self.steady = 1.0, 0  # a(V), and the rounds it has been so
        self.standing, self.stood = 1.0, 0  # the last steady a(V), and its steady rounds
        self.first = 0  # rounds before the first own pull
        self._start_clock(view, decays=bool(self.stamps))
        if window is not None:
            self.past = self.own[None].copy()  # V of the last rounds, oldest first
            self.keep_also("past", is_table=True)
        self.lazy = lazy
        if lazy:
            # Pulls per arm, and agents, in the payload that each neighbour was told last; and when.
            counted = registers.share(registers.zeros()).counts.size
            self.told = np.zeros((len(self.places), counted + 1))
            self.since = np.full(len(self.places), float(REFRESH))
            self.keep_also("told", is_link=True)
            self.keep_also("since", is_link=True)

    def estimate(self) -> Estimate:
        """Return V, with as many pulls anticipated as are on their way."""
        totals = self._totals()
        num_agents = self._num_agents(float(totals[-2]))
        rounds = self._rounds_since_first()
        if self.window is not None:
            totals, rounds = totals - self.past[0], len(self.past) - 1
        ahead = anticipation(num_agents, rounds, totals[-1]) if self.common_round else 1.0
        time = max(2.0, float(self.registers.version(totals[:-2])))
        found = self.registers.read(
            totals[:-2], time=time, num_agents=num_agents, anticipation=ahead
        )
        if self.spread is None:
            return found
        return pooled(found, self.share(), self.spread, self.sigma)

    def _rounds_since_first(self) -> float:
        """Return the rounds since the own first pull, as they count."""
        if not self.stamps:
            return self.rounds - self.first
        decay = self.registers.decay
        return float(decay * decayed_rounds(decay, max(0, self.clock - self.first)))

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Add one own pull; the rounds behind the own totals are those from the first to it."""
        self.registers.record(self.own[:-2], arm, reward, context)
        ended = self.clock if self.stamps else self.rounds
        if self.own[-1] == 0.0 or ended < self.first:  # the latter where a clock was set back
            self.first = ended
        self.own[-1] = decayed_rounds(self.registers.decay, ended + 1 - self.first)

    def outgoing(self, neighbor: int) -> Vector:
        """Return [payload | root, beat, dist, bond | stamp where pulls decay | m]."""
        control = self._place(neighbor) + [float(self.clock)] * self.stamps
        payload = self._totals(besides=neighbor)
        if self.lazy and not self._tells(self.places[neighbor], payload):
            return np.array(control)
        minima = self._minima() if self._spreads() else self.minima[:0]
        return np.concatenate([payload, control, minima])

    def _spreads(self) -> bool:
        """Return whether minima travel."""
        return self.steady < STEADY or (self.generation > 0 and self.collecting < SPREAD)

    def _tells(self, at: int, payload: Vector) -> bool:
        """Return whether a lazy agent tells a neighbour the payload."""
        told = self.told[at]
        if self._spreads() or self.since[at] >= REFRESH or payload[-2] != told[-1]:
            return True
        return is_news(self.registers.share(payload[:-2]).counts, told[:-1], self.lazy)

    def _note_told(self) -> None:
        """Remember what this round's messages tell."""
        for j, at in self.places.items():
            payload = self._totals(besides=j)
            tells = self._tells(at, payload)
            self.since[at] = 1.0 if tells else self.since[at] + 1.0
            if tells:
                self.told[at] = [*self.registers.share(payload[:-2]).counts, payload[-2]]

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Listen, then look after the tree."""
        size = self.own.size + CONTROL + self.stamps
        short = (CONTROL,) if self.lazy else ()
        check_vectors(messages, size, size + EXPONENTIALS, size + EXPONENTIALS + 1, *short)
        check_minima(messages, size)
        if self.lazy:
            self._note_told()
        self.rounds += 1
        if self.stamps:
            self._grow_older([float(message[size - 1]) for message in messages.values()])
        self._listen(messages)
        self._tend(pulled=self.own[-1] > 0.0, heard=bool(messages))
        totals = self._totals()
        agents = float(totals[-2])
        if self.window is not None:
            regrown = agents != self.agents_seen
            if regrown or has_fallen(self.registers, self.past[-1, :-2], totals[:-2]):
                self.past = self.past[:0]
            self.past = follow(self.past, totals, self.window)
        self.steady = self.steady + bool(messages) if agents == self.agents_seen else 0
        self.agents_seen = agents
        if self.steady >= STEADY:
            self.stood = self.stood + 1 if agents == self.standing else 0
            self.standing = agents
        self._end_count()

    def _grow_older(self, stamps: list[float]) -> None:
        """Move the clock on, and let all that is at hand age."""
        now = self._next_clock(stamps)
        for rows in (self.own, self.payloads):
            age_rows(self.registers, rows, max(0, now - self.clock))
        self.clock = now

    def _listen(self, messages: Mapping[int, Vector]) -> None:
        controls = {}
        for j, message in messages.items():
            at = self.places[j]
            size = 0 if message.size == CONTROL else self.own.size
            if size:
                self.payloads[at] = message[:size]
            controls[j] = message[size : size + CONTROL]
            if self.stamps:
                age_rows(
                    self.registers, self.payloads[at], max(0, self.clock - int(message[size + 4]))
                )
            self._hear_minima(message[size + 4 + self.stamps :])
        self._hear_places(controls)

    def _totals(self, besides: int = NOBODY) -> Vector:
        """Return V, or what is on this side of the link to one neighbour."""
        others = np.zeros(self.own.size)
        for j, alive, bond in zip(self.places, self._alive(), self._bonds(), strict=True):
            if alive and (bond == CHILD or j == self.parent) and j != besides:
                others += self.payloads[self.places[j]]
        return self.own + others

    def _num_agents(self, agents: float) -> float:
        """Return how many agents there are, V having `agents`, and no more than there can be."""
        if not self._is_believed(agents):
            agents = max(agents, self._counted())
        return min(self.most_agents, agents)

    def _is_believed(self, agents: float) -> bool:
        """Return whether a(V) is the number of agents."""
        if self.stood >= CERTAIN and agents == self.standing:
            return True
        return self.steady >= STEADY and agents >= FEWEST * self._counted()

    def share(self) -> Share:
        """Return the own totals."""
        return self.registers.share(self.own[:-2])

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse totals beyond what so many agents can have pulled, and a tree that cannot be."""
        size, most = self.registers.size, claims.most_rounds(now)
        if self.lazy and message.size == CONTROL:
            place = message
        elif message.size < self.own.size + CONTROL:
            return
        else:
            agents, behind = message[size : size + 2].tolist()
            place = message[size + 2 : size + 6]
            claims.check_num_agents(agents)
            claims.check_totals(self.registers, message[:size], agents, now)
            claims.check_within("rounds behind totals", behind, 0.0, agents * most)
        self._check_place(place, claims, now)
        if self.stamps and message.size > size + 6:
            claims.check_clock(float(message[size + 6]), now)
        check_count(message[size + 6 + self.stamps :], claims, now)

    def translated(self, message: Vector, theirs: Registers, places: Sequence[int]) -> Vector:
        """Return a message about other arms as one about these."""
        if message.size < theirs.size + CONTROL:
            return message  # a lazy one without totals
        behind = message.size - theirs.size
        return moved_rows(message, self.registers, theirs, places, (0, behind))

    def restore_state(self, state: State) -> None:
        """Continue from an exported state, also of a version that remembered less."""
        super().restore_state({"first": 0, "reign": 0, "standing": 1.0, "stood": 0} | state)

    def check_state(self, values: State) -> None:
        """Refuse a past that no window keeps, and counts below 0."""
        super().check_state(values)
        check_past(values, self.window)
        for name in ("steady", "stood", "first"):
            require_count(f"state field {name}", values[name], least=0)
