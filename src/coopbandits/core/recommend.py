r"""Which arm is best, and how sure an agent is: a recommendation that may be asked for at any time.

With :math:`\hat\mu_k` the mean of the :math:`n_k` pulls known of arm k, and s all pulls known,

.. math:: c_k = \frac{σ}{n_k}\sqrt{(n_k + 1)\left(\ln(n_k + 1) + 2\ln\frac{K s(s + 1)}{δ}\right)}

is a radius around the mean, for every arm and every s at once, with probability 1 − δ. For one set
of pulls this is the bound on self-normalised martingales (Abbasi-Yadkori, Pál, Szepesvári 2011).
The sets that an agent knows one after another are a union over s, since each has at least one pull
more than the one before. So an agent may look as often as it likes, and stop when it likes.

It holds where rewards of an arm have one mean and a variance proxy of at most σ², where a pull
counts once or not at all, and where what arrives when does not depend on rewards. Averages that
are mixed count pulls in parts, and forgetting voids it: those are refused.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from coopbandits.core.checks import require_number
from coopbandits.core.choice import NO_INFORMATION, as_lists
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate
    from coopbandits.core.policy import Parts

CONFIDENCE = 0.95
"""Unless another one is asked for."""


class Recommendation(NamedTuple):
    """What an agent would recommend now.

    Attributes
    ----------
    arm : int
        The arm with the best mean so far; the lowest of those never pulled where none was.
    lead : float
        A lower bound on how far its mean is above that of every other arm; negative as long as
        another one may be better, −∞ as long as nothing is known of some arm.
    pulls : float
        Pulls of all arms behind it.
    confidence : float
        With which probability the bound holds, at all times together.
    """

    arm: int
    lead: float
    pulls: float
    confidence: float


def leader(estimate: Estimate, sigma: float, delta: float) -> tuple[int, float]:
    """Return the arm with the best mean, and a lower bound on its lead over every other one.

    Plain arithmetic on floats: compiled engines are made of this very function.
    """
    num_arms = len(estimate.counts)
    least = NO_INFORMATION * estimate.num_agents
    union = 2.0 * math.log(num_arms * estimate.time * (estimate.time + 1.0) / delta)
    arm, best = 0, -math.inf
    for k in range(num_arms):
        if estimate.counts[k] > least and estimate.sums[k] / estimate.counts[k] > best:
            arm, best = k, estimate.sums[k] / estimate.counts[k]
    floor, ceiling = -math.inf, -math.inf
    for k in range(num_arms):
        count = estimate.counts[k]
        if count <= least:
            ceiling = math.inf
            continue
        radius = sigma / count * math.sqrt((count + 1.0) * (math.log(count + 1.0) + union))
        if k == arm:
            floor = best - radius
        else:
            ceiling = max(ceiling, estimate.sums[k] / count + radius)
    return arm, floor - ceiling


def recommend(estimate: Estimate, sigma: float, confidence: float = CONFIDENCE) -> Recommendation:
    """Return what an estimate recommends, for rewards with variance proxy σ²."""
    require_confidence(confidence)
    read = as_lists(estimate)
    arm, lead = leader(read, sigma, 1.0 - confidence)
    return Recommendation(arm, lead, sum(read.counts), float(confidence))


def obstacle(parts: Parts | None) -> str:
    """Return why no confidence can be stated for a policy, as a clause; "" where it can."""
    if parts is None:
        return "it is not made of parts, so nobody knows what its agents know"
    if parts.statistic.takes_context:
        return "the best arm depends on the context"
    if parts.aggregation.forgets or parts.statistic.registers(2).decay != 1.0:
        return "it forgets, and what was forgotten may have said otherwise"
    if not parts.aggregation.whole_pulls:
        return f"{parts.aggregation.spelling} counts pulls in parts"
    if parts.statistic.registers(2).layout is None:
        return f"its statistic {parts.statistic.spelling} has no means of arms"
    return ""


def require_certain(what: str, parts: Parts | None) -> None:
    """Refuse a policy for which no confidence can be stated."""
    if reason := obstacle(parts):
        raise InputError(
            f"{what} states no confidence: {reason}; take one that adds up whole pulls and forgets "
            "none, such as flood-ts, tree-ts or independent-ts"
        )


def require_confidence(confidence: float) -> None:
    """Refuse what is no probability to be sure with."""
    require_number(
        "confidence", confidence, "a probability between 0 and 1, such as 0.95", 0.0, 1.0
    )
