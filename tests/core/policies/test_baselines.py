"""Independent UCBs and Thompson samplers against both written out here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core import CentralTS, IndependentTS, IndependentUCB, InputError, LocalView
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


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf, math.nan])
def test_a_bonus_that_is_no_bonus(constant: float) -> None:
    with pytest.raises(InputError, match=f"constant.* {constant!r}"):
        IndependentUCB(constant)


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
