"""Squared rewards per arm: UCB-V compiled on every aggregation, by hand, and in messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core.contract import Estimate
from coopbandits.core.draws import uniforms
from coopbandits.core.statistic import Statistic
from coopbandits.sim.tapes import REWARDS, agent_keys, tape_words

PROBLEM = cb.BetaBandit([4.0, 0.4, 2.0], [4.0, 0.5, 3.0])
NETWORK = cb.Network.from_spec("cycle:5")


@dataclass(frozen=True)
class UCBV(cb.Index):
    """As in the documentation."""

    name: ClassVar[str] = "ucb-v"
    random: ClassVar[bool] = False

    @property
    def statistic(self) -> Statistic:
        return cb.ArmSums(squares="arms")

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        count = estimate.counts[arm]
        if count <= 1e-12 * estimate.num_agents:
            return math.inf
        mean, level = estimate.sums[arm] / count, 1.2 * math.log(estimate.time) / count
        variance = max(0.0, estimate.squares[arm] / count - mean**2 - 1e-12)
        return float(mean + math.sqrt(2.0 * variance * level) + 3.0 * level)


def play(policy: Any, engine: str, horizon: int = 60, **more: Any) -> cb.Result:
    return cb.simulate(
        PROBLEM, NETWORK, policy, horizon, 2, 3, engine, keep="arms", progress=False, **more
    )


def check(policy: Any, engine: str = "cpu", **more: Any) -> None:
    expected, found = play(policy, "reference", **more), play(policy, engine, **more)
    assert found.meta["engines"] == [engine]
    np.testing.assert_array_equal(found.arms, expected.arms)
    np.testing.assert_array_equal(found.values_sent, expected.values_sent)


def test_compiled() -> None:
    check(cb.combine(cb.RunningConsensus(), UCBV()))


CASES: dict[str, Any] = {
    "flooded": cb.FloodedTotals(),
    "pulls": cb.FloodedPulls(),
    "staged, neighbours": cb.StagedMixing(neighbor_pulls=True),
    "forgetting": cb.FloodedTotals(discount=0.9),
    "central, at once": cb.CentralTotals(None),
}  # fmt: skip


@pytest.mark.covering(4)
@pytest.mark.plays
@pytest.mark.parametrize("aggregation", CASES)
def test_compiled_on_every_aggregation(aggregation: str) -> None:
    check(cb.combine(CASES[aggregation], UCBV()))


@pytest.mark.plays
def test_with_faults() -> None:
    check(cb.combine(cb.TreeSums(), UCBV()), faults="loss=0.2,sleep=0.1")


def test_by_hand() -> None:
    """The arms of an agent by itself follow from its own rewards, as the paper says."""
    result = play(cb.combine(cb.LocalSums(), UCBV()), "cpu", 200)
    tape = tape_words(agent_keys(3, REWARDS, 0, 5), 0, 200)[2]
    pay = PROBLEM.payer(PROBLEM.kernel_form().table)
    rewards: list[list[float]] = [[], [], []]
    for t, arm in enumerate(result.arms.values[0, 0, 2].tolist()):
        bounds = []
        for paid in rewards:
            level = 1.2 * math.log(max(2, t)) / max(1, len(paid))
            bound = (
                float(np.mean(paid)) + math.sqrt(2 * np.var(paid) * level) + 3 * level
                if paid
                else 9e9
            )
            bounds.append(bound)
        assert arm == int(np.argmax(bounds)), t
        rewards[arm].append(pay(arm, float(uniforms(tape[t : t + 1])[0])))


@pytest.mark.parametrize(("squares", "more"), [("none", 0), ("pooled", 1), ("arms", 3)])
def test_what_squares_cost_in_messages(squares: str, more: int) -> None:
    registers = cb.ArmSums(squares).registers(3)
    assert cb.RunningConsensus().message_size(registers, 10).most == 6 + more


@pytest.mark.slow
@pytest.mark.plays
def test_agents_keep_the_contract() -> None:
    """Export and restore, lost and repeated messages, arms that come and go."""
    for aggregation in (cb.FloodedTotals(), cb.TreeSums()):
        cb.check_policy(cb.combine(aggregation, UCBV()), rounds=20)


@pytest.mark.plays
def test_agents_stop_on_counts_and_not_on_squares() -> None:
    """Squares follow the counts in a row, and are no pulls of further arms."""
    cases = [
        (PROBLEM, cb.combine(cb.LocalSums(), UCBV()), 0.5),
        (
            cb.GaussianBandit([9.0, 0.1, 0.2]),
            cb.parse_policy("flooded-totals*centred-draw:sigma=estimate"),
            0.9,
        ),
    ]
    for problem, policy, stop in cases:
        first, second = (
            cb.simulate(problem, NETWORK, policy, 120, 2, 3, engine, stop=stop, progress=False)
            for engine in ("reference", "cpu")
        )
        assert second.meta["engines"] == ["cpu"]
        np.testing.assert_array_equal(second.stops.stop_round, first.stops.stop_round)
    assert (first.stops.stop_round >= 0).all(), "the last ones stop"
