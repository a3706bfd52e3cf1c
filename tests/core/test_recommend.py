"""Recommendations: the bound by hand, what is refused, and that it holds at all times."""

from __future__ import annotations

import math

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core.draws import normals, words
from coopbandits.core.recommend import leader, obstacle, recommend
from coopbandits.core.registry import EXAMPLES, parse_policy

from .fleet import make_agent, one_view
from .statistic.own import SkewUCB


def estimate(sums: list[float], counts: list[float]) -> cb.Estimate:
    """Certain of these pulls, and playing on twice as many."""
    certain = cb.Share(np.array(sums), np.array(counts))
    return cb.Estimate(
        2.0 * certain.sums, 2.0 * certain.counts, 2.0 * sum(counts), 1.0, certain=certain
    )


def test_the_lead_is_that_of_the_formula() -> None:
    sums, counts, sigma, delta = [60.0, 30.0, 9.0], [100.0, 60.0, 40.0], 0.5, 0.05
    arm, lead = leader(sums, counts, sigma, delta)
    s = 200.0

    def radius(n: float) -> float:
        union = 3 * s * (s + 1) / delta
        return sigma / n * math.sqrt((n + 1) * (math.log(n + 1) + 2 * math.log(union)))

    others = max(0.5 + radius(60.0), 0.225 + radius(40.0))
    assert arm == 0
    assert lead == pytest.approx(0.6 - radius(100.0) - others)


def test_an_arm_of_which_nothing_is_known_may_be_the_best() -> None:
    assert recommend(estimate([9.0, 0.0], [10.0, 0.0]), 1.0).lead == -math.inf
    assert recommend(estimate([0.0, 0.0], [0.0, 0.0]), 1.0)[:3] == (0, -math.inf, 0.0)


def test_means_below_zero_are_means_too() -> None:
    found = recommend(estimate([-9e4, -1e4], [1e4, 1e4]), 1.0, confidence=0.9)
    assert found.arm == 1
    assert 7.0 < found.lead < 8.0
    assert (found.pulls, found.confidence) == (2e4, 0.9)


def test_more_confidence_is_a_smaller_lead() -> None:
    known = estimate([900.0, 100.0], [1000.0, 1000.0])
    leads = [recommend(known, 0.5, c).lead for c in (0.5, 0.9, 0.99, 0.9999)]
    assert leads == sorted(leads, reverse=True)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, math.nan, "sure", True])
def test_what_is_no_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(cb.InputError, match=f"confidence.* {confidence!r}"):
        recommend(estimate([1.0, 0.0], [1.0, 1.0]), 1.0, confidence)


def test_an_agent_recommends_what_its_pulls_say() -> None:
    agent = make_agent(cb.FloodTS(), one_view())
    for _ in range(500):
        for arm in range(agent.view.num_arms):
            agent.observe(arm, 4.0 if arm == 1 else 0.0)
    before = agent.export_state()
    found = agent.recommend()
    assert found.arm == 1
    assert 3.0 < found.lead < 4.0
    assert agent.export_state() == before


def test_what_mixes_or_forgets_states_no_confidence() -> None:
    agent = make_agent(cb.GossipTS(), one_view())
    with pytest.raises(cb.InputError, match=r"pull-mixing.*flood-ts"):
        agent.recommend()
    with pytest.raises(cb.InputError, match="flood-ts"):
        recommend(agent.estimate(), 1.0)

    for spec in (cb.FloodedTotals(discount=0.99), cb.FloodedTotals(window=50)):
        assert "forgets" in obstacle(cb.Parts(spec, cb.UCB()))
    for text, reason in (
        ("tree-ts", "more than once"),
        ("flood-ts:lazy=0.1", "lets rewards decide"),
        ("flood-ts:spread=0.1", "the pulls of others in parts"),
        ("neighborhood-sums:exploring=true*ucb", "lets rewards decide"),
    ):
        assert reason in obstacle(parse_policy(text).parts)
    assert "not made of parts" in obstacle(None)
    assert "depends on the context" in obstacle(parse_policy("tree-sums*lin-ts").parts)
    assert "no means of arms" in obstacle(cb.Parts(cb.FloodedTotals(), SkewUCB()))


def test_who_states_a_confidence() -> None:
    """A policy that joins the list must certify distinct pulls."""
    certain = {
        parse_policy(text).name for text in EXAMPLES if not obstacle(parse_policy(text).parts)
    }
    assert certain == {
        "central-batched-ucb", "central-ts", "central-ucb", "coop-se", "delayed-central-ucb",
        "flood-ts", "flood-ucb", "independent-ts", "independent-ucb", "ledger-ts",
        "ledger-ucb", "mp-ucb", "ucb-network",
    }  # fmt: skip


@pytest.mark.parametrize("paths", [400, pytest.param(2000, marks=pytest.mark.slow)])
def test_the_bound_holds_at_all_times_together(paths: int) -> None:
    """Arms of equal means, looked at again and again, must hardly ever be told apart."""
    looks, delta = 1000, 0.2
    drawn = normals(words(5, np.arange(2 * paths * looks, dtype=np.uint64)))
    rewards = drawn.reshape(2, paths, looks).cumsum(axis=2)
    counts = np.arange(1.0, looks + 1)
    wrong = sum(
        any(
            leader([a, b], [n, n], 1.0, delta)[1] > 0.0
            for a, b, n in zip(*rewards[:, path, ::25], counts[::25], strict=True)
        )
        for path in range(paths)
    )
    assert wrong <= delta * paths
