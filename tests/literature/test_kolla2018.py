"""UCB-Network: settings, what it needs, and what it sends."""

from __future__ import annotations

import math

import pytest

from coopbandits.core import InputError, LocalView
from coopbandits.literature import UCBNetwork

from ..core.fleet import drive, make_agent, rewards_tape, team


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf, math.nan])
def test_a_bonus_that_is_no_bonus(constant: float) -> None:
    with pytest.raises(InputError, match=f"constant.* {constant!r}"):
        UCBNetwork(constant)


def test_who_the_neighbours_are_is_all_that_needs_to_be_known() -> None:
    assert UCBNetwork().needs == frozenset()
    agent = make_agent(UCBNetwork(), LocalView(0, 0.0, {1: 0.0}, num_arms=3))
    assert [agent.choose(0) for _ in range(3)] == [0, 1, 2]


def test_values_per_message_on_a_cycle_of_nine() -> None:
    agents = team("cycle-9", 2, UCBNetwork())
    assert drive(agents, rewards_tape(9, 6, 2), 0, 6).sizes == [{2}] * 6
