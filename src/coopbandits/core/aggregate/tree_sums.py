r"""Tree sums: exact totals over a spanning tree that the agents grow by themselves, and regrow.

**Sums.** An agent tells neighbour j the cumulative statistics of all on its own side of that link::

    payload to j = V − [j is a tree neighbour] R_j,     V = O + Σ_{tree neighbours j} R_j

O being the own totals (registers, a = 1 agent, B the rounds behind them) and R_j the last payload
from j. All of it is cumulative, hence idempotent: a lost or a late message is only a delay. On a
tree that stands, V is exact, every agent's share delayed by its distance, and a(V) = N; while the
tree changes, it may count too much or too little.

**Tree.** The agent with the smallest random tag is the root. A message ends in the control values
(root, beat, dist, bond), the bond being 2 if the receiver is the sender's parent, else 1 if the
sender hears the receiver, else 0; the root's beat is its round. In every round, after listening:

1. Follow the parent: take its root and beat where they are better, dist = dist_p + 1. A parent that
   is dead or deaf, or whose root has grown, is dropped: dist = ∞, while root and beat stay.
2. If root and beat stood still for more than 40 + 8·(mean gap between beats) rounds, the root is
   lost: become a root oneself, under the own tag shifted below the lost root's, dist = 0.
3. Adopt as parent a neighbour that is alive, not deaf, no child, and not at ∞, if its root is
   smaller (the least root, then the least dist), or the same, dist_j + 1 < dist and beat_j > beat.

A neighbour is dead when silent for more than 8·(mean gap between its messages) + 10 rounds; a dead
child leaves V. Means of gaps move by 0.2 of the difference with every message, up to 100 rounds: so
nobody, by speaking more and more rarely, can make others wait for long. A neighbour is deaf
if it says that it does not hear, as on a link that works one way; where all are, none counts as
deaf, since to listen is better than nothing.

**Loop-free**, whatever is lost, late, or out of order. Order the pairs (root, −beat), smaller being
better. An agent's pair never gets worse: it keeps it when it drops a parent, and shifts its tag
below a lost root's. It takes over what its parent told, so a parent's present pair is never worse
than its child's, and pairs never improve going down the tree. A switch to j needs a strictly better
pair of j's, so j cannot be below the one that switches. (Only an agent that forgets its pair, by a
crash that loses its memory, can break this, and no longer than a beat may stand still: beats in a
loop do.) A root's tag is compared with nothing but roots, so a lost root never comes back: whoever
missed it has moved below it.

**Number of agents.** N̂ = a(V) once it was the same for 20 rounds and is at least 0.45 of what
extrema propagation says (`extrema`); before that the larger of the two. The 32 minima travel until
a(V) is steady, and for 100 rounds of every later generation. A message has 6 values beside the
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

**Lies** about the tree end with the liar. Whatever root and beat it told, once it is silent the
beat stands still, and everybody gives that root up after at most 40 + 8·100 rounds; new roots are
below it. The fractions of roots tell agents apart as long as roots stay exact, so they may not have
been undercut more often than is possible (`check_claims`).

*Differs from the paper*: none has it. Spanning trees that stabilise themselves are well known
(Dolev, Israeli, Moran 1993); the model of Martínez-Rubio, Kanade and Rebeschini (2019) forbids
global structures that are given, while this one is made by the agents.
"""

from __future__ import annotations

import math
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
from coopbandits.core.aggregate.extrema import (
    EXPONENTIALS,
    CountingMachine,
    check_minima,
    require_word,
)
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
from coopbandits.core.aggregate.ticks import ClockedMachine
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Estimate, LocalView, Share, State, Vector
from coopbandits.core.draws import words
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers, Statistic

FAR = 2.0**31
"""dist of an agent that is cut off from its root: infinite."""

NOBODY = -1
"""The parent of an agent that has none."""

STEADY = 20
"""Rounds for which a(V) must be the same."""

SPREAD = 100
"""Rounds for which the minima of a new generation travel although a(V) is steady."""

UNDERCUT = 40
"""Fewest rounds for which a beat stands still before its root is given up."""

PATIENCE = 100.0
"""The largest mean gap that is gone by: no silence is borne for longer than 8 times as much."""

REFRESH = 32
"""Rounds after which a lazy agent tells its totals in any case."""

CONTROL = 4
"""Control values of a message; without totals and minima, a lazy agent sends no others."""

BOND = 3
"""Place of the bond among the control values."""

DEAF, HEARS, CHILD = 0.0, 1.0, 2.0
"""Bonds: the sender does not hear the receiver; it does; and the receiver is its parent."""


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

    @property
    def whole_pulls(self) -> bool:
        """Whether everything is pooled."""
        return self.spread is None

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


class TreeSumsMachine(CountingMachine, ClockedMachine, ContextMachine):
    """Own totals, what neighbours told, and the agent's place on the tree."""

    fields: tuple[str, ...] = (
        "rounds", "own", "payloads", "controls", "ages", "gaps", "agents_seen", "steady", "tag",
        "parent", "root", "beat", "dist", "still", "beat_gap", *CountingMachine.counting,
    )  # fmt: skip
    links: tuple[str, ...] = ("payloads", "controls", "ages", "gaps")
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
        word = require_word(view)
        self.registers, self.common_round, self.window = registers, view.common_round, window
        self.spread, self.sigma = spread, view.sigma
        self.stamps = int(registers.decay != 1.0)  # whether messages tell when they were written
        self.places = {int(j): at for at, j in enumerate(sorted(view.neighbor_weights))}
        self.rounds = 0
        self.own = np.append(registers.zeros(), [1.0, 0.0])  # O, ending in a and B
        self.payloads = np.zeros((len(self.places), self.own.size))  # R_j
        self.controls = np.tile([1.0, 0.0, FAR, DEAF], (len(self.places), 1))  # above all tags
        self.ages = np.zeros(len(self.places))  # rounds since each neighbour was heard
        self.gaps = np.ones(len(self.places))  # mean rounds between its messages
        self._start_counting(view)
        self.agents_seen, self.steady = 1.0, 0  # a(V), and the rounds it has been so
        self.tag = tag_of(word)
        self.parent, self.root, self.beat, self.dist = NOBODY, self.tag, 0.0, 0.0
        self.still, self.beat_gap = 0, 1.0  # rounds since the pair improved; their mean
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
        rounds: float = self.rounds
        if self.stamps:
            rounds = self.registers.decay * decayed_rounds(self.registers.decay, self.clock)
        elif self.window is not None:
            totals, rounds = totals - self.past[0], len(self.past) - 1
        ahead = anticipation(num_agents, rounds, totals[-1]) if self.common_round else 1.0
        time = max(2.0, float(self.registers.version(totals[:-2])))
        found = self.registers.read(
            totals[:-2], time=time, num_agents=num_agents, anticipation=ahead
        )
        if self.spread is None:
            return found
        return pooled(found, self.share(), self.spread, self.sigma)

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Add one own pull; its round ends those behind the own totals."""
        self.registers.record(self.own[:-2], arm, reward, context)
        ended = self.clock if self.stamps else self.rounds
        self.own[-1] = decayed_rounds(self.registers.decay, ended + 1)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return [payload | root, beat, dist, bond | stamp where pulls decay | m]."""
        beat = self.rounds + 1.0 if self.dist == 0 else self.beat
        bond = HEARS if self._alive()[self.places[neighbor]] else DEAF
        control = [self.root, beat, self.dist, CHILD if neighbor == self.parent else bond]
        control += [float(self.clock)] * self.stamps
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
        self.still += 1
        if self.dist == 0:
            self._improve(self.root, float(self.rounds))
        if self.parent != NOBODY:
            self._follow()
        if self.still > UNDERCUT + 8 * self.beat_gap:
            self._become_root()
        self._adopt()
        totals = self._totals()
        agents = float(totals[-2])
        if self.window is not None:
            regrown = agents != self.agents_seen
            if regrown or has_fallen(self.registers, self.past[-1, :-2], totals[:-2]):
                self.past = self.past[:0]
            self.past = follow(self.past, totals, self.window)
        self.steady = self.steady + 1 if agents == self.agents_seen else 0
        self.agents_seen = agents
        self._end_count()

    def _grow_older(self, stamps: list[float]) -> None:
        """Move the clock on, and let all that is at hand age."""
        now = self._next_clock(stamps)
        for rows in (self.own, self.payloads):
            age_rows(self.registers, rows, max(0, now - self.clock))
        self.clock = now

    def _listen(self, messages: Mapping[int, Vector]) -> None:
        self.ages = self.ages + 1.0
        for j, message in messages.items():
            at = self.places[j]
            size = 0 if message.size == CONTROL else self.own.size
            if size:
                self.payloads[at] = message[:size]
            self.controls[at] = message[size : size + 4]
            if self.stamps:
                age_rows(
                    self.registers, self.payloads[at], max(0, self.clock - int(message[size + 4]))
                )
            self._hear_minima(message[size + 4 + self.stamps :])
            self.gaps[at] = mean_gap(self.gaps[at], self.ages[at])
            self.ages[at] = 0.0

    # Neighbours are few: lists of Python's own numbers are cheaper than arrays.

    def _alive(self) -> list[bool]:
        ages, gaps = self.ages.tolist(), self.gaps.tolist()
        return [age <= 8.0 * gap + 10.0 for age, gap in zip(ages, gaps, strict=True)]

    def _bonds(self) -> list[float]:
        bonds: list[float] = self.controls[:, BOND].tolist()
        return bonds

    def _partners(self) -> list[bool]:
        """Return who is alive and not deaf; all who are alive where everybody is deaf."""
        alive = self._alive()
        mutual = [ok and bond != DEAF for ok, bond in zip(alive, self._bonds(), strict=True)]
        return mutual if any(mutual) else alive

    def _totals(self, besides: int = NOBODY) -> Vector:
        """Return V, or what is on this side of the link to one neighbour."""
        others = np.zeros(self.own.size)
        for j, alive, bond in zip(self.places, self._alive(), self._bonds(), strict=True):
            if alive and (bond == CHILD or j == self.parent) and j != besides:
                others += self.payloads[self.places[j]]
        return self.own + others

    def _num_agents(self, agents: float) -> float:
        estimated = self._counted()
        if self.steady >= STEADY and agents >= 0.45 * estimated:
            return agents
        return max(agents, estimated)

    def _improve(self, root: float, beat: float) -> None:
        """Take over a root and a beat where they are better."""
        if root < self.root:
            self.root, self.beat, self.still = root, beat, 0
        elif root == self.root and beat > self.beat:
            self.beat_gap = mean_gap(self.beat_gap, self.still)
            self.beat, self.still = beat, 0

    def _follow(self) -> None:
        at = self.places[self.parent]
        root, beat, dist, _ = self.controls[at].tolist()
        if root > self.root or not self._partners()[at]:
            self.parent, self.dist = NOBODY, FAR
            return
        self._improve(root, beat)
        self.dist = min(FAR, dist + 1.0)

    def _become_root(self) -> None:
        self.root = self.tag + math.floor(self.root) - 1.0  # below the lost one, others told apart
        self.parent, self.beat, self.dist, self.still = NOBODY, float(self.rounds), 0.0, 0

    def _adopt(self) -> None:
        better = []
        controls: list[list[float]] = self.controls.tolist()
        for j, partner, control in zip(self.places, self._partners(), controls, strict=True):
            root, beat, dist, bond = control
            nearer = root == self.root and dist + 1.0 < self.dist and beat > self.beat
            if partner and bond != CHILD and dist < FAR and (root < self.root or nearer):
                better.append((root, dist, j, beat))
        if better:
            root, dist, self.parent, beat = min(better)
            self._improve(root, beat)
            self.dist = dist + 1.0

    def share(self) -> Share:
        """Return the own totals."""
        return self.registers.share(self.own[:-2])

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse totals beyond what so many agents can have pulled, and a tree that cannot be."""
        size, most = self.registers.size, claims.most_rounds(now)
        if self.lazy and message.size == CONTROL:
            root, beat, dist, bond = message.tolist()
        elif message.size < self.own.size + CONTROL:
            return
        else:
            agents, behind, root, beat, dist, bond = message[size : size + 6].tolist()
            claims.check_num_agents(agents)
            claims.check_totals(self.registers, message[:size], agents, now)
            claims.check_within("rounds behind totals", behind, 0.0, agents * most)
        claims.check_within("a root", root, -most / UNDERCUT, 1.0)
        claims.check_within("a beat", beat, 0.0, most)
        if not (0.0 <= dist <= FAR and dist.is_integer()) or bond not in (DEAF, HEARS, CHILD):
            raise InputError(
                f"a claim of distance {dist:g} and bond {bond:g}; distances are whole numbers from "
                "0 on, and bonds 0, 1 or 2"
            )
        if self.stamps and message.size > size + 6:
            claims.check_clock(float(message[size + 6]), now)
        self._check_count(message[size + 6 + self.stamps :], claims, now)

    def translated(self, message: Vector, theirs: Registers, places: Sequence[int]) -> Vector:
        """Return a message about other arms as one about these."""
        if message.size < theirs.size + CONTROL:
            return message  # a lazy one without totals
        behind = message.size - theirs.size
        return moved_rows(message, self.registers, theirs, places, (0, behind))

    def relinked(self, state: State, neighbors: Sequence[int], own: Sequence[int]) -> State:
        """Drop a parent that is no longer a neighbour; root and beat stay."""
        moved = super().relinked(state, neighbors, own)
        if state["parent"] in (NOBODY, *own):
            return moved
        return moved | {"parent": NOBODY, "dist": FAR}

    def check_state(self, values: State) -> None:
        """Refuse a parent that is no neighbour, and counts below 0."""
        super().check_state(values)
        if values["parent"] not in (NOBODY, *self.places):
            raise InputError(
                f"state field parent is {values['parent']}; it must be a neighbour, one of "
                f"{list(self.places)}, or {NOBODY} for nobody"
            )
        check_past(values, self.window)
        for name in ("rounds", "steady", "still"):
            require_count(f"state field {name}", values[name], least=0)


def mean_gap(mean: float, gap: float) -> float:
    """Return the mean of gaps after one more."""
    return min(PATIENCE, mean + 0.2 * (gap - mean))


def tag_of(word: int) -> float:
    """Return a number between 0 and 1 of 40 random bits: whole numbers may be added exactly."""
    bits = int(words(word, np.zeros(1, dtype=np.uint64))[0]) >> 24
    return (bits + 0.5) * 2.0**-40
