"""GosInE: which arms are held when, what is sent, and who is blocked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core import InputError
from coopbandits.literature import GosInE

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


def sticky(agent: Any) -> set[int]:
    return set(np.flatnonzero(fields(agent).sticky).tolist())


def held(agent: Any) -> set[int]:
    return sticky(agent) | {fields(agent).kept, fields(agent).tried}


def pull_all(agents: list[Any], rewards: Any) -> list[int]:
    """One pull each; rewards[agent][arm]."""
    arms = [agent.choose(0) for agent in agents]
    for i, arm in enumerate(arms):
        agents[i].observe(arm, float(rewards[i][arm]))
    return arms


def test_together_all_arms_are_sticky_and_each_holds_two_more() -> None:
    agents = team("grid-2x4", 20, GosInE())
    assert {arm for agent in agents for arm in sticky(agent)} == set(range(20))
    assert {len(sticky(agent)) for agent in agents} == {3}  # ⌈20/8⌉
    assert {len(held(agent)) for agent in agents} == {5}
    assert sticky(agents[7]) == {21 % 20, 22 % 20, 23 % 20}


def test_phases_end_in_round_one_eight_and_twenty_seven() -> None:
    agents = team("cycle-5", 12, GosInE())
    tape = rewards_tape(5, 70, 12)
    talked = []
    for t in range(70):
        before = [held(agent) for agent in agents]
        arms = pull_all(agents, tape[:, t])
        assert all(arm in own for arm, own in zip(arms, before, strict=True))
        sizes = exchange(agents)
        if any(sizes):
            assert sizes == [1] * 10
            talked.append(t + 1)
        else:
            assert before == [held(agent) for agent in agents]
    assert talked == [1, 8, 27, 64]


def test_one_agent_is_ucb_on_all_arms() -> None:
    (agent,) = team("single", 3, GosInE(constant=4.0))
    tape = rewards_tape(1, 200, 3)
    n, s = [0] * 3, [0.0] * 3
    for t in range(200):
        index = [
            s[k] / n[k] + math.sqrt(4 * math.log(t + 1) / n[k]) if n[k] else math.inf
            for k in range(3)
        ]
        (arm,) = pull_all([agent], tape[:, t])
        assert arm == index.index(max(index))
        n[arm] += 1
        s[arm] += float(tape[0, t, arm])
        exchange([agent])


def test_the_best_arm_spreads_and_then_only_the_arm_on_trial_changes() -> None:
    agents = team("complete-6", 12, GosInE(constant=0.5))
    means = np.zeros((6, 12))
    means[:, 5] = 1.0  # sticky to agent 2 alone
    spread: int | None = None
    kept: list[int] = []
    for _ in range(12**3):
        pull_all(agents, means)
        exchange(agents)
        if spread is None and all(
            fields(agent).kept == 5 or 5 in sticky(agent) for agent in agents
        ):
            spread = fields(agents[0]).phase
            kept = [fields(agent).kept for agent in agents]
        elif spread is not None:
            assert [fields(each).kept for each in agents if 5 not in sticky(each)] == [5] * 5
    assert spread is not None
    assert spread < 12
    assert kept.count(5) >= 5


def with_liar(blocking: bool, phases: int) -> Any:
    """Agent 0, advised by an honest neighbour 1 (arm 5, good) and by 2 (arm 4, useless)."""
    view = one_view(num_arms=8, num_agents=8, random_word=12345)
    agent = make_agent(GosInE(blocking, constant=0.2), view)
    means = [[0.2, 0.1, 0.1, 0.0, 0.0, 1.0, 0.0, 0.0]]
    for _ in range(phases**3):
        pull_all([agent], means)
        agent.receive({1: np.array([5.0]), 2: np.array([4.0])})
    return fields(agent)


def test_a_neighbour_with_useless_advice_is_blocked() -> None:
    agent = with_liar(blocking=True, phases=9)
    assert agent.kept == 5
    assert agent.blocked[0] == 0  # whose advice is good
    assert agent.blocked[1] >= 9
    assert agent.adviser != 1
    assert not with_liar(blocking=False, phases=9).blocked.any()


def test_with_everybody_blocked_nobody_is_asked() -> None:
    agent = make_agent(GosInE(blocking=True), one_view(num_arms=8, num_agents=8))
    fields(agent).blocked[:] = 5.0
    agent.receive({1: np.array([5.0]), 2: np.array([4.0])})
    assert (fields(agent).adviser, fields(agent).phase) == (-1, 2)


def test_an_adviser_that_is_not_heard_changes_nothing() -> None:
    agent = make_agent(GosInE(), one_view(num_arms=8, num_agents=8))
    before = held(agent)
    agent.receive({})
    assert held(agent) == before
    assert (fields(agent).adviser, fields(agent).phase) == (-1, 2)


def test_open_pulls_spread_over_the_arms_held() -> None:
    agent = make_agent(GosInE(), one_view(num_arms=8, num_agents=8))
    assert sorted(agent.choose(0) for _ in range(3)) == [0, 1, 2]
    assert agent.choose(0, [6, 7]) == 6  # none of them is held


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kept": 8}, r"arm 8\b"),
        ({"phase": 0}, r"phase.* 0\b"),
        ({"adviser": 2}, r"adviser.* 2\b.* 2 neighbours"),
        ({"adviser": -2}, "adviser.*-2"),
    ],
)
def test_states_that_cannot_be(changes: dict[str, Any], sentence: str) -> None:
    agent = make_agent(GosInE(), one_view(num_arms=8))
    state = through_json(agent.export_state())
    with pytest.raises(InputError, match=sentence):
        agent.restore_state(changed(state, {"aggregation": changes}))


def test_needs_bad_settings_and_messages() -> None:
    assert GosInE().needs == {"num_agents", "random_word"}
    with pytest.raises(InputError, match=r"blocking.* 1\b"):
        GosInE(blocking=1)  # type: ignore[arg-type]  # it is refused
    with pytest.raises(InputError, match=r"constant.* 0\b"):
        GosInE(constant=0)
    agent = make_agent(GosInE(), one_view(num_arms=8))
    with pytest.raises(InputError, match=r"\b1\b.*arm 8\b"):
        agent.receive({1: np.array([8.0])})
    with pytest.raises(InputError, match=r"gosine.*number of agents"):
        make_agent(GosInE(), one_view(num_agents=None))
