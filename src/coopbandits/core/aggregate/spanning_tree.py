r"""A spanning tree that agents grow by themselves, and regrow: which neighbour leads to the root.

The agent with the smallest random tag is the root. Messages tell the control values
(root, beat, dist, bond), the bond being 2 if the receiver is the sender's parent, else 1 if the
sender hears the receiver, else 0; the root's beat is its round. In every round, after listening:

1. Follow the parent: take its root and beat where they are better, dist = dist_p + 1. A parent that
   is dead or deaf, or whose root has grown, is dropped: dist = ∞, while root and beat stay.
2. If root and beat stood still for more than 40 + 8·(mean gap between beats) + t/8 rounds, the
   root is lost: become a root oneself, under the own tag shifted below the lost root's, dist = 0.
   Only rounds in which the agent hears a neighbour count, here and in gaps between beats: in others
   no news of the root could have come. If all rounds counted, agents that act once in a hundred
   rounds would give up one root after another, each time with a root of their own below it.
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
of gaps move by 0.2 of the difference with every message, up to 100 rounds: so no agent, by speaking
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
with nothing but roots, so a lost root never comes back: an agent that missed it has moved below it.

**Lies** about the tree end with the liar. Whatever root and beat it told, once it is silent the
beat stands still, and all give that root up after at most 40 + 8·100 + 800 rounds; new roots
are below it. The fractions of roots tell agents apart as long as roots stay exact, so they may not
have been undercut more often than is possible (`check_place`).

*Differs from the paper*: spanning trees that stabilise themselves are well known (Dolev, Israeli,
Moran 1993); these rules are our own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.extrema import require_word
from coopbandits.core.draws import words
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.contract import LocalView, Vector

FAR = 2.0**31
"""dist of an agent that is cut off from its root: infinite."""

NOBODY = -1
"""The parent of an agent that has none, and the link to it."""

NO_ROOT = 1.0
"""What a neighbour that was never heard counts as having told: above all tags."""

UNDERCUT = 40
"""Fewest rounds for which a beat stands still before its root is given up."""

LONGEST = 800.0
"""Upper limit on the extra patience granted to long-lived agents, in rounds."""

STANDING = 256
"""Rounds after which a root lowers its value, and again whenever they have doubled."""

PATIENCE = 100.0
"""Cap on the mean message gap: a neighbour silent for 8 times as long is dead."""

CONTROL = 4
"""Control values of a message; without totals and minima, a lazy agent sends no others."""

ROOT, BEAT, DIST, BOND = range(CONTROL)
"""Places of control values."""

DEAF, HEARS, CHILD = 0.0, 1.0, 2.0
"""Bonds: the sender does not hear the receiver; it does; and the receiver is its parent."""


PLACING: dict[str, Any] = {
    "rounds": int,  # that this agent has ended
    "tag": float,
    "up": int,  # the link to the parent
    "root": float,
    "beat": float,
    "dist": float,
    "still": int,  # rounds heard since the pair improved
    "beat_gap": float,  # their mean
    "reign": int,  # rounds for which this agent has been a root
    "lived": int,  # rounds since the first pull or message
}
"""Numbers of an agent that has a place on the tree."""


def placing_links(links: int) -> dict[str, Any]:
    """Return the fields of its links: what neighbours told, and when they were heard."""
    return {
        "controls": (links, CONTROL),
        "ages": links,  # rounds since each neighbour was heard
        "gaps": links,  # mean rounds between its messages
    }


def start_tree(s: Any, view: LocalView) -> None:
    """Begin as a root that has heard no neighbour."""
    s.controls[:] = [NO_ROOT, 0.0, FAR, DEAF]
    s.gaps[:] = 1.0
    s.me.tag = s.me.root = tag_of(require_word(view))
    s.me.up, s.me.beat_gap = NOBODY, 1.0


def is_alive(s: Any, link: int) -> bool:
    return not is_overdue(s.ages[link], s.gaps[link])


def is_relative(s: Any, link: int) -> bool:
    is_near = link == s.me.up or s.controls[link, BOND] == CHILD
    return is_near and is_alive(s, link)


def hears_anybody(s: Any) -> bool:
    for link in range(s.ages.size):  # noqa: SIM110  what is compiled has no generators
        if s.controls[link, BOND] != DEAF and is_alive(s, link):
            return True
    return False


def is_partner(s: Any, link: int, mutual: bool) -> bool:
    """Return whether a neighbour is alive, and not deaf unless all are: `mutual` is false then."""
    return (s.controls[link, BOND] != DEAF or not mutual) and is_alive(s, link)


def write_place(s: Any, link: int, out: Any, at: int) -> int:
    """Write the control values for a neighbour from a place on; return where they end."""
    out[at + ROOT] = s.me.root
    out[at + BEAT] = s.me.rounds + 1.0 if s.me.dist == 0.0 else s.me.beat
    out[at + DIST] = s.me.dist
    if link == s.me.up:
        out[at + BOND] = CHILD
    else:
        out[at + BOND] = HEARS if is_alive(s, link) else DEAF
    return at + CONTROL


def hear_place(s: Any, link: int, message: Any, at: int) -> None:
    """Take in the control values of a neighbour; its age counts this round already."""
    rows.copy(s.controls[link], message[at : at + CONTROL])
    s.gaps[link] = mean_gap(s.gaps[link], s.ages[link])
    s.ages[link] = 0.0


def tend(s: Any, pulled: bool, heard: bool) -> None:
    """Look after the tree at the end of a round.

    `pulled` tells whether this agent ever has, and `heard` whether it heard any neighbour now.
    """
    begun, mutual = pulled, hears_anybody(s)
    for link in range(s.ages.size):
        begun = begun or s.controls[link, ROOT] < NO_ROOT
    s.me.lived += 1 if begun else 0
    s.me.still += 1 if heard else 0
    if s.me.dist == 0.0:
        improve(s, s.me.root, float(s.me.rounds))
    if s.me.up != NOBODY:
        follow(s, mutual)
    known = min(s.me.lived / 8, LONGEST)
    if s.me.still > UNDERCUT + 8 * s.me.beat_gap + known:
        become_root(s)
    adopt(s, mutual)
    s.me.reign = s.me.reign + 1 if begun and s.me.dist == 0.0 else 0
    if s.me.reign >= STANDING and s.me.reign & (s.me.reign - 1) == 0:
        s.me.root -= 1.0


def improve(s: Any, root: float, beat: float) -> None:
    """Take over a root and a beat where they are better."""
    if root < s.me.root:
        s.me.root, s.me.beat, s.me.still = root, beat, 0
    elif root == s.me.root and beat > s.me.beat:
        s.me.beat_gap = mean_gap(s.me.beat_gap, s.me.still)
        s.me.beat, s.me.still = beat, 0


def follow(s: Any, mutual: bool) -> None:
    link = s.me.up
    root = float(s.controls[link, ROOT])
    if root > s.me.root or not is_partner(s, link, mutual):
        s.me.up, s.me.dist = NOBODY, FAR
        return
    improve(s, root, float(s.controls[link, BEAT]))
    s.me.dist = min(FAR, float(s.controls[link, DIST]) + 1.0)


def become_root(s: Any) -> None:
    """Replace a lost root by one below it; the fractions of tags tell others apart."""
    s.me.root = s.me.tag + math.floor(s.me.root) - 1.0
    s.me.up, s.me.beat, s.me.dist, s.me.still = NOBODY, float(s.me.rounds), 0.0, 0


def adopt(s: Any, mutual: bool) -> None:
    """Take the best parent: of the least root, then the least distance, then the first."""
    best, stalled = NOBODY, is_overdue(s.me.still, s.me.beat_gap)
    for link in range(s.ages.size):
        root, dist = s.controls[link, ROOT], s.controls[link, DIST]
        is_fresher = root == s.me.root and s.controls[link, BEAT] > s.me.beat
        leads = root < s.me.root or (is_fresher and (stalled or dist + 1.0 < s.me.dist))
        if not leads or dist >= FAR or s.controls[link, BOND] == CHILD:
            continue
        if not is_partner(s, link, mutual):
            continue
        if best != NOBODY:
            least = s.controls[best, ROOT]
            if root > least or (root == least and dist >= s.controls[best, DIST]):
                continue
        best = link
    if best != NOBODY:
        s.me.up = best
        improve(s, float(s.controls[best, ROOT]), float(s.controls[best, BEAT]))
        s.me.dist = float(s.controls[best, DIST]) + 1.0


def check_place(told: Vector, claims: Claims, now: float) -> None:
    root, beat, dist, bond = told.tolist()
    most = claims.most_rounds(now)
    claims.check_within("a root", root, -most / UNDERCUT, NO_ROOT)
    claims.check_within("a beat", beat, 0.0, most)
    if not (0.0 <= dist <= FAR and dist.is_integer()) or bond not in (DEAF, HEARS, CHILD):
        raise InputError(
            f"a claim of distance {dist:g} and bond {bond:g}; distances are whole numbers from "
            "0 on, and bonds 0, 1 or 2"
        )


def mean_gap(mean: float, gap: float) -> float:
    return min(PATIENCE, mean + 0.2 * (gap - mean))


def is_overdue(silence: float, mean: float) -> bool:
    """Return whether a silence is so long, given the mean one, that no more is expected."""
    return silence > 8.0 * mean + 10.0


def tag_of(word: int) -> float:
    """Return a number between 0 and 1 of 40 random bits: whole numbers may be added exactly."""
    bits = int(words(word, np.zeros(1, dtype=np.uint64))[0]) >> 24
    return (bits + 0.5) * 2.0**-40
