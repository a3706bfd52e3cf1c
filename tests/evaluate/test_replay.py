"""Policies that learn from a log, against the same policies in the world."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits import CentralTS, InputError, Network, parse_policy
from coopbandits.core import Index, LocalSums, combine
from coopbandits.evaluate import replay

from .worlds import BEST, MEANS, drawn

pytestmark = pytest.mark.plays


class Second(Index):
    """Plays the second arm."""

    name = "second"

    @staticmethod
    def value(arm, estimate, word, numbers, scratch) -> float:  # type: ignore[no-untyped-def]  # kept short
        return float(arm == 1)


@pytest.mark.parametrize("chances", [[1 / 3] * 3, [0.6, 0.2, 0.2]], ids=["even", "skewed"])
def test_a_policy_that_learns_nothing_has_its_mean(chances: list[float]) -> None:
    log = drawn(4000, chances)
    found = replay(log, combine(LocalSums(), Second()))
    assert abs(found.mean - MEANS[:, 1].mean()) < 4 * found.error
    assert abs(found.effective - 4000 * min(chances)) < 120  # what is thinned out is gone


def test_a_policy_that_looks_at_features_nears_the_best() -> None:
    log = drawn(3000, [1 / 3] * 3)
    linear = replay(log, parse_policy("local-sums*lin-ts:disjoint=true"), sigma=0.3)
    blind = replay(log, parse_policy("independent-ts"), sigma=0.3)
    assert linear.mean > blind.mean + 0.1
    assert abs(linear.mean - BEST) < 0.05
    assert 900 < linear.effective < 1100


def test_agents_that_talk_learn_sooner() -> None:
    log = drawn(900, [1 / 3] * 3, seed=5)
    network = Network.from_spec("cycle:15")
    together, alone = (
        replay(log, parse_policy(f"{spread}*lin-ts:disjoint=true"), network, sigma=0.3)
        for spread in ("flooded-totals", "local-sums")
    )
    assert together.mean > alone.mean + 0.05
    assert np.isfinite(together.error)


def test_bad_input_is_refused() -> None:
    log = drawn(9, [1 / 3] * 3)
    with pytest.raises(InputError, match="give one that is made of parts and has agents"):
        replay(log, CentralTS())  # it is refused
    never = drawn(9, [1.0, 0.0, 0.0])
    with pytest.raises(InputError, match=r"chose none of the 9 logged arms"):
        replay(never, combine(LocalSums(), Second()))


def test_policy_and_network_may_be_texts() -> None:
    log = drawn(60, [1 / 3] * 3)
    told = replay(log, parse_policy("flood-ts"), Network.from_spec("cycle:3"))
    assert replay(log, "flood-ts", "cycle:3") == told
    with pytest.raises(InputError, match="network is 3; wrap a graph as"):
        replay(log, "flood-ts", 3)  # type: ignore[arg-type]  # what is to be refused
