"""Decisions as they are logged: propensities that are true, and a floor that holds."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from coopbandits import DDUCB, CentralTS, GaussianBandit, InputError, Network, parse_policy
from coopbandits.core import LocalView
from coopbandits.core.draws import word_at
from coopbandits.core.index.index import Draws
from coopbandits.evaluate import SupportWarning, ips, log_decisions
from coopbandits.evaluate.propensities import probabilities, winning

from .worlds import BEST, PROBLEM, best_arm

pytestmark = pytest.mark.plays

CYCLE = Network.from_spec("cycle:4")
DRAWN = parse_policy("flooded-totals*lin-ts:disjoint=true")


def test_one_over_the_chance_counts_every_arm_once() -> None:
    """Whatever the policy learns meanwhile: E[1{a = k}/p] is 1 for every arm."""
    log = log_decisions(PROBLEM, CYCLE, DRAWN, 250, floor=0.3)
    assert log.propensities.min() >= 0.3 / 3 - 1e-12
    for arm in range(3):
        terms = (log.arms == arm) / log.propensities
        assert abs(terms.mean() - 1.0) < 4 * terms.std() / np.sqrt(len(log))
    found = ips(log, best_arm)
    assert abs(found.mean - BEST) < 4 * found.error


def test_the_log_holds_what_happened() -> None:
    log = log_decisions(PROBLEM, CYCLE, DRAWN, 20, seed=3)
    assert len(log) == 80
    assert log.times.tolist() == [t for t in range(20) for _ in range(4)]
    assert log.agents.tolist() == [0, 1, 2, 3] * 20
    means = PROBLEM.expected(log.features)
    noise = log.rewards - means[np.arange(80), log.arms]
    assert abs(noise.std() - 0.3) < 0.1
    assert log.propensities.min() >= 0.1 / 3 - 1e-12  # the floor unless given
    assert len(np.unique(log.propensities)) > 40  # integrated
    shared = log_decisions(PROBLEM, CYCLE, "local-sums*top-two", 20, floor=0.0)
    assert np.allclose(shared.propensities * 20, np.round(shared.propensities * 20))  # counted


def test_a_policy_without_chance_is_certain() -> None:
    log = log_decisions(GaussianBandit([1, 0]), CYCLE, DDUCB(), 10, floor=0.0)
    assert set(log.propensities) == {1.0}
    assert log.num_features == 0
    floored = log_decisions(GaussianBandit([1, 0]), CYCLE, DDUCB(), 40, floor=0.5)
    assert np.isclose(np.unique(floored.propensities), [0.25, 0.75]).all()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"draws": 0}, r"draws.* 0\b"),
        ({"floor": 1.5}, r"floor.* 1\.5.* 0 to 1"),
        ({"policy": CentralTS()}, "central-ts"),
    ],
)
def test_bad_settings_are_refused(more: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        log_decisions(
            **({"problem": PROBLEM, "network": CYCLE, "policy": DRAWN, "horizon": 3} | more)
        )


def test_problem_network_and_policy_may_be_texts() -> None:
    told = log_decisions(GaussianBandit([1.0, 0.5]), CYCLE, parse_policy("flood-ts"), 5)
    found = log_decisions("gaussian:means=1,0.5", "cycle:4", "flood-ts", 5)
    assert np.array_equal(found.rewards, told.rewards)
    assert np.array_equal(found.propensities, told.propensities)


@pytest.mark.parametrize(
    ("draws", "expected"),
    [
        (Draws("normal", np.array([0.3, 0.3]), np.array([1.0, 0.01])), [0.5, 0.5]),
        # P(X > Y) = Φ((m − n)/√(s² + t²)): Φ(0.2), and far in the tail Φ(−6).
        (Draws("normal", np.array([1.0, 0.0]), np.array([3.0, 4.0])), [0.5792597094, 0.4207402906]),
        (Draws("normal", np.array([0.0, 6.0]), np.array([0.6, 0.8])), [9.865876450e-10, 1.0]),
        # One uniform against Beta(1, 50), whose mean is 1/51; and three that are the same.
        (Draws("beta", np.array([1.0, 1.0]), np.array([1.0, 50.0])), [50 / 51, 1 / 51]),
        (Draws("beta", np.full(3, 40.0), np.full(3, 60.0)), [1 / 3] * 3),
    ],
)  # fmt: skip
def test_probabilities_are_integrated(draws: Draws, expected: list[float]) -> None:
    found = winning(draws)
    assert found is not None
    assert np.allclose(found, expected, rtol=1e-5, atol=0.0)


def test_only_allowed_arms_win_and_equal_values_are_left_to_rounding() -> None:
    draws = Draws("normal", np.array([9.0, 0.0, 0.0]), np.ones(3))
    assert np.allclose(cast("Any", winning(draws, [2, 1])), [0.0, 0.5, 0.5])
    assert winning(Draws("normal", np.zeros(2), np.array([1.0, 0.0]))) is None


@pytest.mark.parametrize("index", ["normal-draw", "centred-draw", "beta-draw"])
def test_integrated_probabilities_are_those_of_choices(index: str) -> None:
    agent: Any = parse_policy(f"local-sums*{index}").make_agent(  # type: ignore[attr-defined]  # it has agents
        LocalView(0, 1.0, {}, num_arms=3, sigma=0.5)
    )
    for at in range(40):
        agent.observe(at % 3 if at < 12 else 0, 0.3 + 0.2 * (at % 3))
    exact = probabilities(agent, 5, 1, None, None)
    words = [word_at(11, at) for at in range(6000)]
    counted = np.bincount([agent.would_choose(word) for word in words], minlength=3) / 6000
    assert (exact > 0.01).all()
    assert (abs(exact - counted) < 4.5 * np.sqrt(exact * (1 - exact) / 6000)).all()


def test_the_default_log_carries_estimates_that_one_without_a_floor_does_not() -> None:
    problem, first = GaussianBandit([0.6, 1.0, 1.2], sigma=0.5), np.tile([1.0, 0.0, 0.0], (400, 1))
    found = ips(log_decisions(problem, CYCLE, "flood-ts", 100), first)
    assert found.low < 0.6 < found.high
    bare = log_decisions(problem, CYCLE, "flood-ts", 100, floor=0.0)
    with pytest.warns(SupportWarning, match="floor"):
        ips(bare, first)


def test_agents_with_their_own_rule_are_logged() -> None:
    log = log_decisions(GaussianBandit([1.0, 0.5]), CYCLE, "exp3-coop", 10)
    assert len(log) == 40
    assert ((log.propensities > 0.04) & (log.propensities <= 1.0)).all()
