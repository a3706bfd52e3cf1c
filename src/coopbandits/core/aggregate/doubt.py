r"""Doubt: a memory that was opened again, and may be older than what it has told.

A process that starts goes on from what its disk has kept. After a loss of power, or with an older
copy put back, that is less than what it has done: what it now holds it may have handed on already,
and what neighbours tell it may have taken already. It cannot know by itself, and its neighbours
can: they acknowledge numbers of its messages.

**Silence.** From its opening on an agent is in doubt. It hands nothing on, takes nothing, and gives
its messages no numbers, so what neighbours acknowledge stays the last that they have heard from its
life before. A memory of r rounds has sent numbers up to r + 1. A neighbour that acknowledges such a
one, under the mark that this memory has drawn for the link, has heard nothing that it does not
know. Any other answer means that the memory is too old, or that the neighbour has forgotten what
it heard. Then the agent begins anew: it drops what it held when it was opened, and draws new marks.
So it does if somebody has not answered after `PATIENCE` rounds. Those are asked who were neighbours
when it was opened, as soon as they are again. Who has become one since may know of a later life,
too: its answer is right unless it acknowledges a number that this memory has not sent. A memory of
before anybody was heard has only those to ask, and cannot know how many will come: it waits for
`PATIENCE` rounds, and goes on if no answer was wrong.

**Many in doubt.** If i and its neighbour j are both put back, both may look right to each other,
and what i holds may be known to a third by way of j. So i also waits for j: an agent in doubt tells
its *level*, 0 until all neighbours have given the right answer, and then one more than the least of
those of its neighbours in doubt. At level n all in doubt within n - 1 links have got right answers
only. At `LEVELS`, or at once where no neighbour is in doubt, the doubt is over. Who begins anew
acknowledges nothing, so its neighbours in doubt begin anew as well, and theirs. Where all answers
in reach are right the openings are a consistent cut: nobody knows of anything that happened after
it, and playing on from there is as if it had not.

This takes for granted that over a new link nothing arrives from before (frames carry the sender's
start), that pulls were not handed on over more than `LEVELS` agents in a row all of which have lost
that from their memories, and that somebody who answers was told of the rounds that a memory has
lost: links did not all break in the very round after which it was kept.
"""

from __future__ import annotations

import math
from typing import Any

from coopbandits.core.aggregate.fields import FieldMachine
from coopbandits.core.checks import require_count
from coopbandits.core.contract import State, Vector
from coopbandits.core.errors import InputError

LEVELS = 64
"""The level at which doubt is over."""

PATIENCE = 512
"""Rounds after which answers are no longer waited for."""

LAP = 2.0**31
"""Messages are numbered by rounds, and from 0 again after so many, so that a number of 53 bits has
room for a fraction of 21. Of two numbers the one is later that is ahead by less than half a lap."""

SURE = -1
"""The round of an opening that is not in doubt."""

UNHEARD = -1.0
"""The level of a neighbour that was one at the opening, and has not answered."""


DOUBTING: dict[str, Any] = {
    "nonce": int,  # the word of this opening: with it are drawn words that no life of before has
    "opened": int,  # the rounds of which this memory is certain; `SURE` if there is no doubt
    "level": int,  # how far around doubts are settled
}
"""Numbers of an agent that may be in doubt about its memory."""


class DoubtfulMachine(FieldMachine):
    """A machine that may be in doubt about its memory.

    Attributes
    ----------
    levels : array
        The level that each neighbour told since the opening.
    """

    levels: Vector

    @property
    def is_sure(self) -> bool:
        """Whether there is no doubt."""
        return bool(self.state.me.opened == SURE)

    def _begin_doubt(self) -> None:
        """Ask all neighbours; who was in doubt already is certain of no more than then."""
        if self.is_sure:
            self.state.me.opened = self.state.me.rounds
        self.state.me.level, self.levels[:] = 0, UNHEARD

    def _note_answer(self, at: int, number: float, heard: float, mark: float) -> bool:
        """Note a neighbour's answer; return whether it is the right one.

        `number` is that of its message, `heard` what it acknowledges, and `mark` that of the link.
        """
        is_of_link = heard % 1.0 == mark if mark else self.levels[at] != UNHEARD
        self.levels[at] = LEVELS if number > 0.0 else min(-number, LEVELS)
        knows_more = heard != 0.0 and is_later(heard // 1.0, self.state.me.opened + 1.0)
        return is_of_link and not knows_more

    def _settle(self) -> bool:
        """Raise the level, once a round; return whether the doubt is over."""
        level = min(LEVELS, 1 + int(min(self._asked(), default=LEVELS)))
        self.state.me.level = level
        return level == LEVELS

    def _asked(self) -> list[float]:
        """Return the levels of all who are asked."""
        levels: list[float] = self.levels.tolist()
        return levels

    def _has_waited(self) -> bool:
        return bool(self.state.me.rounds - self.state.me.opened > PATIENCE)

    def check_state(self, values: State) -> None:
        """Check the doubt, and levels."""
        super().check_state(values)
        require_count("state field nonce", values["nonce"], least=0)
        require_count("state field opened", values["opened"], least=SURE)
        require_count("state field level", values["level"], least=0)
        if not ((values["levels"] >= UNHEARD) & (values["levels"] <= LEVELS)).all():
            raise InputError(
                f"state field levels is {values['levels'].tolist()}; levels are {UNHEARD:g} to "
                f"{LEVELS}"
            )


def is_later(number: float, than: float) -> bool:
    """Return whether a number is of a later round than another one."""
    return 0.0 < in_lap(number - than) < LAP / 2.0


def in_lap(number: float) -> float:
    """Return a number of rounds modulo `LAP`: with a power of two this is exact."""
    return number - LAP * math.floor(number / LAP)
