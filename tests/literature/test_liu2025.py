"""GSE: what is conserved, which arms are out, and flags as bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits.core import InputError
from coopbandits.core.aggregate.messages import flag_values, has_flag, write_flags
from coopbandits.literature import GSE

from ..core.fleet import (
    changed,
    exchange,
    fields,
    make_agent,
    one_view,
    rewards_tape,
    team,
    through_json,
)


def test_the_sum_of_all_is_the_sum_of_own_means() -> None:
    for graph in ("cycle-9", "star-6"):
        agents = team(graph, 4, GSE(1000))
        tape = rewards_tape(len(agents), 60, 4)
        for t in range(60):
            for i, agent in enumerate(agents):
                arm = agent.choose(0)
                agent.observe(arm, float(tape[i, t, arm]))
            assert set(exchange(agents)) == {5}
            own = sum(a.sums / np.maximum(1.0, a.counts) for a in map(fields, agents))
            np.testing.assert_allclose(sum(fields(a).tracked for a in agents), own, atol=1e-12)


def test_arms_that_are_left_are_played_in_turn() -> None:
    agent = make_agent(GSE(1000), one_view(num_arms=4))
    fields(agent).out[1] = True
    played = []
    for _ in range(6):
        played.append(agent.choose(0))
        agent.observe(played[-1], 0.5)
    assert played == [0, 2, 3, 0, 2, 3]
    assert agent.choose(0, [1, 2]) == 2
    assert agent.choose(0, [1]) == 1  # nothing else may be played


def test_an_arm_is_out_where_the_authors_say_so() -> None:
    """c = √(4σ² ln T/m) + (N ln T/p + √N)/m, m = N max(n − K ln T/p, 1); N = 3, p = 1/2."""
    agent = make_agent(GSE(100, up=0.5), one_view(num_arms=2, sigma=0.5, neighbor_weights={}))
    log = math.log(100)
    out_at = None
    for n in range(1, 400):
        for arm, reward in ((0, 1.0), (1, 0.0)):
            agent.observe(arm, reward)
        agent.receive({})
        m = 3 * max(n - 2 * log / 0.5, 1.0)
        c = math.sqrt(log / m) + (3 * log / 0.5 + math.sqrt(3)) / m
        assert fields(agent).out.tolist() == [0, 0.0 + c < 1.0 - c]
        out_at = out_at or (n if fields(agent).out[1] else None)
    assert out_at is not None
    assert 2 * log / 0.5 < out_at < 100


def test_what_a_neighbour_has_ruled_out_is_out_but_one_arm_stays() -> None:
    agent = make_agent(GSE(1000), one_view(num_arms=3))
    agent.receive({1: np.array([0.0, 0.0, 0.0, 0b010])})
    assert fields(agent).out.tolist() == [0, 1, 0]
    agent.receive({})
    assert fields(agent).out.tolist() == [0, 1, 0]
    agent.receive({2: np.array([0.0, 0.0, 9.0, 0b101])})
    assert fields(agent).out.tolist() == [1, 1, 0]  # of all, that with the largest z is kept


def test_flags_are_bits() -> None:
    for size in (1, 52, 53, 110):
        flags = np.arange(size) % 3 == 0
        packed = np.full(3, np.nan)
        assert write_flags(flags, packed) == flag_values(size) == -(-size // 52)
        assert [has_flag(packed, k) for k in range(size)] == flags.tolist()


def test_bad_input() -> None:
    for horizon in (1, 2.5):
        with pytest.raises(InputError, match=f"horizon.* {horizon!r}"):
            GSE(horizon)  # type: ignore[arg-type]  # it is refused
    for up in (0, 1.1):
        with pytest.raises(InputError, match=f"up.* {up!r}"):
            GSE(10, up)
    with pytest.raises(InputError, match=r"spread.* 0\b"):
        GSE(10, spread=0)
    assert GSE(10, 1.0, 1.0).needs == {"num_agents"}
    agent = make_agent(GSE(10), one_view())
    for flags in (-1.0, 0.5, 2.0**52):
        with pytest.raises(InputError, match="flags"):
            agent.receive({1: np.array([0.0, 0.0, flags])})
    state = through_json(agent.export_state())
    with pytest.raises(InputError, match="leaves no arm"):
        agent.restore_state(changed(state, {"aggregation": {"out": [1, 1]}}))
    with pytest.raises(InputError, match=r"counts.*-1 pulls"):
        agent.restore_state(changed(state, {"aggregation": {"counts": [-1.0, 0.0]}}))
    agent.restore_state(state)
