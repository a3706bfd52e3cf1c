"""Independent UCBs against a UCB written out here."""

from __future__ import annotations

import math

import pytest

from coopbandits.core import IndependentUCB, InputError, LocalView

from ..fleet import GRAPHS, drive, gossip_matrix, make_agent, make_agents, rewards_tape


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
