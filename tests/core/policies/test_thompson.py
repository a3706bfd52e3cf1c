"""Settings of the Bayesian policies, and independent Thompson sampling against one written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coopbandits.core import CentralTS, IndependentTS, InputError, Policy
from coopbandits.core.draws import betas, normals, uniforms, words
from coopbandits.literature import DecBayesUCB, DecTS

from ..fleet import (
    GRAPHS,
    decision_words,
    drive,
    gossip_matrix,
    make_agents,
    one_view,
    rewards_tape,
)


@pytest.mark.parametrize("kind", [DecTS, IndependentTS, CentralTS])
@pytest.mark.parametrize(
    ("family", "near"), [("gausian", "gaussian"), ("normal", None), ("bernouli", "bernoulli")]
)
def test_unknown_families_get_the_nearest(kind: Any, family: str, near: str | None) -> None:
    hint = f".*'{near}'" if near else ""
    with pytest.raises(InputError, match=f"'{family}'{hint}"):
        kind(family)


@pytest.mark.parametrize("policy", [DecTS(), DecTS("bernoulli"), DecBayesUCB()])
def test_the_number_of_agents_must_be_told(policy: Policy) -> None:
    assert policy.needs == {"num_agents"}
    with pytest.raises(InputError, match=r"running-consensus.*number of agents"):
        policy.make_agent(one_view(num_agents=None))


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


def test_the_first_draw_is_from_the_prior() -> None:
    """No initial rounds: with many agents every arm is played in the first round."""
    matrix = np.full((60, 60), 1 / 60)
    run = drive(
        make_agents(DecTS(), matrix, 3), rewards_tape(60, 1, 3), 0, 1, decision_words(60, 1)
    )
    counts = np.bincount(run.arms[0], minlength=3)
    assert (counts >= 10).all()
