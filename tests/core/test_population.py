"""Populations: who plays what, who is told what, and how they are spelled."""

from __future__ import annotations

import re
from typing import Any

import pytest

from coopbandits.core import (
    DDUCB,
    UCB,
    AnyAggregation,
    CentralTotals,
    CentralUCB,
    CentredDraw,
    FloodedPulls,
    FloodTS,
    FloodUCB,
    InputError,
    LinTS,
    LocalSums,
    NeighborhoodSums,
    Parts,
    Policy,
    TreeSums,
    TreeUCB,
    Truncated,
    at_source,
    combine,
    parse_policy,
    populate,
)
from coopbandits.core.population import Population
from coopbandits.literature import MPUCB, CoopUCB, Liar, ResilientUCB

from .fleet import fields, make_agent, one_view

ESTIMATES = CentredDraw(sigma="estimate")
LIARS = populate(ResilientUCB(), {Liar(): [0, 5], Liar("swap"): [2]})


def test_every_agent_plays_the_policy_of_its_group() -> None:
    agents = [make_agent(LIARS, one_view(agent_id=i)) for i in range(7)]
    lies = ["none", "raise", "swap"]
    told = [lies[fields(agent).attack] for agent in agents]
    assert told == ["raise", "none", "swap", "none", "none", "raise", "none"]
    assert agents[2].policy == "liar:attack=swap"


def test_spellings_are_read_back() -> None:
    assert LIARS.spelling == "resilient-ucb+liar@0,5+liar:attack=swap@2"
    assert parse_policy(LIARS.spelling) == LIARS
    assert parse_policy(" resilient-ucb + liar @ 0, 5 + liar:attack=swap @ 2 ") == LIARS
    huge = populate(ResilientUCB(kappa=1e20), {Liar(mean=1e20): [1]})
    assert huge.spelling == "resilient-ucb:kappa=1e+20+liar:mean=1e+20@1"
    assert parse_policy(huge.spelling) == huge
    assert parse_policy("coop-ucb:gamma=1e+20") == CoopUCB(1e20)


def test_agents_are_told_what_their_own_policy_needs() -> None:
    mixed = populate(ResilientUCB(), {DDUCB(): [1]})
    assert mixed.needs == DDUCB().needs
    view = one_view(global_knowledge={"epsilon_c:closed": 1.0})
    plain = mixed.make_agent(view).view
    assert (plain.num_agents, plain.lambda_bound, plain.random_word) == (None, None, 0)
    assert plain.global_knowledge == {}
    told = mixed.make_agent(one_view(agent_id=1)).view
    assert (told.num_agents, told.lambda_bound) == (3, 0.25)


def test_what_members_declare_holds_for_all() -> None:
    assert not LIARS.needs_common_round
    assert populate(ResilientUCB(), {MPUCB(2): [0]}).needs_common_round
    assert LIARS.members == (ResilientUCB(), Liar(), Liar("swap"))
    assert LIARS.named_agents == {0, 2, 5}
    assert LIARS.parts is None
    assert Liar().members == (Liar(),)
    assert Liar().named_agents == frozenset()


@pytest.mark.parametrize(
    ("rest", "groups", "sentence"),
    [
        (ResilientUCB(), {CentralUCB(): [0]}, "CentralUCB.*population"),
        (LIARS, {Liar(): [0]}, "liar.*population"),
        (combine(LocalSums(), LinTS()), {Liar(): [0]}, "features"),
        (ResilientUCB(), {Liar(): [0, 0]}, r"agent 0\b"),
        (ResilientUCB(), {Liar(): 0}, r"Liar.* 0\b"),
        (ResilientUCB(), {Liar(): "0"}, "Liar.* '0'"),
        (ResilientUCB(), [(Liar(), [0])], r"groups.*\[.*\].*dict"),
        (ResilientUCB(), {Liar(): [-1]}, "agent.* -1"),
        (
            TreeUCB(),
            {combine(TreeSums(), ESTIMATES): [0], Liar(): [1]},
            "tree-ucb sends arm-sums, and tree-sums.centred-draw:sigma=estimate sends "
            "arm-sums:squares=pooled.*same statistic",
        ),
        (
            at_source(Truncated(4.0), FloodUCB()),
            {FloodUCB(spread="estimate"): [0]},
            "flood-ucb sends arm-sums, and flood-ucb:spread=estimate sends site-sums",
        ),
    ],
)
def test_what_cannot_be_mixed_is_refused(rest: Any, groups: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        populate(rest, groups)


@pytest.mark.parametrize(
    "groups",
    [None, [(Liar(), (0,))], (Liar(),), ((Liar(), 0),), ((Liar(), [0]),), ((Liar(), (0,), 1),)],
    ids=repr,
)
def test_groups_are_pairs(groups: Any) -> None:
    with pytest.raises(InputError, match=rf"^groups are {re.escape(repr(groups))}; .*cb\.populate"):
        Population(ResilientUCB(), groups)


@pytest.mark.parametrize(
    "aggregation", [FloodedPulls(), NeighborhoodSums(), LocalSums()], ids=lambda each: each.name
)
def test_whoever_sends_no_registers_may_add_up_something_else(aggregation: AnyAggregation) -> None:
    mixed = populate(combine(aggregation, UCB()), {combine(aggregation, ESTIMATES): [1]})
    views = [one_view(agent_id=i, neighbor_weights={1 - i: 0.5}) for i in (0, 1)]
    agents = [make_agent(mixed, view) for view in views]
    for agent in agents:
        agent.observe(0, 1.0)
    messages = [agents[i].outgoing(1 - i) for i in (0, 1)]
    for i, message in enumerate(reversed(messages)):
        agents[i].receive({} if message is None else {1 - i: message})


def test_statistics_are_compared_once_the_family_is_known() -> None:
    mixed = populate(FloodTS(), {FloodTS(sigma="estimate"): [0]})
    assert mixed.suited("bernoulli").members == (
        FloodTS("bernoulli"),
        FloodTS("bernoulli", sigma="estimate"),
    )
    with pytest.raises(InputError, match="flood-ts:family=gaussian,sigma=estimate sends arm-sums:"):
        mixed.suited("gaussian")
    with pytest.raises(InputError, match="cannot mix statistics"):
        populate(FloodTS("gaussian"), {FloodTS("gaussian", sigma="estimate"): [0]})


class CentralByMistake(Policy):
    name = "central-by-mistake"

    @property
    def parts(self) -> Parts:
        return Parts(CentralTotals(), UCB())


def test_members_whose_parts_make_no_agents_say_so_themselves() -> None:
    mixed = populate(TreeUCB(), {CentralByMistake(): [1]})
    with pytest.raises(InputError, match="central-by-mistake makes no agents"):
        mixed.make_agent(one_view(agent_id=1))


@pytest.mark.parametrize(
    "text",
    [
        "resilient-ucb+liar",
        "resilient-ucb+liar@",
        "dducb+liar@x",
        "dducb+liar@²",
        f"dducb+liar@{'9' * 5000}",
    ],
)
def test_a_group_without_agents_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="liar@0,5"):
        parse_policy(text)


def test_messages_are_overtaken_as_the_senders_policy_says() -> None:
    mixed = populate(FloodUCB(), {TreeUCB(): [0]})
    assert [mixed.overtakes_from(agent) for agent in range(3)] == [True, False, False]
    assert not mixed.overtakes
    trees = populate(TreeUCB(), {TreeUCB(): [0]})
    assert trees.overtakes
    assert TreeUCB().overtakes_from(5)
    assert not FloodUCB().overtakes_from(5)
