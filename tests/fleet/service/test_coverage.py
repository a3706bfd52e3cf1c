"""How often the 95 % intervals of `/arms` hold what an option pays.

When an option is chosen depends on what it paid before: one that was unlucky is dropped, and its
mean stays too low. So such intervals hold a little less often than 95 %.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from coopbandits.core.draws import normals, stream_key, uniforms, words
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.service.bandit import ServedBandit
from tests.torture.world import World

from ..bandits import only
from ..contexts import ARMS, EXACT, asked, paid, told

QUICK, FULL = 40, 2000
CASES = [QUICK, pytest.param(FULL, marks=pytest.mark.slow)]
MEANS = {"red": 0.5, "green": 0.3, "blue": 0.2}
POLICIES = ["flood-ts:family=gaussian", "flood-ucb", "flood-ts:family=bernoulli"]


def serve(bandit: BanditConfig, case: int) -> ServedBandit:
    """Return a single agent, which chooses differently in every case."""
    world = World(bandit, nx.empty_graph(1))
    tape = iter(words(stream_key(case, 1), np.arange(1000, dtype=np.uint64)).tolist())
    return world.service(0, tape.__next__).bandit(bandit.name)


def variates(case: int, kind: Any, number: int) -> NDArray[np.float64]:
    found: NDArray[np.float64] = kind(
        words(stream_key(case, 2), np.arange(number, dtype=np.uint64))
    )
    return found


def holds(service: ServedBandit, means: dict[str, float], **asking: Any) -> list[float]:
    """Return for every option whether its interval holds its mean; NaN where there is none."""
    found = [(arm.confidence, means[arm.arm]) for arm in service.arms(**asking)]
    return [np.nan if ends is None else float(ends[0] <= m <= ends[1]) for ends, m in found]


def require_coverage(held: list[list[float]], least: float) -> None:
    """Check every option's share; three standard errors are granted, 0.014 of 2000 cases."""
    shares = np.nanmean(held, axis=0)
    print(f"{len(held)} cases: {shares.round(3)}")
    assert (shares >= least - 3 * np.sqrt(0.95 * 0.05 / len(held))).all()


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("policy", POLICIES)
def test_intervals_hold_the_mean_of_an_option(policy: str, cases: int) -> None:
    binary = "bernoulli" in policy
    more: Any = {"reward_range": (0.0, 1.0)} if binary else {"sigma": 1.0}
    held, pulls = [], 30
    for case in range(cases):
        service = serve(only(policy, tuple(MEANS), epoch=1_790_000_000, **more), case)
        for x in variates(case, uniforms if binary else normals, pulls).tolist():
            choice = service.choose()
            mean = MEANS[choice.arm]
            service.observe(choice.ticket, float(x < mean) if binary else mean + x)
        held.append(holds(service, MEANS))
    require_coverage(held, 0.92)


@pytest.mark.parametrize("cases", CASES)
def test_intervals_hold_what_an_option_pays_in_a_context(cases: int) -> None:
    """Rewards of 0 and 1, whose means are linear in the features."""
    held, context = [], {"country": "PT", "hour": 12.0}
    means = {arm: paid(context, arm) for arm in ARMS}
    for case in range(cases):
        service = serve(told(EXACT[0]), case)
        for number, x in enumerate(variates(case, uniforms, 40).tolist()):
            asks = asked(number)
            choice = service.choose(context=asks)
            service.observe(choice.ticket, float(x < paid(asks, choice.arm)))
        held.append(holds(service, means, context=context))
    require_coverage(held, 0.93)
