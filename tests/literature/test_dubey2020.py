"""MP-UCB: settings, what it needs, and what it sends."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from coopbandits.core import InputError, LocalView
from coopbandits.literature import MPUCB

from ..core.fleet import drive, make_agent, rewards_tape, team


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf, math.nan])
def test_a_bonus_that_is_no_bonus(constant: float) -> None:
    with pytest.raises(InputError, match=f"constant.* {constant!r}"):
        MPUCB(2, constant)


@pytest.mark.parametrize("hop_limit", [0, -1, 1.0, True, math.inf, None])
def test_hop_limits_are_whole_numbers_from_one(hop_limit: Any) -> None:
    with pytest.raises(InputError, match=f"hop_limit.* {hop_limit!r}"):
        MPUCB(hop_limit)


def test_pulls_from_further_away_need_the_number_of_agents() -> None:
    """Weights and λ are never needed."""
    assert MPUCB(2).needs == {"num_agents"}
    view = LocalView(0, 0.0, {1: 0.0}, num_arms=3, num_agents=2)
    agent = make_agent(MPUCB(2), view)
    assert [agent.choose(0) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(InputError, match="number of agents"):
        make_agent(MPUCB(2), replace(view, num_agents=None))


# Items per message and round: everybody up to min(round, hop limit − 1) hops away.
SENT: dict[int, list[set[int]]] = {
    1: [{4}] * 6,
    2: [{4}, *[{12}] * 5],
    4: [{4}, {12}, {20}, *[{28}] * 3],
    100: [{4}, {12}, {20}, {28}, *[{36}] * 2],
}


@pytest.mark.parametrize("hop_limit", SENT)
def test_values_per_message_on_a_cycle_of_nine(hop_limit: int) -> None:
    agents = team("cycle-9", 2, MPUCB(hop_limit))
    assert drive(agents, rewards_tape(9, 6, 2), 0, 6).sizes == SENT[hop_limit]
