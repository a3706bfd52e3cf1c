"""The clock of an agent that forgets: rounds where these are common, or ticks that it is told.

Where rounds have no common length, as in a fleet, whoever drives an agent tells it the time before
a round ends (`pass_time`): whole ticks since learning began, `HALF_LIFE` of them to a half-life.
Clocks of machines differ, are set, and may lie. With w the tick told, c the agent's clock and
s = `SKEW` ticks, by which honest clocks may differ, an agent goes by the fastest clock around, but
by none more than s beyond its own time:

    c ← max(w, min(max(c, latest stamp heard), w + s)).

So all agents with honest clocks soon have one clock. A stamp later than w + 2s is not believed
(`Claims.check_clock`). What an honest agent tells is at most s beyond its own time, and that at
most s beyond anybody's: no liar makes honest agents refuse each other. What is stamped later than c
counts as made now. All that a false clock can do to others is to let them forget an eighth of a
half-life too early, once.

An agent's own time may be set, too. Where it is set forward, what it knows ages by as much. Where
it is set back by up to s, its clock stands still until it is right; by more, and the clock follows,
but what the agent knows stays as old as it was: nothing gets fresh again.
"""

from __future__ import annotations

HALF_LIFE = 1024
"""Ticks after which a pull counts half."""

DISCOUNT = 0.5 ** (1.0 / HALF_LIFE)
"""What a pull counts after one tick."""

SKEW = HALF_LIFE // 8
"""Ticks by which honest clocks may differ."""
