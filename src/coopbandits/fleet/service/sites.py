"""Whether sites are alike: what an agent that knows others one by one can say of that."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coopbandits.core.aggregate.pooling import Scatter
from coopbandits.fleet.service import Metric
from coopbandits.fleet.service.catalogue import measured

if TYPE_CHECKING:
    from coopbandits.fleet.service.bandit import ServedBandit


def scatter(service: ServedBandit) -> Scatter | None:
    """Return how much sites differ, with the spread in the application's rewards; None: unknown."""
    ask, scale = getattr(service.replica.agent, "scatter", None), service.scale
    found: Scatter | None = ask(scale.bounded) if ask is not None else None
    if found is None or math.isnan(found.ratio):
        return None
    return found._replace(spread=found.spread * (scale.high - scale.low))


def site_metrics(service: ServedBandit | None) -> list[Metric]:
    """Return how much sites differ, without a value where nobody knows, or there is no one."""
    found = scatter(service) if service is not None else None
    if found is None:
        return [measured("site_ratio"), measured("site_spread")]
    return [measured("site_ratio", ({}, found.ratio)), measured("site_spread", ({}, found.spread))]


def warning(service: ServedBandit) -> str:
    """Return a sentence where everything is pooled although sites differ, else nothing."""
    found, parts = scatter(service), service.declared.policy_object.parts
    pools = parts is not None and getattr(parts.aggregation, "spread", None) is None
    if found is None or not pools or not found.differs:
        return ""
    return (
        f"sites differ: their means scatter {found.ratio:.3g} times as much as by chance, with a "
        f"spread of {found.spread:.2g}, so pooling them may hurt; compare a policy with "
        "spread=estimate"
    )
