"""Claims of neighbours: what cannot have happened is not believed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coopbandits.core import (
    CooperativeAgent,
    FloodTS,
    GossipTS,
    InputError,
    LocalView,
    Policy,
    TreeTS,
)
from coopbandits.core.aggregate import (
    AnyAggregation,
    Claims,
    FloodedPulls,
    FloodedTotals,
    PullMixing,
    RunningConsensus,
    TreeSums,
)
from coopbandits.core.aggregate.claims import MAX_NUMBERS, SLACK, PartlyImpossibleError
from coopbandits.core.aggregate.entries import author_of, entry_number
from coopbandits.core.contract import Vector
from coopbandits.core.registry import AGGREGATIONS
from coopbandits.core.statistic import ArmSums

from ..fleet import one_view  # as in test_local

EPOCH, NOW, RATE = 1000.0, 1100.0, 2.0
MOST = RATE * (NOW - EPOCH + SLACK)


def agent_of(policy: Policy, author: int = 7) -> CooperativeAgent:
    view = LocalView(
        entry_number(author, 0), 0.5, {1: 0.5}, num_arms=2, random_word=9, common_round=False
    )
    made = policy.make_agent(view)
    assert isinstance(made, CooperativeAgent)
    return made


def claims(*, bounded: bool = True) -> Claims:
    return Claims(bounded, RATE, EPOCH, max_agents=4)


def tree_message(sums: list[float], counts: list[float], agents: float) -> Vector:
    return np.array([*sums, *counts, agents, 9.0, 0.1, 3.0, 0.0, 1.0])


def entry(author: int, sums: list[float], counts: list[float], generation: int = 0) -> list[float]:
    return [entry_number(author, generation), 5.0, *sums, *counts]


def flood_message(*entries: list[float]) -> Vector:
    return np.array([3.0, 2.0, *(value for one in entries for value in one)])


@pytest.mark.parametrize(
    ("sums", "counts", "agents", "match"),
    [
        ([0.0, 0.0], [MOST, 1.0], 1.0, "at most 320"),
        ([0.0, 0.0], [1e300, 1e300], 2.0, "at most 640"),
        ([0.0, 0.0], [-1.0, 5.0], 1.0, "never negative"),
        ([1.5, 0.0], [1.0, 5.0], 1.0, "lies in 0 to 1"),
        ([-0.5, 0.0], [1.0, 5.0], 1.0, "lies in 0 to 1"),
        ([0.0, 0.0], [1.0, 5.0], 5.0, "5 agents"),
        ([0.0, 0.0], [1.0, 5.0], 0.0, "0 agents"),
    ],
)
def test_impossible_tree_sums(
    sums: list[float], counts: list[float], agents: float, match: str
) -> None:
    with pytest.raises(InputError, match=match):
        agent_of(TreeTS()).check_claims(tree_message(sums, counts, agents), claims(), NOW)


def test_possible_tree_sums() -> None:
    tree = agent_of(TreeTS())
    tree.check_claims(tree_message([3.0, 0.0], [MOST - 1.0, 1.0], 1.0), claims(), NOW)
    tree.check_claims(tree_message([3.0, 0.0], [MOST + 1.0, 1.0], 2.0), claims(), NOW)
    tree.check_claims(tree_message([-30.0, 40.0], [3.0, 1.0], 1.0), claims(bounded=False), NOW)
    tree.check_claims(np.ones(3), claims(), NOW)  # its form is the agent's business


def test_short_messages_of_lazy_trees_are_checked_too() -> None:
    tree = agent_of(TreeTS(lazy=0.1))
    tree.check_claims(np.array([0.5, 3.0, 1.0, 1.0]), claims(), NOW)
    with pytest.raises(InputError, match="a beat"):
        tree.check_claims(np.array([0.5, 1e300, 1.0, 1.0]), claims(), NOW)
    with pytest.raises(InputError, match=r"distance.*0\.5.*bond"):
        tree.check_claims(np.array([0.5, 3.0, 0.5, 1.0]), claims(), NOW)


def test_averages_of_pull_mixing_are_bounded_too() -> None:
    mixed = agent_of(GossipTS())
    mixed.check_claims(np.array([0.5, 0.5, 1.0, 1.0, 1.0, 3.0]), claims(), NOW)
    with pytest.raises(InputError, match="at most 320"):
        mixed.check_claims(np.array([0.5, 0.5, MOST, 1.0, 1.0, 3.0]), claims(), NOW)


def test_floods_grow_no_faster_than_pulls_can_be_made() -> None:
    flood, here = agent_of(FloodTS()), claims()
    flood.check_claims(flood_message(entry(3, [1.0, 1.0], [5.0, 5.0])), here, NOW)
    later = NOW + 10.0
    with pytest.raises(InputError, match=rf"165.*agent {entry_number(3, 0)}.* 10 .* 2 "):
        flood.check_claims(flood_message(entry(3, [1.0, 1.0], [5.0, 160.0])), here, later)
    flood.check_claims(flood_message(entry(3, [1.0, 1.0], [5.0, 140.0])), here, later)
    flood.check_claims(flood_message(entry(3, [1.0, 1.0], [5.0, 160.0])), here, later + 10.0)


def test_many_messages_do_not_have_the_slack_many_times() -> None:
    flood, here = agent_of(FloodTS()), claims()
    flood.check_claims(flood_message(entry(3, [0.0, 0.0], [10.0, 0.0])), here, NOW)
    pulls, refused = 10.0, 0
    for step in range(1, 201):
        try:
            claim = flood_message(entry(3, [0.0, 0.0], [pulls + 5.0, 0.0]))
            flood.check_claims(claim, here, NOW + 0.05 * step)
            pulls += 5.0
        except InputError:
            refused += 1
    assert 10.0 + RATE * SLACK <= pulls <= 10.0 + RATE * (10.0 + SLACK)
    assert refused > 150
    flood.check_claims(flood_message(entry(3, [0.0, 0.0], [pulls + 190.0, 0.0])), here, NOW + 105.0)


def test_old_news_do_not_shrink_what_is_known() -> None:
    flood, here = agent_of(FloodTS()), claims()
    flood.check_claims(flood_message(entry(3, [1.0, 1.0], [90.0, 90.0])), here, NOW)
    flood.check_claims(flood_message(entry(3, [1.0, 1.0], [1.0, 1.0])), here, NOW)
    flood.check_claims(flood_message(entry(3, [1.0, 1.0], [150.0, 150.0])), here, NOW)


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        ([entry(3, [0.0, 0.0], [MOST, 1.0])], f"agent {entry_number(3, 0)}, 0 known"),
        ([entry(7, [0.0, 0.0], [1.0, 0.0])], "1 own pulls, more than this agent has made"),
        ([entry(k, [0.0, 0.0], [1.0, 0.0]) for k in range(5)], "at most 4"),
        ([entry(3, [2.0, 0.0], [1.0, 0.0])], "lies in 0 to 1"),
        ([entry(3, [0.0, 0.0], [-1.0, 4.0])], "never negative"),
    ],
)
def test_impossible_floods(entries: list[list[float]], match: str) -> None:
    with pytest.raises(InputError, match=match):
        agent_of(FloodTS()).check_claims(flood_message(*entries), claims(), NOW)


def test_refused_claims_are_not_remembered() -> None:
    flood, here = agent_of(FloodTS()), claims()
    for agent in range(10, 40):
        with pytest.raises(InputError):
            flood.check_claims(flood_message(entry(agent, [9.0, 0.0], [1.0, 0.0])), here, NOW)
    flood.check_claims(
        flood_message(*(entry(k, [0.0, 0.0], [1.0, 0.0]) for k in range(3))), here, NOW
    )
    flood.check_claims(flood_message(), here, NOW)
    flood.check_claims(np.ones(5), here, NOW)


def test_an_agent_told_of_twice_is_not_two() -> None:
    flood, here = agent_of(FloodTS()), claims()
    twice = flood_message(*[entry(3, [0.0, 0.0], [200.0, 0.0])] * 2)
    flood.check_claims(twice, here, NOW)
    with pytest.raises(InputError, match=rf"321 pulls by agent {entry_number(3, 0)}, 200 known"):
        flood.check_claims(flood_message(entry(3, [0.0, 0.0], [321.0, 0.0])), here, NOW)


def believed(flood: CooperativeAgent, message: Vector, here: Claims) -> tuple[list[float], bool]:
    """Return the authors that are believed, and whether the rest may be believed later."""
    try:
        flood.check_claims(message, here, NOW)
    except PartlyImpossibleError as error:
        return [author_of(number) for number in error.rest[2::6].tolist()], error.passes
    return [author_of(number) for number in message[2::6].tolist()], False


GOOD = entry(3, [1.0, 1.0], [5.0, 5.0])


@pytest.mark.parametrize(
    ("bad", "passes"),
    [
        (entry(4, [0.0, 0.0], [MOST, 1.0]), True),
        (entry(4, [9.0, 0.0], [1.0, 0.0]), False),
        (entry(4, [0.0, 0.0], [-1.0, 4.0]), False),
        (entry(7, [0.0, 0.0], [1.0, 0.0]), False),
        ([entry_number(4, 0), -1.0, 0.0, 0.0, 1.0, 0.0], False),
        ([entry_number(4, 0), -2.0, 0.0, 0.0, 1.0, 0.0], False),
        ([4.0, 1.0, 0.0, 0.0, 1.0, 0.0], False),
        ([4.5, 1.0, 0.0, 0.0, 1.0, 0.0], False),
        ([-4.0, 1.0, 0.0, 0.0, 1.0, 0.0], False),
        ([2.0**60, 1.0, 0.0, 0.0, 1.0, 0.0], False),
    ],
)
def test_an_impossible_entry_takes_no_other_with_it(bad: list[float], passes: bool) -> None:
    for message in (flood_message(GOOD, bad), flood_message(bad, GOOD)):
        assert believed(agent_of(FloodTS()), message, claims()) == ([3.0], passes)


def test_a_restart_neither_forgets_nor_doubles_agents() -> None:
    """What a guard knows of agents follows from the entries, which are in the journal."""
    flood = agent_of(FloodTS())
    everybody = flood_message(*(entry(k, [0.0, 0.0], [1.0, 0.0]) for k in range(3)))
    assert believed(flood, everybody, claims()) == ([0.0, 1.0, 2.0], False)
    flood.receive({1: everybody})
    others = flood_message(*(entry(k, [0.0, 0.0], [1.0, 0.0]) for k in range(2, 9) if k != 7))
    assert believed(flood, others, claims()) == ([2.0], True), "claims anew, as after a restart"


def test_all_entries_of_one_author_are_one_agent() -> None:
    """A liar with many numbers may have made no more pulls than with one."""
    flood, here = agent_of(FloodTS()), claims()
    message = flood_message(*(entry(3, [0.0, 0.0], [100.0, 0.0], each) for each in range(8)))
    assert believed(flood, message, here) == ([3, 3, 3], True)
    message = flood_message(*(entry(author, [0.0, 0.0], [1.0, 0.0]) for author in (4, 5, 6)))
    assert believed(flood, message, here) == ([4, 5], True), "the own one, 3, and two more"


def test_an_author_has_a_bounded_number_of_entries() -> None:
    message = flood_message(*(entry(3, [0.0, 0.0], [1.0, 0.0], each) for each in range(100)))
    assert believed(agent_of(FloodTS()), message, claims()) == ([3] * MAX_NUMBERS, False)


def test_what_is_forgotten_makes_room() -> None:
    flood, here = agent_of(FloodTS()), claims()
    message = flood_message(*(entry(k, [0.0, 0.0], [1.0, 0.0]) for k in range(3)))
    assert len(believed(flood, message, here)[0]) == 3
    newcomer = flood_message(entry(4, [0.0, 0.0], [1.0, 0.0]))
    assert believed(flood, newcomer, here) == ([], True)
    here.forget(entry_number(2, 0))
    here.forget(entry_number(99, 0))
    assert believed(flood, newcomer, here) == ([4.0], False)


def test_numbers_have_an_author_and_are_exact() -> None:
    for author in (0, 1, 2**40 - 1, 2**48 - 7):
        for generation in (0, 1, 4095):
            number = entry_number(author, generation)
            assert float(number) == number < 2**53
            assert author_of(number) == author_of(float(number)) == author % 2**40
    assert author_of(3.0) == 3.0, "in simulations"


@pytest.mark.parametrize("spec", AGGREGATIONS, ids=lambda spec: spec.name)
def test_whoever_declares_a_mode_checks_claims_and_the_others_refuse_to(
    spec: type[AnyAggregation],
) -> None:
    assert spec.checks_claims is bool(spec.mode)
    made = spec(hop_limit=2) if spec is FloodedPulls else spec()
    view = LocalView(0, 0.5, {1: 0.5}, 2, num_agents=2, lambda_bound=0.5, random_word=9)
    machine = made.make(view, ArmSums().registers(2))
    if spec.mode:
        machine.check_claims(np.zeros(2), claims(), NOW)
    else:
        with pytest.raises(InputError, match=f"{spec.__name__}.*claim"):
            machine.check_claims(np.zeros(2), claims(), NOW)


def test_rounds_of_a_faster_past_are_still_believed() -> None:
    """The pace of a cluster can be lowered without a new epoch."""
    here = Claims(True, RATE, EPOCH, max_agents=4, pace=0.1)
    message = tree_message([0.0, 0.0], [1.0, 5.0], 1.0)
    message[7] = 100.0 * (NOW - EPOCH)
    agent_of(TreeTS()).check_claims(message, here, NOW)
    message[7] = 1000.0 * (NOW - EPOCH)
    with pytest.raises(InputError, match="beat of 100000"):
        agent_of(TreeTS()).check_claims(message, here, NOW)
    agent_of(TreeTS()).check_claims(message, replace(here, pace=1000.0), NOW)


@pytest.mark.parametrize(
    "spec",
    [TreeSums(discount=0.9), PullMixing(discount=0.9), RunningConsensus(discount=0.9)],
    ids=lambda spec: spec.spelling,
)
def test_a_false_clock_would_make_everybody_forget_and_is_refused(
    spec: AnyAggregation,
) -> None:
    machine = spec.make(one_view(), ArmSums().registers(2))
    machine.receive({})
    message = machine.outgoing(1)
    assert message is not None
    assert message[-1] == 1.0
    machine.check_claims(message, claims(), NOW)
    message[-1] = 1e9
    with pytest.raises(InputError, match=r"clock.*1e\+09"):
        machine.check_claims(message, claims(), NOW)


def test_what_counts_less_is_still_held_to_the_pulls_ever_made() -> None:
    machine = FloodedTotals(discount=0.5).make(one_view(), ArmSums().registers(2))
    here = claims()
    # Agent 1, rounds, rewards, pulls as they count now.
    entry = [entry_number(1, 0), 3.0, 0.5, 0.0, 0.75, 0.5]
    machine.check_claims(np.array([1.0, 0.0, *entry, 4.0]), here, NOW)  # of 4 ever made
    with pytest.raises(PartlyImpossibleError, match=r"pulls that count .* of .* ever made"):
        machine.check_claims(np.array([1.0, 0.0, *entry, 1.0]), claims(), NOW)
    with pytest.raises(PartlyImpossibleError, match=rf"1e\+06.*agent {entry_number(1, 0)}.* 2 "):
        machine.check_claims(np.array([1.0, 0.0, *entry, 1e6]), claims(), NOW)
