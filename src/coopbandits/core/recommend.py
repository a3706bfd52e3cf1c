r"""Which arm is best, and how sure an agent is: a recommendation that may be asked for at any time.

It rests on `Estimate.certain`, a set of distinct pulls. With :math:`\hat\mu_k` the mean of its
:math:`n_k` pulls of arm k, and s all of its pulls,

.. math:: c_k = \frac{σ}{n_k}\sqrt{(n_k + 1)\left(\ln(n_k + 1) + 2\ln\frac{K s(s + 1)}{δ}\right)}

is a radius around the mean, for every arm and every s at once, with probability 1 − δ. For one set
of pulls this is the bound on self-normalised martingales (Abbasi-Yadkori, Pál, Szepesvári 2011).
The sets that an agent certifies one after another are a union over s: each has at least one pull
more than the one before, so the m-th has s ≥ m, and 1/(s(s + 1)) adds up to at most 1. So an agent
may look as often as it likes, and stop when it likes.

The bound requires that

- rewards of an arm have one mean and a variance proxy of at most σ²;
- a pull is in the set once or not at all, and the sums are over exactly that set;
- a set that replaces another one has more pulls, also where it does not contain it;
- which pulls are in the set does not depend on their rewards.

Totals that agents play on need not meet them: a tree counts pulls twice while it is rebuilt,
and averages that are mixed count them in parts. An agent that loses its memory begins again with an
empty set, so the confidence is that of one memory.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coopbandits.core.checks import require_number
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate
    from coopbandits.core.policy import Parts

CONFIDENCE = 0.95
"""Unless another one is asked for."""

ALTERNATIVES = (
    "a policy whose agents know which pulls they count, such as flood-ts, ledger-ts or "
    "independent-ts"
)


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
        Distinct pulls of all arms that it rests on.
    confidence : float
        With which probability the bound holds, at all times together.
    """

    arm: int
    lead: float
    pulls: float
    confidence: float


def leader(sums: Any, counts: Any, sigma: float, delta: float) -> tuple[int, float]:
    """Return the arm with the best mean, and a lower bound on its lead over every other one.

    Plain arithmetic on floats: compiled engines are made of this very function.
    """
    num_arms, pulls = len(counts), 0.0
    arm, best = 0, -math.inf
    for k in range(num_arms):
        pulls += counts[k]
        if counts[k] > 0.0 and sums[k] / counts[k] > best:
            arm, best = k, sums[k] / counts[k]
    union = 2.0 * math.log(num_arms * max(1.0, pulls) * (pulls + 1.0) / delta)
    floor, ceiling = -math.inf, -math.inf
    for k in range(num_arms):
        count = counts[k]
        if count <= 0.0:
            ceiling = math.inf
            continue
        radius = sigma / count * math.sqrt((count + 1.0) * (math.log(count + 1.0) + union))
        if k == arm:
            floor = best - radius
        else:
            ceiling = max(ceiling, sums[k] / count + radius)
    return arm, floor - ceiling


def recommend(estimate: Estimate, sigma: float, confidence: float = CONFIDENCE) -> Recommendation:
    """Return what the certified pulls recommend, for rewards with variance proxy σ²."""
    require_confidence(confidence)
    if estimate.certain is None:
        raise InputError(
            "the estimate certifies no pulls (certain is None), so no confidence can be stated; "
            f"use {ALTERNATIVES}"
        )
    sums, counts = (np.asarray(each).tolist() for each in estimate.certain)
    arm, lead = leader(sums, counts, sigma, 1.0 - confidence)
    return Recommendation(arm, lead, sum(counts), float(confidence))


def obstacle(parts: Parts | None) -> str:
    """Return why no confidence can be stated for a policy, as a clause; "" where it can."""
    if parts is None:
        return "it is not made of parts alone, so it is unknown which rewards its agents count"
    if parts.statistic.takes_context:
        return "the best arm depends on the context"
    if parts.aggregation.forgets or parts.statistic.registers(2).decay != 1.0:
        return "it forgets, and what was forgotten may have said otherwise"
    if reason := parts.aggregation.uncertified:
        return f"{parts.aggregation.spelling} {reason}"
    if parts.statistic.registers(2).layout is None:
        return f"its statistic {parts.statistic.spelling} has no means of arms"
    return ""


def require_certain(what: str, parts: Parts | None) -> None:
    """Reject a policy for which no confidence can be stated."""
    if reason := obstacle(parts):
        raise InputError(f"{what} states no confidence: {reason}; use {ALTERNATIVES}")


def require_confidence(confidence: float) -> None:
    """Check that the confidence lies strictly between 0 and 1."""
    require_number(
        "confidence", confidence, "a probability between 0 and 1, such as 0.95", 0.0, 1.0
    )
