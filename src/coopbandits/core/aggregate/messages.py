"""Messages, as aggregations share them: lazy sending, flags as bits, and checks of what arrives.

**Lazy sending.** Totals are sent again only once they have grown enough to matter. What is
cumulative may come late: silence is only a delay. With `lazy` β, totals are news once some arm has
at least (1 + β) times as many pulls as when they were last sent, and one more. A reader knows of at
least 1/(1 + β) of the pulls of every arm, less one, so a bonus grows by at most the root of 1 + β;
and they are sent O(K log T) times instead of T times. In a flood this holds for every agent's own
totals, which others pass on as they are. On a tree every agent sends sums, and holds them back
again: it holds for every hop.

*Differs from the paper*: ComEx (Madhushani, Leonard 2021) sends single pulls, those of arms other
than the best one; totals carry all pulls, and report them by and by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbandits.core import rows
from coopbandits.core.checks import require_count, require_number
from coopbandits.core.contract import State, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import Registers

FEW = 64
"""Below this size Python's sum beats a numpy call."""


def check_vectors(messages: Mapping[int, Vector], *sizes: int) -> None:
    """Check that all messages are finite vectors of one of these sizes."""
    shapes = [(size,) for size in sizes]
    for neighbor, message in messages.items():
        if np.shape(message) not in shapes:
            raise InputError(
                f"message from {neighbor} has shape {np.shape(message)}; this round takes "
                f"{' or '.join(map(str, shapes))}"
            )
        if not all_finite(message):
            raise InputError(f"message from {neighbor} has values that are not finite")


def check_means(messages: Mapping[int, Vector], registers: Registers) -> None:
    """Check that all messages are finite means, in the place of sums, and counts of at least 0."""
    check_vectors(messages, registers.size)
    for neighbor, message in messages.items():
        least = registers.share(message).counts.min()
        if least < 0.0:
            raise InputError(
                f"message from {neighbor} tells of {least:g} pulls; counts are never negative"
            )


def all_finite(values: Vector) -> bool:
    """Return whether all values of a vector are finite."""
    # A finite sum, of squares where there are many, says so sooner; huge ones overflow: look again.
    total = sum(values.tolist()) if values.size <= FEW else np.vdot(values, values)
    return math.isfinite(total) or bool(np.isfinite(values).all())


def largest(values: Vector) -> float:
    """Return the largest absolute value of a vector; not a number if one of them is none."""
    if values.size <= FEW and math.isfinite(sum(few := values.tolist())):
        return max(max(few), -min(few)) if few else 0.0
    return float(abs(values).max(initial=0.0))


def write_news(s: Any, out: Vector) -> int:
    """Write the first `num_news` rows of the field `news` as a message; return its length."""
    width = s.news.shape[1]
    for item in range(s.me.num_news):
        rows.copy(out[item * width : (item + 1) * width], s.news[item])
    return int(s.me.num_news * width)


def check_news(values: State) -> None:
    """Check what a state says of items to pass on, and of whom was heard, as bits."""
    for name in ("rounds", "num_news"):
        require_count(f"state field {name}", values[name], least=0)
    news, num_news, seen = values["news"], values["num_news"], values["seen"]
    if num_news > len(news):
        raise InputError(
            f"state field num_news is {num_news}; an agent passes on up to {len(news)} items"
        )
    if ((seen < 0) | (seen >= 2**BITS)).any():
        raise InputError(f"state field seen is {seen.tolist()}; it holds {BITS} bits a value")


def check_counts(name: str, counts: Any) -> None:
    """Check that a state field has no numbers of pulls below 0."""
    if (counts < 0.0).any():
        raise InputError(f"state field {name} has {counts.min():g} pulls; counts are at least 0")


def read_items(message: Vector, width: int, num_arms: int, sender: int) -> Vector:
    """Return a message as rows of `width` values that end in (arm, reward), or reject it."""
    items = read_rows(message, width, sender)
    check_arms(items[:, -2], num_arms, f"message from {sender}")
    return items


def read_rows(message: Vector, width: int, sender: int) -> Vector:
    """Return a message as rows of `width` values, or reject it."""
    if np.ndim(message) != 1 or np.size(message) % width:
        raise InputError(
            f"message from {sender} has shape {np.shape(message)}; "
            f"it must be one vector of {width} values per pull"
        )
    if not all_finite(message):
        raise InputError(f"message from {sender} has values that are not finite")
    return np.reshape(message, (-1, width))


def check_arms(arms: Vector, num_arms: int, source: str) -> None:
    strange = arms[(arms < 0) | (arms >= num_arms) | (arms != np.floor(arms))]
    if strange.size:
        raise InputError(
            f"{source} tells of arm {strange[0]:g}; arms are numbered 0 to {num_arms - 1}"
        )


BITS = 52
"""Flags in one value: whole numbers up to 2^53 are exact."""


def flag_values(flags: int) -> int:
    return -(-flags // BITS)


def is_set(row: Any, flag: int) -> bool:
    return bool((row[flag // BITS] >> (flag % BITS)) & 1 == 1)


def set_flag(row: Any, flag: int) -> None:
    row[flag // BITS] |= 1 << (flag % BITS)


def write_flags(flags: Any, out: Any) -> int:
    """Write flags, each 0 or 1, into a message; return how many values that takes."""
    values, bit = 0, 1.0
    for k in range(flags.size):
        if k % BITS == 0:
            out[values], bit = 0.0, 1.0
            values += 1
        out[values - 1] += bit * flags[k]
        bit *= 2.0
    return values


def has_flag(values: Any, flag: int) -> bool:
    return bool(math.floor(values[flag // BITS] / 2.0 ** (flag % BITS)) % 2 == 1)


ROUNDING = 1e-9
"""Counts are whole, and (1 + β) times a count is not."""


def require_lazy(lazy: float, forgets: bool) -> None:
    """Check that β is at least 0, and 0 where totals do not only grow."""
    accepted = "a finite number from 0 on, such as 0.1"
    require_number("lazy", lazy, accepted, -math.ulp(0.0), math.inf)
    if lazy and forgets:
        raise InputError(
            f"lazy is {lazy:g} where older pulls are forgotten, and totals that do not grow would "
            "never be sent again; leave one of them out"
        )


def has_grown(pulls: Any, told: Any, lazy: float) -> Any:
    """Return whether pulls have grown enough since they were told; of arrays one by one."""
    return pulls - told >= lazy * told + 1.0 - ROUNDING
