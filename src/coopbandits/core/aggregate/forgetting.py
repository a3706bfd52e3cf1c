"""Forgetting: what was seen counts less with its age, or not at all beyond a window.

With a discount γ a pull counts 1 until its round ends, γ in the next round, then γ², and so on:
from when it was made, not from when it was heard of. What comes late is old, never fresh. Messages
carry a stamp, the sender's clock when it wrote them, by which the receiver lets them age. The clock
is the number of rounds ended where all agents count rounds together. Where they do not, an agent
moves its clock on to the latest that it hears of, so that all forget at the same pace; and where
rounds have no length, as in a fleet, it is told the time.

With a window of w rounds, what an agent knew w rounds ago is subtracted from what it knows now.

**Clocks that are told the time.** Where rounds have no common length, as in a fleet, the driver of
an agent tells it the time before a round ends (`pass_time`): whole ticks since learning began,
`HALF_LIFE` of them to a half-life. Clocks of machines differ, are set, and may lie. With w the tick
told, c the agent's clock and s = `SKEW` ticks, by which honest clocks may differ, an agent goes by
the fastest clock around, but by none more than s beyond its own time:

    c ← max(w, min(max(c, latest stamp heard), w + s)).

So all agents with honest clocks soon have one clock. A stamp later than w + 2s is not believed
(`Claims.check_clock`). What an honest agent tells is at most s beyond its own time, and that at
most s beyond that of any honest agent: no liar makes honest agents reject each other. What is
stamped later than c counts as made now. All that a false clock can do to others is to let them
forget an eighth of a half-life too early, once.

An agent's own time may be set, too. Where it is set forward, what it knows ages by as much. Where
it is set back by up to s, its clock stands still until it is right; by more, and the clock follows,
but what the agent knows stays as old as it was: nothing gets fresh again.

An aggregation on fields leaves a discount to `discounted`, which wraps its `message` and `receive`:
a stamp ends every message, and what agents hold and hear ages by the aggregation's own functions
`age` and `age_message`. A window is a ring of totals among its fields (`window_fields`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core import rows
from coopbandits.core.checks import require_count, require_number
from coopbandits.core.contract import State
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import Registers

HALF_LIFE = 1024
"""Ticks after which a pull counts half."""

DISCOUNT = 0.5 ** (1.0 / HALF_LIFE)
"""What a pull counts after one tick."""

SKEW = HALF_LIFE // 8
"""Ticks by which honest clocks may differ."""

CLOCK: dict[str, Any] = {"clock": int, "decay": float, "ticks": int, "tick": int}
"""Fields of agents that may forget: the clock, and γ per round or tick. `tick` is the time told to
agents whose clocks count `ticks` (1) instead of rounds (0)."""


def fading_fields(width: int) -> dict[str, Any]:
    """Return the fields that tell which registers fade, 1 or 0, and what each is multiplied by."""
    return {"fades": width, "factors": width}


def check_forgetting(discount: Any, window: Any = None) -> None:
    """Check a discount in (0, 1], or a window of at least one round, but not both."""
    accepted = "a number above 0 and at most 1, which forgets nothing"
    require_number("discount", discount, accepted, 0.0, math.nextafter(1.0, 2.0))
    if window is not None:
        require_count("window", window)
        if discount != 1.0:
            raise InputError(
                f"discount={discount:g} and window={window} are two ways to forget; set one of them"
            )


def decayed_rounds(decay: float, rounds: Any) -> Any:
    """Return 1 + γ + … + γ^(rounds − 1): the weight of that many rounds, 1 for the last one."""
    if decay == 1.0:
        return rounds
    return np.expm1(rounds * math.log(decay)) / (decay - 1.0)


def age_rows(registers: Registers, rows: NDArray[np.float64], rounds: int) -> None:
    """Let rows [registers | number of agents | rounds behind them] age; the number does not."""
    registers.age(rows[..., :-2], rounds=rounds)
    rows[..., -1] *= registers.decay**rounds


def set_factors(s: Any, rounds: int) -> float:
    """Write the factors of registers over some rounds; return that of a register that fades."""
    factor = float(s.me.decay ** float(rounds))
    for w in range(s.factors.size):
        s.factors[w] = factor if s.fades[w] > 0.0 else 1.0
    return factor


def latest_clock(s: Any, latest: int) -> int:
    """Return the clock at the end of a round in which this one was the latest heard of."""
    if s.me.ticks == 1:
        return int(max(s.me.tick, min(latest, s.me.tick + SKEW)))
    return latest


def discounted(
    message: Callable[..., int],
    receive: Callable[..., None],
    age: Callable[..., None],
    age_message: Callable[..., None],
    *,
    is_stamped: bool,
    converts: bool,
) -> tuple[Callable[..., int], Callable[..., None]]:
    """Wrap `message` and `receive` of an aggregation on fields, so that pulls are discounted.

    `age(s, factors, factor)` multiplies what an agent holds, and `age_message(s, message, factors,
    factor)` what a message tells: registers by `factors`, anything else that fades by `factor`.
    Messages that are not stamped are all of the present round. An aggregation that `converts` does
    not listen to clocks that are too far off, and reads what is ahead of its own as of its own.
    """
    furthest = 2.0 * SKEW if converts else math.inf

    def stamped(s: Any, link: int, out: Any) -> int:
        length = message(s, link, out)
        if length > 0:
            out[length] = s.me.clock
            length += 1
        return length

    def receive_aged(s: Any, inbox: Any, lengths: Any) -> None:
        until = s.me.clock
        for link in range(lengths.size):
            if lengths[link] > 0:
                until = max(until, int(inbox[link, lengths[link] - 1]))
        until = latest_clock(s, until)
        if until > s.me.clock:
            age(s, s.factors, set_factors(s, until - s.me.clock))
        for link in range(lengths.size):
            if lengths[link] > 0:
                lengths[link] -= 1
                behind = until - int(inbox[link, lengths[link]])
                if abs(behind) > furthest:
                    lengths[link] = 0
                elif behind > 0 or (converts and behind < 0):
                    age_message(s, inbox[link], s.factors, set_factors(s, behind))
        receive(s, inbox, lengths)
        s.me.clock = until
        if s.me.ticks == 0:  # the end of a round is a step of the clock
            age(s, s.factors, set_factors(s, 1))
            s.me.clock += 1

    def receive_together(s: Any, inbox: Any, lengths: Any) -> None:
        receive(s, inbox, lengths)
        age(s, s.factors, set_factors(s, 1))

    return (stamped, receive_aged) if is_stamped else (message, receive_together)


def window_fields(window: int | None, width: int) -> dict[str, Any]:
    """Return the fields of a window: a ring of the totals of its rounds, and of those before it."""
    return {
        "past": (0 if window is None else window + 1, width), "oldest": int, "kept": int
    }  # fmt: skip


def keep_totals(s: Any, totals: Any) -> None:
    """Append the totals of a round to the ring; the oldest leave it."""
    size = s.past.shape[0]
    if s.me.kept < size:
        rows.copy(s.past[(s.me.oldest + s.me.kept) % size], totals)
        s.me.kept += 1
    else:
        rows.copy(s.past[s.me.oldest], totals)
        s.me.oldest = (s.me.oldest + 1) % size


def has_fewer(s: Any, now: Any, before: Any) -> bool:
    """Return whether some arm has fewer pulls than before, so that their difference is no pulls."""
    return rows.is_below(now, before, s.count_at)


def check_ring(values: State, window: int | None) -> None:
    """Check that a state's ring of totals fits the window."""
    if window is not None and not (1 <= values["kept"] <= window + 1 > values["oldest"] >= 0):
        raise InputError(
            f"state fields kept and oldest are {values['kept']} and {values['oldest']}; a window "
            f"of {window} keeps 1 to {window + 1} rounds, the oldest at 0 to {window}; restore "
            "what export_state returned"
        )
