"""Lazy sending: totals are told again only once they have grown enough to matter.

What is cumulative may be told late: silence is only a delay. With `lazy` β, totals are news once
some arm has at least (1 + β) times as many pulls as when they were told last, and one more. Whoever
reads them knows of at least 1/(1 + β) of the pulls of every arm, less one, so a bonus grows by at
most the root of 1 + β; and they are told O(K log T) times instead of T times. In a flood this holds
for every agent's own totals, which others pass on as they are. On a tree every agent tells sums,
and holds them back anew: it holds for every hop.

*Differs from the paper*: ComEx (Madhushani, Leonard 2021) tells single pulls, those of arms other
than the best one; totals carry all pulls, and tell of them by and by.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from coopbandits.core.checks import require_number
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from coopbandits.core.aggregate.aggregation import AnyAggregation
    from coopbandits.core.statistic import Registers

ROUNDING = 1e-9
"""Counts are whole, and (1 + β) times a count is not."""


def require_lazy(spec: AnyAggregation, lazy: float) -> None:
    """Refuse a β below 0, and one for totals that do not only grow."""
    accepted = "a finite number from 0 on, such as 0.1"
    require_number("lazy", lazy, accepted, -math.ulp(0.0), math.inf)
    if lazy and spec.forgets:
        raise _shrinking(lazy)


def require_growth(lazy: float, registers: Registers) -> None:
    """Refuse a statistic whose totals do not only grow."""
    if lazy and registers.decay != 1.0:
        raise _shrinking(lazy)


def _shrinking(lazy: float) -> InputError:
    return InputError(
        f"lazy is {lazy:g} where older pulls are forgotten, and totals that do not grow would "
        "never be told again; leave one of them out"
    )


def has_grown(pulls: Any, told: Any, lazy: float) -> Any:
    """Return whether pulls have grown enough since they were told; of arrays one by one."""
    return pulls - told >= lazy * told + 1.0 - ROUNDING
