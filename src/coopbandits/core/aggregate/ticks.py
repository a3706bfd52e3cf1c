"""The clock of an agent that forgets: rounds where these are common, or ticks that it is told.

Where rounds have no common length, as in a fleet, whoever drives an agent tells it the time before
a round ends (`pass_time`): whole ticks since learning began, `HALF_LIFE` of them to a half-life.
Clocks of machines differ, and may be set or lie, so three rules bound what a clock can do. With w
the tick told, c the agent's clock and s = `SKEW` ticks, by which honest clocks may differ:

- c ← max(c, w, min(latest stamp heard, w + s)). A clock never goes back, so data never gets fresh
  again; it follows the fastest clock around, and nobody moves it further than s beyond the own.
- Messages are stamped min(c, w + s): an agent whose time was far ahead, and was set right, is heard
  again at once.
- A stamp later than w + 2s is refused (`Claims.check_clock`). What an honest agent tells is at most
  s beyond its own time, and that at most s beyond anybody's: so no liar makes honest agents refuse
  each other.

What is stamped later than the own clock counts as made now. All that a false clock can do to others
is to let them forget an eighth of a half-life too early, once.
"""

from __future__ import annotations

from collections.abc import Iterable

from coopbandits.core.aggregate.aggregation import Machine
from coopbandits.core.contract import LocalView

HALF_LIFE = 1024
"""Ticks after which a pull counts half."""

DISCOUNT = 0.5 ** (1.0 / HALF_LIFE)
"""What a pull counts after one tick."""

SKEW = HALF_LIFE // 8
"""Ticks by which honest clocks may differ."""


class ClockedMachine(Machine):
    """A machine whose pulls age by a clock.

    Attributes
    ----------
    clock : int
        Rounds ended, or more where others are ahead; or ticks.
    wall : int
        The tick told last, where ticks are told.
    """

    def _start_clock(self, view: LocalView, *, decays: bool) -> None:
        self.clock, self.wall, self.ticks = 0, 0, view.told_time
        if decays:
            self.keep_also("clock")
            if self.ticks:
                self.keep_also("wall")

    def pass_time(self, tick: int) -> None:
        """Take note of the time at which the round ends."""
        self.wall = tick

    @property
    def stamp(self) -> int:
        """The clock as messages tell it."""
        return min(self.clock, self.wall + SKEW) if self.ticks else self.clock

    def _next_clock(self, stamps: Iterable[float]) -> int:
        """Return the clock at the end of a round in which these stamps were heard."""
        latest = int(max([self.clock, *stamps]))
        if not self.ticks:
            return latest + 1
        return max(self.clock, self.wall, min(latest, self.wall + SKEW))

    def _since(self, stamp: float) -> int:
        """Return how old something is; what is stamped later than now is new."""
        return max(0, self.clock - int(stamp))
