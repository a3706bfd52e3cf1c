r"""A spanning tree that agents grow by themselves, and regrow: which neighbour leads to the root.

The agent with the smallest random tag is the root. Messages tell the control values
(root, beat, dist, bond), the bond being 2 if the receiver is the sender's parent, else 1 if the
sender hears the receiver, else 0; the root's beat is its round. In every round, after listening:

1. Follow the parent: take its root and beat where they are better, dist = dist_p + 1. A parent that
   is dead or deaf, or whose root has grown, is dropped: dist = ∞, while root and beat stay.
2. If root and beat stood still for more than 40 + 8·(mean gap between beats) + t/8 rounds, the
   root is lost: become a root oneself, under the own tag shifted below the lost root's, dist = 0.
   Only rounds in which the agent hears somebody count, here and in gaps between beats: in others no
   news of the root could have come. If all rounds counted, agents that act once in a hundred rounds
   would give up one root after another, each time with a root of their own below it.
   What is missed in Δ of t rounds weighs Δ/t, hence t/8, up to 800 rounds. t counts from the
   agent's first pull or message. Counted from the start of the run instead, it exceeds the lifetime
   of agents that restart often, and all of them wait for a root that died before they started.
3. Adopt as parent a neighbour that is alive, not deaf, no child, and not at ∞, if its root is
   smaller (the least root, then the least dist); or the same with beat_j > beat, and either
   dist_j + 1 < dist or the own beat is overdue. A beat is overdue as a neighbour is dead (below).
4. A root that has been one for 256, 512, 1024, … rounds lowers its own value by 1. So an agent
   that joins late, or returns without memory, does not become root by its tag. Rounds before an
   agent has pulled or heard anything do not count.

A neighbour is dead when silent for more than 8·(mean gap between its messages) + 10 rounds. Means
of gaps move by 0.2 of the difference with every message, up to 100 rounds: so nobody, by speaking
more and more rarely, can make others wait for long. A neighbour is deaf if it says that it does not
hear, as on a link that works one way; where all are, none counts as deaf, since to listen is better
than nothing.

**Loop-free**, whatever is lost, late, or out of order. Order the pairs (root, −beat), smaller being
better. An agent's pair never gets worse: it keeps it when it drops a parent, and shifts its tag
below a lost root's or, as a root, below its own. It takes over what its parent told, so a parent's
present pair is never worse than its child's, and pairs never improve going down the tree. A switch
to j needs a strictly better pair of j's, so j cannot be below the one that switches. (Only an agent
that forgets its pair, by a crash that loses its memory, can break this: it may adopt one of its own
descendants. Beats in such a loop stand still, so its members leave by step 3 as soon as the beat is
overdue and a neighbour outside has a newer one, and by step 2 otherwise.) A root's tag is compared
with nothing but roots, so a lost root never comes back: whoever missed it has moved below it.

**Lies** about the tree end with the liar. Whatever root and beat it told, once it is silent the
beat stands still, and everybody gives that root up after at most 40 + 8·100 + 800 rounds; new roots
are below it. The fractions of roots tell agents apart as long as roots stay exact, so they may not
have been undercut more often than is possible (`_check_place`).

*Differs from the paper*: spanning trees that stabilise themselves are well known (Dolev, Israeli,
Moran 1993); these rules are our own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core.aggregate.extrema import CountingMachine, require_word
from coopbandits.core.checks import require_count
from coopbandits.core.draws import words
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.contract import LocalView, State, Vector

FAR = 2.0**31
"""dist of an agent that is cut off from its root: infinite."""

NOBODY = -1
"""The parent of an agent that has none."""

NO_ROOT = 1.0
"""What a neighbour that was never heard counts as having told: above all tags."""

UNDERCUT = 40
"""Fewest rounds for which a beat stands still before its root is given up."""

LONGEST = 800.0
"""Most rounds for which it is waited longer because much is known."""

STANDING = 256
"""Rounds after which a root lowers its value, and again whenever they have doubled."""

PATIENCE = 100.0
"""The largest mean gap that is gone by: no silence is borne for longer than 8 times as much."""

CONTROL = 4
"""Control values of a message; without totals and minima, a lazy agent sends no others."""

BOND = 3
"""Place of the bond among the control values."""

DEAF, HEARS, CHILD = 0.0, 1.0, 2.0
"""Bonds: the sender does not hear the receiver; it does; and the receiver is its parent."""


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
        if self.still > UNDERCUT + 8 * self.beat_gap + known:
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
        if self.reign >= STANDING and self.reign & (self.reign - 1) == 0:
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
        claims.check_within("a root", root, -most / UNDERCUT, NO_ROOT)
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


def mean_gap(mean: float, gap: float) -> float:
    """Return the mean of gaps after one more."""
    return min(PATIENCE, mean + 0.2 * (gap - mean))


def is_overdue(silence: float, mean: float) -> bool:
    """Return whether a silence is so long, given the mean one, that no more is expected."""
    return silence > 8.0 * mean + 10.0


def tag_of(word: int) -> float:
    """Return a number between 0 and 1 of 40 random bits: whole numbers may be added exactly."""
    bits = int(words(word, np.zeros(1, dtype=np.uint64))[0]) >> 24
    return (bits + 0.5) * 2.0**-40
