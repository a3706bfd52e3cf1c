"""Arms that come later: widened agents and translated messages are as if they had been there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from coopbandits import InputError
from coopbandits.core.aggregate.flooded_totals import SOURCE
from coopbandits.core.contract import LocalView
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.registry import parse_policy
from coopbandits.core.statistic import ArmSums, Registers, SiteSums, VersionedRegisters
from coopbandits.core.statistic.linear import LinearSums

CONTEXT = np.array([1.0, 0.5])
PLACES = [3, 0, 1]

REGISTERS: dict[str, Any] = {
    "sums": ArmSums().registers,
    "squares": ArmSums(squares="pooled").registers,
    "squares of arms": ArmSums(squares="arms").registers,
    "sites": SiteSums().registers,
    "versioned": lambda arms: VersionedRegisters(ArmSums(squares="pooled").registers(arms)),
    "linear": LinearSums(disjoint=True, features=2).registers,
}


def pulled(registers: Registers, arms: Sequence[int]) -> np.ndarray:
    values = registers.zeros()
    for at, arm in enumerate(arms):
        registers.record(values, arm, 0.25 * at, CONTEXT)
    return values


@pytest.mark.parametrize("make", REGISTERS.values(), ids=REGISTERS)
def test_registers_moved_are_those_of_the_same_pulls_elsewhere(make: Any) -> None:
    narrow, wide = make(3), make(5)
    arms = [0, 1, 2, 2, 1, 2]
    moved = wide.moved(pulled(narrow, arms), narrow, PLACES)
    assert moved.tolist() == pulled(wide, [PLACES[arm] for arm in arms]).tolist()
    both = np.stack([pulled(narrow, arms), pulled(narrow, arms[:2])])
    assert wide.moved(both, narrow, PLACES)[0].tolist() == moved.tolist()


@pytest.mark.parametrize("make", REGISTERS.values(), ids=REGISTERS)
def test_what_belongs_to_no_arm_is_the_same_wherever_arms_are(make: Any) -> None:
    narrow, wide = make(3), make(5)
    values = pulled(narrow, [0, 1, 2, 2])
    rest = narrow.of_no_arm(values)
    assert wide.of_no_arm(wide.moved(values, narrow, PLACES)).tolist() == rest.tolist()


def agent_of(spelling: str, number: int, arms: int) -> CooperativeAgent:
    policy: Any = parse_policy(spelling)
    view = LocalView(
        number, 0.5, {1 - number: 0.5}, arms, random_word=5 + number, common_round=False,
        num_features=2 if policy.takes_context else 0,
    )  # fmt: skip
    agent = policy.make_agent(view)
    assert isinstance(agent, CooperativeAgent)
    return agent


def pull(agent: CooperativeAgent, arm: int, reward: float) -> None:
    agent.observe(arm, reward, CONTEXT if agent.buffer is not None else None)


POLICIES = (
    "flood-ts", "tree-ts", "flood-ts:lazy=0.5", "tree-ts:lazy=0.5", "tree-ts:spread=estimate",
    "flooded-totals*lin-ts:disjoint=true", "flooded-totals:window=9*ucb", "tree-sums:window=9*ucb",
)  # fmt: skip


@pytest.mark.parametrize("spelling", POLICIES)
def test_agents_with_other_arms_know_what_agents_with_all_of_them_do(spelling: str) -> None:
    """One begins with two arms and gets two more; the other has them in another order."""
    few, other = agent_of(spelling, 0, 2), agent_of(spelling, 1, 4)
    one, two = agent_of(spelling, 0, 4), agent_of(spelling, 1, 4)
    order = [2, 3, 0, 1]  # where the other's arms are with the one
    if few.buffer is not None:
        few.open(1, CONTEXT)
        one.open(1, CONTEXT)
    for agent in (few, one):
        pull(agent, 1, 0.5)
    wide = agent_of(spelling, 0, 4)
    wide.restore_state(wide.rearranged(few.export_state(), few, range(2)))
    assert wide.export_state() == one.export_state()
    back = [order.index(arm) for arm in range(4)]
    for step in range(30):
        for agent, arm in ((wide, step % 4), (one, step % 4)):
            pull(agent, arm, 1.0)
        pull(other, step % 3, 0.25)
        pull(two, order[step % 3], 0.25)
        said = wide.outgoing(1), other.outgoing(0), one.outgoing(1), two.outgoing(0)
        from_wide = {} if said[0] is None else {0: other.translated(said[0], wide, back)}
        from_other = {} if said[1] is None else {1: wide.translated(said[1], other, order)}
        wide.receive(from_other)
        other.receive(from_wide)
        one.receive({} if said[3] is None else {1: said[3]})
        two.receive({} if said[2] is None else {0: said[2]})
    assert wide.estimate().counts == pytest.approx(one.estimate().counts)
    assert wide.estimate().sums == pytest.approx(one.estimate().sums)
    found, wanted = other.estimate().counts, two.estimate().counts
    assert [found[back[arm]] for arm in range(4)] == pytest.approx(list(wanted))


@pytest.mark.parametrize("spelling", [each for each in POLICIES if "estimate" not in each])
def test_arms_with_one_place_are_added_up_there(spelling: str) -> None:
    """Arms 1 and 2 become one, in the state and in messages, as if it had had all their pulls."""
    three, two, places = agent_of(spelling, 0, 3), agent_of(spelling, 0, 2), [0, 1, 1]
    for step in range(12):
        pull(three, step % 3, 0.5)
        pull(two, places[step % 3], 0.5)
    folded = agent_of(spelling, 0, 2)
    folded.restore_state(folded.rearranged(three.export_state(), three, places))
    assert folded.machine.registers.adds_arms
    assert folded.estimate().counts == pytest.approx(two.estimate().counts)
    assert folded.estimate().sums == pytest.approx(two.estimate().sums)
    told, wanted = three.outgoing(1), two.outgoing(1)
    assert told is not None
    assert agent_of(spelling, 1, 2).translated(told, three, places) == pytest.approx(wanted)


def test_how_sites_differ_is_known_of_single_arms_alone() -> None:
    assert not agent_of("tree-ts:spread=estimate", 0, 2).machine.registers.adds_arms


def test_a_message_of_no_such_form_is_left_to_who_reads_it() -> None:
    wide, narrow = agent_of("flood-ts", 0, 4), agent_of("flood-ts", 1, 2)
    odd = np.zeros(5)
    assert wide.translated(odd, narrow, [0, 1]) is odd


def test_others_keep_the_arms_that_they_began_with() -> None:
    few, more = agent_of("gossip-ts", 0, 2), agent_of("gossip-ts", 0, 3)
    with pytest.raises(InputError, match="policy"):
        more.rearranged(few.export_state(), few, range(2))
    with pytest.raises(InputError, match="other arms"):
        more.translated(np.zeros(4), few, [0, 1])


def test_of_entries_told_twice_the_last_of_the_newest_is_taken() -> None:
    """As in a merge of many: more pulls win, and of equals told the last."""
    view = LocalView(1, 0.5, {0: 0.25, 2: 0.25}, 2, common_round=False)
    policy: Any = parse_policy("flood-ts")
    agent = policy.make_agent(view)
    machine = agent.machine
    row = [7.0, 1.0, 0.5, 0.0, 1.0, 0.0]
    agent.receive({0: np.array([1.0, 0.0, *row])})
    newer, equal = [7.0, 2.0, 0.5, 1.0, 1.0, 1.0], [7.0, 2.0, 1.5, 0.0, 2.0, 0.0]
    agent.receive({0: np.array([2.0, 0.0, *newer]), 2: np.array([1.0, 0.0, *equal])})
    assert machine.entry(7.0).tolist() == equal
    agent.receive({0: np.array([3.0, 0.0, *newer])})
    assert machine.entry(7.0).tolist() == equal
    at = machine._known[7.0]
    assert machine.state.tags[at, SOURCE] == 2.0
