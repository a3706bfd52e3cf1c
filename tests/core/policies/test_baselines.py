"""Independent and central UCBs and Thompson samplers against small ones written out here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from coopbandits.core import (
    CentralBatchedUCB,
    CentralPolicy,
    CentralTS,
    CentralUCB,
    DelayedCentralUCB,
    IndependentTS,
    IndependentUCB,
    InputError,
    LocalView,
)
from coopbandits.core.aggregate import Controller
from coopbandits.core.draws import betas, normals, uniforms, words

from ..fleet import (
    GRAPHS,
    decision_words,
    drive,
    gossip_matrix,
    make_agent,
    make_agents,
    one_view,
    rewards_tape,
)


def own_ucb(rewards: list[list[float]], num_arms: int, constant: float) -> list[int]:
    """μ̂ + sqrt(B ln t / n) on the agent's own t pulls, after one pull of every arm."""
    sums, counts, arms = [0.0] * num_arms, [0] * num_arms, []
    for t, row in enumerate(rewards):
        if t < num_arms:
            arm = t
        else:
            index = [
                sums[k] / counts[k] + math.sqrt(constant * math.log(t) / counts[k])
                for k in range(num_arms)
            ]
            arm = index.index(max(index))
        sums[arm] += row[arm]
        counts[arm] += 1
        arms.append(arm)
    return arms


@pytest.mark.parametrize("constant", [4.0, 0.5])
def test_every_agent_is_a_ucb_of_its_own(constant: float) -> None:
    rewards = rewards_tape(4, 200, 4)
    agents = make_agents(IndependentUCB(constant), gossip_matrix(GRAPHS["path-4"]), 4)
    run = drive(agents, rewards, 0, 200)
    for i in range(4):
        assert [row[i] for row in run.arms] == own_ucb(rewards[i].tolist(), 4, constant)
    assert len({tuple(row) for row in zip(*run.arms, strict=True)}) == 4
    assert set().union(*run.sizes) == {0}


def test_sigma_scales_the_bonus() -> None:
    rewards = rewards_tape(1, 200, 3)
    view = LocalView(agent_id=0, own_weight=1.0, neighbor_weights={}, num_arms=3, sigma=0.5)
    run = drive([make_agent(IndependentUCB(), view)], rewards, 0, 200)
    assert [row[0] for row in run.arms] == own_ucb(rewards[0].tolist(), 3, 2.0 * 0.25)


def test_nothing_needs_to_be_told() -> None:
    assert IndependentUCB().needs == frozenset()


@pytest.mark.parametrize("kind", [IndependentTS, CentralTS])
@pytest.mark.parametrize(
    ("family", "near"), [("gausian", "gaussian"), ("normal", None), ("bernouli", "bernoulli")]
)
def test_unknown_families_get_the_nearest(kind: Any, family: str, near: str | None) -> None:
    hint = f".*'{near}'" if near else ""
    with pytest.raises(InputError, match=f"'{family}'{hint}"):
        kind(family)


def test_independent_agents_need_nothing() -> None:
    assert IndependentTS().needs == frozenset()
    IndependentTS().make_agent(one_view(num_agents=None, lambda_bound=None))


def own_sampling(family: str, rewards: Any, decisions: Any) -> list[int]:
    """One agent's Thompson sampling, σ = 1, prior N(0, 1) or Beta(1, 1)."""
    num_arms = rewards.shape[1]
    s, n, arms = np.zeros(num_arms), np.zeros(num_arms), []
    for word, row in zip(decisions, rewards, strict=True):
        if family == "gaussian":
            z = normals(words(int(word), np.arange(num_arms, dtype=np.uint64)))
            theta = s / (1 + n) + z / np.sqrt(1 + n)
        else:
            theta = betas(int(word), 1 + s, 1 + n - s)
        arms.append(int(theta.argmax()))
        s[arms[-1]] += row[arms[-1]]
        n[arms[-1]] += 1
    return arms


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_every_independent_agent_samples_for_itself(family: str) -> None:
    rewards = rewards_tape(4, 150, 3)
    if family == "bernoulli":
        coins = uniforms(words(1, np.arange(rewards.size, dtype=np.uint64)))
        rewards = (coins.reshape(rewards.shape) < [0.3, 0.6, 0.5]).astype(np.float64)
    decisions = decision_words(4, 150)
    agents = make_agents(IndependentTS(family), gossip_matrix(GRAPHS["path-4"]), 3)
    run = drive(agents, rewards, 0, 150, decisions)
    for i in range(4):
        assert [row[i] for row in run.arms] == own_sampling(family, rewards[i], decisions[i])
    assert len({tuple(row) for row in zip(*run.arms, strict=True)}) == 4
    assert set().union(*run.sizes) == {0}


Tape = NDArray[np.float64]


def drive_central(controller: Controller, rewards: Tape, decisions: Any) -> list[list[int]]:
    """Arms per round; rewards[agent, pull, arm]."""
    arms = []
    for t in range(rewards.shape[1]):
        row = []
        for i in range(rewards.shape[0]):
            row.append(controller.choose(int(decisions[i, t])))
            controller.observe(row[-1], float(rewards[i, t, row[-1]]))
        controller.end_round()
        arms.append(row)
    return arms


def play(policy: CentralPolicy, rewards: Tape, sigma: float = 1.0) -> list[list[int]]:
    decisions = decision_words(*rewards.shape[:2])
    return drive_central(policy.make_controller(rewards.shape[2], sigma), rewards, decisions)


def ucb_arm(s: Any, n: Any, scale: float) -> int:
    """The first arm not seen, else the largest μ̂ + sqrt(scale ln(Σn) / n)."""
    if 0 in n:
        return list(n).index(0)
    total = max(2, sum(n))
    index = [s[k] / n[k] + math.sqrt(scale * math.log(total) / n[k]) for k in range(len(n))]
    return index.index(max(index))


def batched(rewards: Tape, scale: float, delay: int) -> list[list[int]]:
    """Everyone the same arm, by the statistics as they stood `delay` rounds before now."""
    agents, horizon, num_arms = rewards.shape
    arms: list[list[int]] = []
    for t in range(horizon):
        s, n = np.zeros(num_arms), np.zeros(num_arms)
        for old in range(t - delay):
            for i in range(agents):
                s[arms[old][i]] += rewards[i, old, arms[old][i]]
                n[arms[old][i]] += 1
        arm = t % num_arms if delay and 0 in n else ucb_arm(s.tolist(), n.tolist(), scale)
        arms.append([arm] * agents)
    return arms


@pytest.mark.parametrize("constant", [4.0, 0.5])
def test_sequential_ucb_knows_every_pull_before(constant: float) -> None:
    rewards = rewards_tape(4, 60, 3)
    s, n = [0.0] * 3, [0] * 3
    expected: list[list[int]] = []
    for t in range(60):
        expected.append([])
        for i in range(4):
            arm = ucb_arm(s, n, constant * 0.25)
            s[arm] += rewards[i, t, arm]
            n[arm] += 1
            expected[-1].append(arm)
    found = play(CentralUCB(constant), rewards, sigma=0.5)
    assert found == expected
    assert found[0] == [0, 1, 2, expected[0][3]]  # different arms within a round
    assert sum(n) == 240


@pytest.mark.parametrize("constant", [4.0, 40.0])
def test_batched_ucb(constant: float) -> None:
    rewards = rewards_tape(4, 80, 3)
    found = play(CentralBatchedUCB(constant), rewards, sigma=0.5)
    assert found == batched(rewards, constant * 0.25, delay=0)
    assert len({row[0] for row in found[3:]}) > 1


@pytest.mark.parametrize("delay", [1, 2, 7, 30])
def test_delayed_ucb_sees_what_is_exactly_so_many_rounds_older(delay: int) -> None:
    rewards = rewards_tape(3, 100, 4)
    found = play(DelayedCentralUCB(delay), rewards)
    assert found == batched(rewards, 2.0, delay)
    assert found != batched(rewards, 2.0, delay + 1)
    assert found != batched(rewards, 2.0, delay - 1)


def test_until_every_arm_is_seen_arms_are_played_in_turn() -> None:
    found = play(DelayedCentralUCB(5), rewards_tape(2, 12, 3))
    assert [row[0] for row in found[:8]] == [0, 1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_sampling_has_one_posterior_and_a_draw_for_every_agent(family: str) -> None:
    rewards = rewards_tape(5, 60, 3)
    if family == "bernoulli":
        rewards = (rewards > 0.8).astype(np.float64)
    decisions = decision_words(5, 60)
    s, n, expected = np.zeros(3), np.zeros(3), []
    for t in range(60):
        row = []
        for i in range(5):
            if family == "gaussian":
                z = normals(words(int(decisions[i, t]), np.arange(3, dtype=np.uint64)))
                theta = (s / 0.25) / (1 + n / 0.25) + z / np.sqrt(1 + n / 0.25)
            else:
                theta = betas(int(decisions[i, t]), 1 + s, 1 + n - s)
            row.append(int(theta.argmax()))
        for i, arm in enumerate(row):
            s[arm] += rewards[i, t, arm]
            n[arm] += 1
        expected.append(row)
    found = play(CentralTS(family), rewards, sigma=0.5)
    assert found == expected
    assert any(len(set(row)) > 1 for row in found)  # own draws


def test_one_agent_under_a_central_ucb_is_independent() -> None:
    rewards = rewards_tape(1, 150, 4)
    view = one_view(num_arms=4, own_weight=1.0, neighbor_weights={}, num_agents=None)
    alone = drive([make_agent(IndependentUCB(), view)], rewards, 0, 150)
    assert play(CentralUCB(), rewards) == alone.arms == play(CentralBatchedUCB(), rewards)


def test_rewards_are_pooled() -> None:
    controller = CentralUCB().make_controller(2, 1.0)
    for arm, reward in ((0, 1.0), (1, 2.0), (0, -0.5)):
        controller.observe(arm, reward)
    assert controller.totals.tolist() == [0.5, 2.0, 2.0, 1.0]


@pytest.mark.parametrize("delay", [0, -1, 1.5, True, "long", None])
def test_delay_is_a_whole_number_from_one(delay: Any) -> None:
    with pytest.raises(InputError, match=f"delay.* {delay!r}"):
        DelayedCentralUCB(delay)


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf, math.nan, "big"])
def test_a_bonus_that_is_no_bonus(constant: Any) -> None:
    for make in (IndependentUCB, CentralUCB, CentralBatchedUCB, lambda c: DelayedCentralUCB(1, c)):
        with pytest.raises(InputError, match=f"constant.* {constant!r}"):
            make(constant)


def test_controllers_keep_to_the_arms_that_are_allowed() -> None:
    batched, delayed = (
        policy.make_controller(3, 1.0) for policy in (CentralBatchedUCB(), DelayedCentralUCB(2))
    )
    for controller in (batched, delayed):
        for _ in range(6):
            arms = {controller.choose(0, [2, 1]), controller.choose(0, [1])}
            assert arms <= {1, 2}
            controller.observe(1, 0.0)
            controller.observe(2, 5.0)
            controller.end_round()
    assert batched.choose(0, [0, 1]) == 0
    assert delayed.choose(0, [2]) == 2
