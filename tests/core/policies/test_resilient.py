"""Liars: what they tell."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits.core import CooperativeAgent, InputError, Liar

from ..fleet import make_agent, one_view


def knowing(attack: str, mean: float = 1.0) -> CooperativeAgent:
    """A liar that has seen 0.2, 0.8 and 0.5 of its three arms, and the last one twice."""
    agent = make_agent(Liar(attack, mean), one_view(num_arms=3))
    for arm, reward in ((0, 0.2), (1, 0.8), (2, 0.5), (2, 0.5)):
        agent.observe(arm, reward)
    return agent


def message(agent: CooperativeAgent) -> list[float]:
    found = agent.outgoing(1)
    assert found is not None
    return [float(value) for value in found]


def test_the_worst_arm_is_raised_with_as_many_pulls_as_were_heard_of() -> None:
    agent = knowing("raise", 7.0)
    assert message(agent) == [7.0, 0.8, 0.5, 1.0, 1.0, 2.0]
    agent.receive({2: np.array([0.1, 0.1, 0.1, 9.0, 3.0, 3.0])})
    assert message(agent) == [7.0, 0.8, 0.5, 9.0, 1.0, 2.0]


def test_the_two_best_arms_are_swapped() -> None:
    assert message(knowing("swap")) == [0.2, 0.5, 0.8, 1.0, 1.0, 2.0]


def test_a_liar_believes_its_own_pulls_alone_and_one_arm_leaves_nothing_to_tell() -> None:
    agent = knowing("raise")
    agent.receive({j: np.array([5.0, 0.0, 0.0, 9.0, 9.0, 9.0]) for j in (1, 2)})
    assert agent.estimate().sums.tolist() == [0.2, 0.8, 1.0]
    assert agent.estimate().counts.tolist() == [1.0, 1.0, 2.0]
    single = make_agent(Liar(), one_view(num_arms=1))
    single.observe(0, 0.25)
    assert message(single) == [0.25, 1.0]


def test_bad_input() -> None:
    with pytest.raises(InputError, match="attack 'rise'"):
        Liar("rise")
    with pytest.raises(InputError, match=r"mean.* inf"):
        Liar(mean=float("inf"))
