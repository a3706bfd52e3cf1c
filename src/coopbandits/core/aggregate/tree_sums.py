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
registers, 32 or 33 more with the minima, and one more, the round, where the statistic decays: what
comes late has then aged on its way.

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
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import (
    OWN,
    ROBUST,
    Aggregation,
    ContextMachine,
    MessageSize,
)
from coopbandits.core.aggregate.exchange import anticipation, check_vectors
from coopbandits.core.aggregate.extrema import (
    EXPONENTIALS,
    CountingMachine,
    check_minima,
    require_word,
)
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Estimate, LocalView, Share, State, Vector
from coopbandits.core.draws import words
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers

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

BOND = 3
"""Place of the bond among the control values."""

DEAF, HEARS, CHILD = 0.0, 1.0, 2.0
"""Bonds: the sender does not hear the receiver; it does; and the receiver is its parent."""


@dataclass(frozen=True)
class TreeSums(Aggregation):
    """Exact network totals, each agent's part delayed by its distance on the tree.

    Notes
    -----
    Knows who its neighbours are, a random word of its own, and whether rounds are common (otherwise
    nothing is anticipated). Sends all registers and 6 values to each neighbour in every round, and
    32 more until the number of agents is steady.
    """

    name: ClassVar[str] = "tree-sums"
    mode: ClassVar[str] = ROBUST
    shares: ClassVar[str] = OWN
    exact: ClassVar[bool] = True
    overtakes: ClassVar[bool] = True
    checks_claims: ClassVar[bool] = True

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
        return TreeSumsMachine(view, registers)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size without and with the minima by which agents are counted."""
        del max_agents
        usual = registers.size + 6 + (registers.decay != 1.0)
        return MessageSize(usual, usual + EXPONENTIALS + 1, "while agents are being counted")


class TreeSumsMachine(CountingMachine, ContextMachine):
    """Own totals, what neighbours told, and the agent's place on the tree."""

    fields = (
        "rounds", "own", "payloads", "controls", "ages", "gaps", "agents_seen", "steady", "tag",
        "parent", "root", "beat", "dist", "still", "beat_gap", *CountingMachine.counting,
    )  # fmt: skip
    links = ("payloads", "controls", "ages", "gaps")

    def __init__(self, view: LocalView, registers: Registers) -> None:
        word = require_word(view)
        self.registers, self.common_round = registers, view.common_round
        self.stamps = int(registers.decay != 1.0)  # whether messages tell their round
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

    def estimate(self) -> Estimate:
        """Return V, with as many pulls anticipated as are on their way."""
        totals = self._totals()
        num_agents = self._num_agents(float(totals[-2]))
        ahead = anticipation(num_agents, self.rounds, totals[-1]) if self.common_round else 1.0
        time = max(2.0, float(self.registers.version(totals[:-2])))
        return self.registers.read(
            totals[:-2], time=time, num_agents=num_agents, anticipation=ahead
        )

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Add one own pull; its round ends those behind the own totals."""
        self.registers.record(self.own[:-2], arm, reward, context)
        self.own[-1] = self.rounds + 1

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return [payload | root, beat, dist, bond | round where pulls decay | m]."""
        beat = self.rounds + 1.0 if self.dist == 0 else self.beat
        bond = HEARS if self._alive()[self.places[neighbor]] else DEAF
        control = [self.root, beat, self.dist, CHILD if neighbor == self.parent else bond]
        control += [self.rounds + 1.0] * self.stamps
        spreads = self.steady < STEADY or (self.generation > 0 and self.collecting < SPREAD)
        minima = self._minima() if spreads else self.minima[:0]
        return np.concatenate([self._totals(besides=neighbor), control, minima])

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Listen, then look after the tree."""
        size = self.own.size + 4 + self.stamps
        check_vectors(messages, size, size + EXPONENTIALS, size + EXPONENTIALS + 1)
        check_minima(messages, size)
        self.rounds += 1
        self._listen(messages)
        self.still += 1
        if self.dist == 0:
            self._improve(self.root, float(self.rounds))
        if self.parent != NOBODY:
            self._follow()
        if self.still > UNDERCUT + 8 * self.beat_gap:
            self._become_root()
        self._adopt()
        agents = float(self._totals()[-2])
        self.steady = self.steady + 1 if agents == self.agents_seen else 0
        self.agents_seen = agents
        self._end_count()
        self.registers.age(self.own[:-2], self.payloads[:, :-2])

    def _listen(self, messages: Mapping[int, Vector]) -> None:
        size = self.own.size
        self.ages = self.ages + 1.0
        for j, message in messages.items():
            at = self.places[j]
            self.payloads[at] = message[:size]
            self.controls[at] = message[size : size + 4]
            if self.stamps and self.common_round:
                late = max(0, self.rounds - int(message[size + 4]))
                self.registers.age(self.payloads[at, :-2], rounds=late)
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
        size = self.registers.size
        if message.size < self.own.size + 4:
            return
        agents, behind, root, beat, dist, bond = message[size : size + 6].tolist()
        most = claims.most_rounds(now)
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
            claims.check_within("a round", float(message[size + 6]), 0.0, most)
        self._check_count(message[size + 6 + self.stamps :], claims, now)

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
        for name in ("rounds", "steady", "still"):
            require_count(f"state field {name}", values[name], least=0)


def mean_gap(mean: float, gap: float) -> float:
    """Return the mean of gaps after one more."""
    return min(PATIENCE, mean + 0.2 * (gap - mean))


def tag_of(word: int) -> float:
    """Return a number between 0 and 1 of 40 random bits: whole numbers may be added exactly."""
    bits = int(words(word, np.zeros(1, dtype=np.uint64))[0]) >> 24
    return (bits + 0.5) * 2.0**-40
