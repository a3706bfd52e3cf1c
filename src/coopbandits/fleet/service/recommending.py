"""Which option won, and how sure is that: an agent's recommendation in the application's words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core import recommend
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.fleet.service import Recommendation

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate
    from coopbandits.fleet.service.bandit import ServedBandit


def recommendation(service: ServedBandit, confidence: float) -> Recommendation:
    """Return what an agent would recommend now."""
    policy, scale, totals = service.declared.policy_object, service.scale, service.totals()
    if reason := recommend.obstacle(policy.parts if policy.plays_parts else None):
        return _best_mean(service, totals, confidence, reason)
    found = recommend.recommend(totals, scale.sigma, confidence)
    if found.pulls <= 0.0:
        return _nothing_known(confidence)
    arm = service.names[found.arm]
    lead = found.lead * (scale.high - scale.low)
    if not math.isfinite(lead):
        said = f"{arm} has the best mean so far, but of some option no reward is known of yet."
        return Recommendation(arm, None, found.pulls, confidence, False, said)
    said = _sentence(arm, lead, found)
    return Recommendation(arm, lead, found.pulls, confidence, lead > 0.0, said)


def _best_mean(
    service: ServedBandit, totals: Estimate, confidence: float, reason: str
) -> Recommendation:
    """Name the option with the best mean, of which nothing can be claimed for a reason."""
    recommend.require_confidence(confidence)
    known = totals.counts > NO_INFORMATION * totals.num_agents
    if not known.any():
        return _nothing_known(confidence)
    means = totals.sums[known] / totals.counts[known]
    arm = service.names[int(np.flatnonzero(known)[means.argmax()])]
    said = f"{arm} has the best mean so far; how sure that is cannot be stated, since {reason}."
    return Recommendation(arm, None, float(totals.counts.sum()), confidence, False, said)


def _nothing_known(confidence: float) -> Recommendation:
    return Recommendation(None, None, 0.0, confidence, False, "No reward is known of yet.")


def _sentence(arm: str, lead: float, found: recommend.Recommendation) -> str:
    sure = f"with {100 * found.confidence:.4g} % confidence after {found.pulls:.0f} rewards"
    if lead > 0.0:
        return f"{arm} is best: {sure}, its mean is at least {lead:.3g} above that of any other."
    return (
        f"{arm} has the best mean so far, but it is too early to tell: {sure}, another option's "
        f"may be up to {-lead:.3g} higher."
    )
