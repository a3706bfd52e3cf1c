"""Messages: checks of what arrives; lazy sending, which is never far behind and loses nothing."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core import CooperativeAgent
from coopbandits.core.aggregate.flooded_totals import FloodedTotalsMachine
from coopbandits.core.aggregate.messages import all_finite, has_grown, largest
from coopbandits.testing import check_policy

from ..fleet import (
    GRAPHS,
    exchange,
    gossip_matrix,
    make_agents,
    one_view,
    rewards_tape,
    through_json,
)
from ..lossy import lossy_exchange, outages
from ..statistic.own import FadingUCB


@pytest.mark.parametrize("values", [[], [0.0], [1.0, -2.0], [1e200, -1e200], [1.7e308] * 3])
def test_finite(values: list[float]) -> None:
    assert all_finite(np.array(values, dtype=np.float64))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("size", [1, 2, 34, 1000])
def test_one_value_that_is_not_finite_is_found_anywhere(bad: float, size: int) -> None:
    for at in {0, size // 2, size - 1}:
        values = np.full(size, 1e200)  # squares overflow
        values[at] = bad
        assert not all_finite(values)
        values = np.ones(size)
        values[at] = bad
        assert not all_finite(values)


@pytest.mark.parametrize("size", [3, 300])
def test_the_largest_value(size: int) -> None:
    values = np.linspace(-3.0, 2.0, size)
    assert largest(values) == 3.0
    assert largest(-values) == 3.0
    values[1] = math.nan
    assert math.isnan(largest(values))
    assert largest(values[:0]) == 0.0


ROUNDS, ARMS = 200, 3
POLICIES = {
    "flood": lambda lazy: cb.combine(cb.FloodedTotals(lazy=lazy), cb.UCB()),
    "tree": lambda lazy: cb.combine(cb.TreeSums(lazy=lazy), cb.UCB()),
}


def play(
    kind: str, lazy: float, graph: str = "cycle-5", loss: float = 0.0
) -> tuple[list[CooperativeAgent], np.ndarray, int, int]:
    """Play some rounds; return the agents, everybody's pulls, and what was sent."""
    matrix = gossip_matrix(GRAPHS[graph])
    agents = make_agents(POLICIES[kind](lazy), matrix, ARMS)
    tape = rewards_tape(len(agents), ROUNDS, ARMS)
    pulls, values, messages = np.zeros((len(agents), ARMS)), 0, 0
    lost = outages(len(agents), loss, 5)
    for t in range(ROUNDS):
        for i, agent in enumerate(agents):
            arm = agent.choose(0)
            agent.observe(arm, float(tape[i, t, arm]))
            pulls[i, arm] += 1
        sizes = lossy_exchange(agents, lost(t)) if loss else exchange(agents)
        values, messages = values + sum(sizes), messages + sum(size > 0 for size in sizes)
    return agents, pulls, values, messages


def test_totals_are_news_once_some_arm_has_grown_enough() -> None:
    assert not has_grown(11.0, 10.0, 0.1)
    assert has_grown(12.0, 10.0, 0.1)  # 1.1 · 10 + 1, whatever rounding makes of it
    assert has_grown(11.0, 10.0, 0.0)
    assert not has_grown(10.0, 10.0, 0.0)
    told = np.array([10.0, 0.0])
    assert has_grown(np.array([10.0, 1.0]), told, 0.1).tolist() == [False, True]


@pytest.mark.parametrize("kind", POLICIES)
def test_without_laziness_nothing_is_new(kind: str) -> None:
    eager, plain = play(kind, 0.0), POLICIES[kind](0.0)
    assert plain.spelling == {"flood": "flooded-totals*ucb", "tree": "tree-sums*ucb"}[kind]
    assert plain == cb.combine(type(plain.parts.aggregation)(), cb.UCB())
    assert "told" not in eager[0][0].export_state()["aggregation"]


@pytest.mark.plays
@pytest.mark.parametrize(
    ("lazy", "loss"),
    [
        (0.1, 0.3),
        (0.5, 0.0),
        pytest.param(0.1, 0.0, marks=pytest.mark.slow),
        pytest.param(0.5, 0.3, marks=pytest.mark.slow),
    ],
)
def test_a_flood_knows_nearly_all_pulls_and_sends_few_messages(lazy: float, loss: float) -> None:
    agents, pulls, values, messages = play("flood", lazy, loss=loss)
    for _ in range(20):  # nobody pulls; what is on its way arrives
        lossy_exchange(agents, outages(len(agents), loss, 6)(_))
    for agent in agents:
        assert isinstance(agent.machine, FloodedTotalsMachine)
        share = {int(row[0]): row[2 + ARMS :] for row in agent.machine.entries}
        for other, counts in share.items():
            assert (counts >= pulls[other] / (1.0 + lazy) - 1.0).all()
            assert (counts <= pulls[other]).all()
    _, _, all_values, all_messages = play("flood", 0.0, loss=loss)
    assert values < {0.1: 0.9, 0.5: 0.5}[lazy] * all_values
    assert messages < all_messages if lazy == 0.5 else messages <= all_messages
    assert all(agent.outgoing(j) is None for agent in agents for j in agent.view.neighbor_weights)


@pytest.mark.slow
@pytest.mark.plays
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_a_tree_knows_nearly_all_pulls_and_sends_few_values(loss: float) -> None:
    agents, pulls, values, _ = play("tree", 0.2, loss=loss)
    assert values < play("tree", 0.0, loss=loss)[2]
    for agent in agents:  # never far behind: a cycle of five is a tree of at most four hops
        assert (agent.estimate().counts >= 0.5 * pulls.sum(axis=0)).all()
    for number in range(400):  # and in time everything is told again
        lossy_exchange(agents, outages(len(agents), loss, 6)(number))
    for agent in agents:
        np.testing.assert_array_equal(agent.estimate().counts, pulls.sum(axis=0))
    rounds = [lossy_exchange(agents, outages(len(agents), loss, 7)(number)) for number in range(64)]
    sizes = [size for each in rounds for size in each]  # the totals now and then, in any case
    assert sizes.count(4) > 0.8 * len(sizes)


@pytest.mark.parametrize("kind", POLICIES)
def test_a_lazy_agent_goes_on_where_it_was_exported(kind: str) -> None:
    agents = play(kind, 0.3)[0]
    again = make_agents(POLICIES[kind](0.3), gossip_matrix(GRAPHS["cycle-5"]), ARMS)
    for agent, copy in zip(agents, again, strict=True):
        copy.restore_state(through_json(agent.export_state()))
        for j in agent.view.neighbor_weights:
            left, right = agent.outgoing(j), copy.outgoing(j)
            assert (left is None) == (right is None)
            assert left is None or left.tolist() == right.tolist()  # type: ignore[union-attr]  # both are there


@pytest.mark.covering(1)
@pytest.mark.plays
@pytest.mark.parametrize("policy", ["flood-ts:lazy=0.2", "tree-ts:lazy=0.2", "tree-ucb:lazy=0.2"])
def test_lazy_policies_keep_the_contract(policy: str) -> None:
    found = cb.parse_policy(policy)
    assert isinstance(found, cb.Policy)
    check_policy(found, num_arms=2, rounds=6)


@pytest.mark.parametrize("lazy", [-0.1, math.nan, math.inf, "much", True])
def test_what_is_no_share_is_refused(lazy: float) -> None:
    for spec in (cb.FloodedTotals, cb.TreeSums):
        with pytest.raises(cb.InputError, match=f"lazy.* {re.escape(repr(lazy))}"):
            spec(lazy=lazy)


def test_what_shrinks_is_told_in_every_round() -> None:
    for forgetting in ({"discount": 0.99}, {"window": 50}):
        for spec in (cb.FloodedTotals, cb.TreeSums):
            with pytest.raises(cb.InputError, match=r"lazy.* 0\.1"):
                spec(lazy=0.1, **forgetting)
            with pytest.raises(cb.InputError, match=r"spread.* 0\.1"):
                spec(spread=0.1, **forgetting)
    with pytest.raises(cb.InputError, match=r"lazy.* 0\.1"):
        cb.combine(cb.TreeSums(lazy=0.1), FadingUCB()).make_agent(one_view(num_arms=ARMS))
