"""UCB-Network and MP-UCB: settings, what they need, and what they send."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from coopbandits.core import InputError, LocalView, Policy
from coopbandits.literature import MPUCB, UCBNetwork

from ..core.fleet import GRAPHS, drive, gossip_matrix, make_agent, make_agents, rewards_tape


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf, math.nan])
def test_a_bonus_that_is_no_bonus(constant: float) -> None:
    sentence = f"constant.* {constant!r}"
    with pytest.raises(InputError, match=sentence):
        UCBNetwork(constant)
    with pytest.raises(InputError, match=sentence):
        MPUCB(2, constant)


@pytest.mark.parametrize("hop_limit", [0, -1, 1.0, True, math.inf, None])
def test_hop_limits_are_whole_numbers_from_one(hop_limit: Any) -> None:
    with pytest.raises(InputError, match=f"hop_limit.* {hop_limit!r}"):
        MPUCB(hop_limit)


@pytest.mark.parametrize(
    ("policy", "num_agents"), [(UCBNetwork(), None), (MPUCB(2), 2)], ids=["neighbours", "hops"]
)
def test_what_needs_to_be_known(policy: Policy, num_agents: int | None) -> None:
    """Of neighbours, who they are; for pulls from further away, N; weights and λ never."""
    assert policy.needs == (frozenset() if num_agents is None else {"num_agents"})
    view = LocalView(0, 0.0, {1: 0.0}, num_arms=3, num_agents=num_agents)
    agent = make_agent(policy, view)
    assert [agent.choose(0) for _ in range(3)] == [0, 1, 2]
    if num_agents is not None:
        with pytest.raises(InputError, match="number of agents"):
            make_agent(policy, replace(view, num_agents=None))


# Items per message and round: everybody up to min(round, hop limit − 1) hops away.
SENT: dict[str, tuple[Policy, list[set[int]]]] = {
    "neighbours": (UCBNetwork(), [{2}] * 6),
    "one hop": (MPUCB(1), [{4}] * 6),
    "two hops": (MPUCB(2), [{4}, *[{12}] * 5]),
    "four hops": (MPUCB(4), [{4}, {12}, {20}, *[{28}] * 3]),
    "all": (MPUCB(100), [{4}, {12}, {20}, {28}, *[{36}] * 2]),
}


@pytest.mark.parametrize("case", SENT)
def test_values_per_message_on_a_cycle_of_nine(case: str) -> None:
    policy, sizes = SENT[case]
    agents = make_agents(policy, gossip_matrix(GRAPHS["cycle-9"]), 2)
    assert drive(agents, rewards_tape(9, 6, 2), 0, 6).sizes == sizes
