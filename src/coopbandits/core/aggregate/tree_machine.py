"""The machine of tree sums that ledger sums are built on, until these are functions on fields."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core.aggregate import spanning_tree, tree_sums
from coopbandits.core.aggregate.aggregation import ContextMachine
from coopbandits.core.aggregate.arms import moved_rows
from coopbandits.core.aggregate.exchange import anticipation, check_vectors
from coopbandits.core.aggregate.extrema import (
    EXPONENTIALS,
    CountingMachine,
    check_count,
    check_minima,
    require_word,
)
from coopbandits.core.aggregate.forgetting import (
    age_rows,
    check_past,
    decayed_rounds,
    follow,
    has_fallen,
)
from coopbandits.core.aggregate.lazy import has_grown
from coopbandits.core.aggregate.pooling import Spread, pooled
from coopbandits.core.aggregate.spanning_tree import (
    BOND,
    CHILD,
    CONTROL,
    DEAF,
    FAR,
    HEARS,
    LONGEST,
    NO_ROOT,
    NOBODY,
    is_overdue,
    mean_gap,
    tag_of,
)
from coopbandits.core.aggregate.ticks import ClockedMachine
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Estimate, LocalView, Share, State, Vector
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers


class SpanningTree(CountingMachine):
    """A machine that also has a place on the tree; `rounds` are those it has ended."""

    placing = (
        "controls", "ages", "gaps", "tag", "parent", "root", "beat", "dist", "still", "beat_gap",
        "reign", "lived",
    )  # fmt: skip
    placing_links = ("controls", "ages", "gaps")
    rounds: int

    def _start_tree(self, view: LocalView) -> None:
        self.places = {int(j): at for at, j in enumerate(sorted(view.neighbor_weights))}
        self.controls = np.tile([NO_ROOT, 0.0, FAR, DEAF], (len(self.places), 1))
        self.ages = np.zeros(len(self.places))  # rounds since each neighbour was heard
        self.gaps = np.ones(len(self.places))  # mean rounds between its messages
        self.tag = tag_of(require_word(view))
        self.parent, self.root, self.beat, self.dist = NOBODY, self.tag, 0.0, 0.0
        self.still, self.beat_gap = 0, 1.0  # rounds heard since the pair improved; their mean
        self.reign = 0  # rounds for which this agent has been a root
        self.lived = 0  # rounds since the first pull or message

    def _place(self, neighbor: int) -> list[float]:
        """Return the control values to tell a neighbour."""
        beat = self.rounds + 1.0 if self.dist == 0 else self.beat
        bond = HEARS if self._alive()[self.places[neighbor]] else DEAF
        return [self.root, beat, self.dist, CHILD if neighbor == self.parent else bond]

    def _hear_places(self, told: Mapping[int, Vector]) -> None:
        """Take in the control values of all neighbours heard in this round."""
        self.ages = self.ages + 1.0
        for j, control in told.items():
            at = self.places[j]
            self.controls[at] = control
            self.gaps[at] = mean_gap(self.gaps[at], self.ages[at])
            self.ages[at] = 0.0

    def _tend(self, *, pulled: bool, heard: bool) -> None:
        """Look after the tree at the end of a round.

        `pulled` tells whether this agent ever has, and `heard` whether it heard any neighbour now.
        """
        begun = pulled or any(root < NO_ROOT for root in self.controls[:, 0].tolist())
        self.lived += int(begun)
        self.still += int(heard)
        if self.dist == 0:
            self._improve(self.root, float(self.rounds))
        if self.parent != NOBODY:
            self._follow()
        known = min(self.lived / 8, LONGEST)
        if self.still > spanning_tree.UNDERCUT + 8 * self.beat_gap + known:
            self._become_root()
        self._adopt()
        self._reign(begun)

    # Neighbours are few: lists of Python's own numbers are cheaper than arrays.

    def _alive(self) -> list[bool]:
        ages, gaps = self.ages.tolist(), self.gaps.tolist()
        return [not is_overdue(age, gap) for age, gap in zip(ages, gaps, strict=True)]

    def _bonds(self) -> list[float]:
        bonds: list[float] = self.controls[:, BOND].tolist()
        return bonds

    def _partners(self) -> list[bool]:
        """Return who is alive and not deaf; all who are alive where everybody is deaf."""
        alive = self._alive()
        mutual = [ok and bond != DEAF for ok, bond in zip(alive, self._bonds(), strict=True)]
        return mutual if any(mutual) else alive

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

    def _reign(self, begun: bool) -> None:
        """Count the rounds of a root, and lower it when it has lasted."""
        self.reign = self.reign + 1 if begun and self.dist == 0 else 0
        if self.reign >= spanning_tree.STANDING and self.reign & (self.reign - 1) == 0:
            self.root -= 1.0

    def _adopt(self) -> None:
        better, stalled = [], is_overdue(self.still, self.beat_gap)
        controls: list[list[float]] = self.controls.tolist()
        for j, partner, control in zip(self.places, self._partners(), controls, strict=True):
            root, beat, dist, bond = control
            fresher = root == self.root and beat > self.beat
            leads = root < self.root or (fresher and (stalled or dist + 1.0 < self.dist))
            if partner and bond != CHILD and dist < FAR and leads:
                better.append((root, dist, j, beat))
        if better:
            root, dist, self.parent, beat = min(better)
            self._improve(root, beat)
            self.dist = dist + 1.0

    def _check_place(self, told: Vector, claims: Claims, now: float) -> None:
        """Refuse control values that cannot be."""
        root, beat, dist, bond = told.tolist()
        most = claims.most_rounds(now)
        claims.check_within("a root", root, -most / spanning_tree.UNDERCUT, NO_ROOT)
        claims.check_within("a beat", beat, 0.0, most)
        if not (0.0 <= dist <= FAR and dist.is_integer()) or bond not in (DEAF, HEARS, CHILD):
            raise InputError(
                f"a claim of distance {dist:g} and bond {bond:g}; distances are whole numbers from "
                "0 on, and bonds 0, 1 or 2"
            )

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
        for name in ("rounds", "still", "reign", "lived"):
            require_count(f"state field {name}", values[name], least=0)


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
            self.since = np.full(len(self.places), float(tree_sums.REFRESH))
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
        return self.steady < tree_sums.STEADY or (
            self.generation > 0 and self.collecting < tree_sums.SPREAD
        )

    def _tells(self, at: int, payload: Vector) -> bool:
        """Return whether a lazy agent tells a neighbour the payload."""
        told = self.told[at]
        if self._spreads() or self.since[at] >= tree_sums.REFRESH or payload[-2] != told[-1]:
            return True
        return bool(
            has_grown(self.registers.share(payload[:-2]).counts, told[:-1], self.lazy).any()
        )

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
        if self.steady >= tree_sums.STEADY:
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
        if self.stood >= tree_sums.CERTAIN and agents == self.standing:
            return True
        return self.steady >= tree_sums.STEADY and agents >= tree_sums.FEWEST * self._counted()

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
