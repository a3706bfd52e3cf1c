"""Which option won, and how sure is that: an agent's recommendation in the application's words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coopbandits.core import recommend
from coopbandits.fleet.service import Recommendation

if TYPE_CHECKING:
    from coopbandits.fleet.service.application import ApplicationService


def recommendation(service: ApplicationService, confidence: float) -> Recommendation:
    """Return what an agent would recommend now."""
    scale, parts = service.scale, service.cluster.policy_object().parts
    found = recommend.recommend(service.totals(), scale.sigma, confidence)
    if found.pulls <= 0.0:
        return Recommendation(None, None, 0.0, confidence, False, "No reward is known of yet.")
    arm = service.names[found.arm]
    if reason := recommend.obstacle(parts):
        said = f"{arm} has the best mean so far; how sure that is cannot be told, since {reason}."
        return Recommendation(arm, None, found.pulls, confidence, False, said)
    lead = found.lead * (scale.high - scale.low)
    if not math.isfinite(lead):
        said = f"{arm} has the best mean so far, but of some option no reward is known of yet."
        return Recommendation(arm, None, found.pulls, confidence, False, said)
    said = _sentence(arm, lead, found)
    return Recommendation(arm, lead, found.pulls, confidence, lead > 0.0, said)


def _sentence(arm: str, lead: float, found: recommend.Recommendation) -> str:
    sure = f"with {100 * found.confidence:.4g} % confidence after {found.pulls:.0f} rewards"
    if lead > 0.0:
        return f"{arm} is best: {sure}, its mean is at least {lead:.3g} above that of any other."
    return (
        f"{arm} has the best mean so far, but it is too early to tell: {sure}, another option's "
        f"may be up to {-lead:.3g} higher."
    )
