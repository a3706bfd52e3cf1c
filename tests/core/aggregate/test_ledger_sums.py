"""Ledger sums: no pull is entered twice, none is lost while memories last, whatever happens."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import strategies as st

from coopbandits.core import (
    ArmSums,
    InputError,
    LedgerTS,
    LinearSums,
    Statistic,
    TreeTS,
    Vector,
)
from coopbandits.core.aggregate import LedgerSums, ledger_sums
from coopbandits.core.aggregate.claims import Claims, PartlyImpossibleError
from coopbandits.core.aggregate.extrema import EXPONENTIALS, counted
from coopbandits.core.aggregate.ledger_sums import (
    LINEAGE_BITS,
    YOUNG,
    tenure_of,
)
from coopbandits.core.aggregate.moving_mass import mark_of, pulls_in

from ..fields import Fields
from ..fleet import GRAPHS, gossip_matrix, machine, one_view, through_json, views
from ..ledgers import Followed, Wandering, handed, in_a_hurry, root_says
from ..rough import CALM, NUM_ARMS, Rough, Schedule, given_in_tiers, graphs, schedules

ROUNDS = 50
ROUGH = Schedule(key=1, loss=0.6, late=3, sleep=0.3, spell=7, both_ways=False)


@given_in_tiers(6, 15, graphs(), schedules)
def test_every_pull_is_in_one_place_and_in_no_ledger_twice(
    graph: nx.Graph[Any], schedule: Schedule
) -> None:
    world = Followed(graph, ROUNDS)
    with in_a_hurry():
        for _ in range(ROUNDS):
            world.pull()
            world.step(schedule)
            world.assert_every_pull_is_somewhere()


@given_in_tiers(
    6, 15, graphs(), schedules, st.lists(st.tuples(st.integers(0, 5), st.integers(5, ROUNDS)))
)
def test_lost_memories_make_no_pull_count_twice(
    graph: nx.Graph[Any], schedule: Schedule, losses: list[tuple[int, int]]
) -> None:
    world = Followed(graph, ROUNDS)
    with in_a_hurry():
        for now in range(ROUNDS):
            for agent in {agent for agent, when in losses if when == now and agent < len(graph)}:
                world.forget(agent)
            world.pull()
            world.step(schedule)


@given_in_tiers(4, 15, graphs(), schedules)
def test_neighbours_that_come_and_go_make_no_pull_count_twice_and_lose_none(
    graph: nx.Graph[Any], schedule: Schedule
) -> None:
    world = Wandering(graph, ROUNDS)
    with in_a_hurry():
        for _ in range(ROUNDS):
            world.pull()
            world.step(schedule)
        world.settle()
        world.assert_every_pull_is_somewhere()


@given_in_tiers(6, 15, graphs(), schedules)
def test_what_is_certain_only_grows_and_is_at_least_what_the_ledger_tells(
    graph: nx.Graph[Any], schedule: Schedule
) -> None:
    """D and own pulls since may be fewer than before; C has more with every change."""
    world, before = Followed(graph, ROUNDS), [np.zeros(ROUNDS * len(graph))] * len(graph)
    with in_a_hurry():
        for _ in range(ROUNDS):
            world.pull()
            world.step(schedule)
            for i, agent in enumerate(world.agents):
                certain = world.counts(agent.certain)
                assert certain.sum() > before[i].sum()
                assert certain.sum() >= world.counts(agent.ledger + agent.meanwhile).sum()
                told = agent.estimate().certain
                assert told is not None
                assert told.counts.tolist() == certain.tolist()
                before[i] = certain


STEP_DOWN, KEEP = ledger_sums.step_down, ledger_sums.keep_ledger


def hand_on_again(s: Any) -> None:
    """A deliberate mistake: who steps down hands on what it had collected."""
    s.held[:] += s.collected
    STEP_DOWN(s)


def adopt_by_count(s: Any, inbox: Any, lengths: Any) -> None:
    """A deliberate mistake: V becomes the ledger where it counts more."""
    KEEP(s, inbox, lengths)
    if pulls_in(s, s.own + s.branches) > pulls_in(s, s.ledger):
        s.ledger[:], s.meanwhile[:] = s.own + s.branches, 0.0


@pytest.mark.parametrize(
    ("name", "mistake"), [("step_down", hand_on_again), ("keep_ledger", adopt_by_count)]
)
def test_the_watch_over_ledgers_sees_mistakes(
    name: str, mistake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the mass of every pull, and by what stands in ledgers alone."""
    monkeypatch.setattr(ledger_sums, name, mistake)
    with pytest.raises(AssertionError), in_a_hurry():
        _play_followed(somewhere=True)
    with pytest.raises(AssertionError, match="twice in the ledger"), in_a_hurry():
        _play_followed(somewhere=False)


def _play_followed(*, somewhere: bool) -> None:
    for key in range(8):
        world = Followed(GRAPHS["complete-6"], ROUNDS)
        for _ in range(ROUNDS):
            world.pull()
            world.step(Schedule(**(vars(ROUGH) | {"key": key})))
            if somewhere:
                world.assert_every_pull_is_somewhere()


@pytest.mark.covering(2)
@pytest.mark.parametrize("graph", ["cycle-9", "grid-2x4", "star-6", "single"])
def test_everything_is_in_every_ledger_in_the_end(graph: str) -> None:
    """Nobody loses memory, and the root stays: then nothing is missing, agents included."""
    world = Rough(partial(machine, LedgerSums()), GRAPHS[graph])
    lossy = Schedule(**(vars(CALM) | {"loss": 0.3}))
    for _ in range(YOUNG + 20):
        world.pull()
        world.step(lossy)
    for _ in range(60):
        world.step(lossy)
    size = len(world.agents)
    for agent in world.agents:
        assert agent.ledger.tolist() == [*world.paid, size, size * (YOUNG + 20)]
        estimate = agent.estimate()
        assert [*estimate.sums, *estimate.counts] == world.paid.tolist()
        assert agent.held.tolist() == [0.0] * agent.held.size


STATISTICS: dict[str, Statistic] = {
    "squares": ArmSums(squares="pooled"),
    "squares of arms": ArmSums(squares="arms"),
    "linear": LinearSums().with_features(2),
    "linear by arm": LinearSums(disjoint=True).with_features(2),
}


@pytest.mark.covering(2)
@pytest.mark.parametrize("kind", STATISTICS)
def test_any_statistic_is_entered_whole(kind: str) -> None:
    """Every register of every pull, whatever it adds up; messages get lost meanwhile."""
    registers = STATISTICS[kind].registers(NUM_ARMS)
    world: Rough[Any] = Rough(
        lambda view: Fields(LedgerSums().make(view, registers)), GRAPHS["grid-2x4"]
    )
    expected = registers.zeros()
    with in_a_hurry(undercut=1):
        for now in range(40):
            for i, agent in enumerate(world.agents if now < 20 else ()):
                arm, reward = (now + i) % NUM_ARMS, float((3 * now + 5 * i) % 7 - 1)
                context = np.array([1.0, now % 3 - i % 2])
                agent.observe(arm, reward, context)
                registers.record(expected, arm, reward, context)
            world.step(Schedule(**(vars(CALM) | {"loss": 0.3})))
    for agent in world.agents:
        assert agent.ledger.tolist() == [*expected, 8.0, 8 * 20.0]


def test_the_ledger_outlives_the_tree() -> None:
    """Everybody is alone from one round to the next: V forgets the others, the ledger does not."""
    world = Rough(partial(machine, LedgerSums()), GRAPHS["cycle-5"])
    for now in range(YOUNG + 60):
        world.pull()
        world.step(CALM if now < YOUNG + 30 else Schedule(**(vars(CALM) | {"loss": 1.0})))
    for agent in world.agents:
        assert (agent.own + agent.branches)[-2] == 1.0
        estimate = agent.estimate()
        known = agent.ledger + agent.meanwhile
        assert [*estimate.sums, *estimate.counts] == known[:-2].tolist()
        assert estimate.counts.sum() > 5 * (YOUNG + 20)
        num_agents = max(5.0, counted(agent.machine.state))
        assert estimate.anticipation == pytest.approx(num_agents * (YOUNG + 60) / known[-1])


def test_nothing_is_handed_on_before_it_is_acknowledged() -> None:
    mine = machine(LedgerSums(), one_view(num_arms=1))
    mine.observe(0, 1.0)
    first = mine.outgoing(2)
    assert first[mine.start - 2] == 1.0  # no mark: nobody has been heard
    mine.receive({2: root_says(mine, 1)})
    assert mine.parent == 2
    assert handed(mine, 2) == 0.0
    mine.receive({2: root_says(mine, 2, heard=1.0)})  # what it heard was before the mark
    assert handed(mine, 2) == 0.0
    marked = mine.outgoing(2)
    number = float(marked[mine.start - 2])
    assert number == 3.0 + mark_of(1, 1)
    mine.receive({2: root_says(mine, 3, heard=number)})
    assert handed(mine, 2) == 1.0
    assert handed(mine, 1) == 0.0
    mine.receive({})
    assert (mine.held.tolist(), mine.sent[1].tolist()) == ([0.0] * 4, [1.0, 1.0, 1.0, 1.0])
    # A neighbour that lost its memory has to acknowledge again.
    mine.receive({2: root_says(mine, 5, mark=0.75)})
    mine.observe(0, 1.0)
    assert handed(mine, 2) == 1.0
    mine.receive({2: root_says(mine, 6, heard=5.0 + mark_of(1, 1), mark=0.75)})
    assert handed(mine, 2) > 1.0


def test_where_pulls_are() -> None:
    """Held; on their way until they are confirmed; and in the ledger."""
    mine = machine(LedgerSums(), one_view(num_arms=1))
    mine.observe(0, 1.0)
    assert mine.moving() == (1.0, 0.0, 0.0)
    mine.receive({2: root_says(mine, 1)})
    mark = float(mine.marks[1])
    for now, (held, underway) in enumerate([(1.0, 0.0), *[(0.0, 1.0)] * 3, (0.0, 0.0)], start=2):
        mine.receive({2: root_says(mine, now, heard=now - 1.0 + mark, pulls=7.0)})
        assert mine.moving() == (held, underway, 7.0)
    mine.receive({2: root_says(mine, 9, mark=0.75, pulls=7.0)})
    assert mine.moving() == (0.0, 0.0, 7.0)
    agents: list[Any] = [policy.make_agent(one_view()) for policy in (LedgerTS(), TreeTS())]
    assert [agent.moving() for agent in agents] == [(0.0, 0.0, 0.0), None]


def test_only_what_is_new_is_taken_and_nothing_of_another_memory() -> None:
    mine = machine(LedgerSums(), one_view(num_arms=1))
    for beat, more, held in (
        (1, {"handed": 5.0}, 0.0),  # first contact: it was handed to a memory of before
        (2, {"handed": 7.0}, 2.0),
        (2, {"handed": 7.0}, 2.0),  # the same again
        (1, {"handed": 5.0}, 2.0),  # late
        (3, {"handed": 6.0}, 2.0),  # fewer, which nobody honest tells
        (4, {"handed": 7.0}, 3.0),
        (9, {"handed": 3.0, "mark": 0.5}, 3.0),  # a memory was lost
        (10, {"handed": 4.0, "mark": 0.5}, 4.0),
        (11, {"handed": 9.0, "mark": 0.0}, 4.0),  # without a mark nothing is handed on
    ):
        mine.receive({2: root_says(mine, beat, **more)})
        assert mine._pulls(mine.held) == held


def test_a_root_takes_a_larger_ledger_and_drops_what_is_in_it() -> None:
    mine = machine(LedgerSums(), one_view(num_arms=1))
    for _ in range(YOUNG):
        mine.observe(0, 1.0)
        mine.receive({})
    assert mine._pulls(mine.ledger) == YOUNG
    tenure = mine.tenure
    assert mine.lineage == tenure == tenure_of(1, YOUNG)

    def ledger(pulls: float, lineage: int) -> Vector:
        told = root_says(mine, mine.rounds + 1, pulls=pulls, lineage=float(lineage))
        told[-4] = 0.99  # no root to follow
        return told

    others = (1 << LINEAGE_BITS) - 1 - tenure
    mine.receive({2: ledger(YOUNG + 0.0, others)})
    assert mine._pulls(mine.ledger) == YOUNG  # not larger
    mine.receive({2: ledger(100.0, others)})
    assert mine._pulls(mine.ledger) == 100.0 + YOUNG
    assert (mine.tenure, mine.lineage) == (tenure, others | tenure)
    mine.receive({2: ledger(300.0, tenure)})
    assert mine._pulls(mine.ledger) == 300.0
    assert mine.tenure != tenure
    mine.observe(0, 1.0)
    mine.receive(
        {2: root_says(mine, 999)}
    )  # a better root: all that was collected is in the ledger
    assert (mine.dist, mine.tenure, mine._pulls(mine.ledger)) == (1.0, 0, 300.0)
    assert mine._pulls(mine.held) == 1.0
    assert not mine.base.any()
    assert not mine.collected.any()


def test_a_tree_that_counts_too_much_is_not_believed() -> None:
    mine = machine(LedgerSums(), one_view(num_arms=1))
    mine.total = 31 / 4.0  # four agents
    mine.ledger = np.array([3.0, 9.0, 4.0, 90.0])
    mine.rounds = 50
    for agents, pulls, counts, believed, behind in (
        (4.0, 8.0, 9.0, 4.0, 90.0),  # the ledger has more pulls
        (4.0, 20.0, 20.0, 4.0, 100.0),
        (6.0, 20.0, 20.0, 6.0, 100.0),
        (7.0, 15.0, 9.0, 4.0, 90.0),  # 15 · 4/7 are fewer than 9
        (7.0, 20.0, 20.0, 4.0, 400 / 7),
        (9.0, 99.0, 9.0, 4.0, 90.0),  # more agents than twice what minima say
    ):
        mine.own = np.array([5.0, pulls, agents, 100.0])
        estimate = mine.estimate()
        assert estimate.counts.tolist() == [counts]
        assert estimate.num_agents == pytest.approx(believed)
        assert estimate.anticipation == pytest.approx(believed * 50 / behind)


def test_a_steady_tree_says_how_many_agents_there_are() -> None:
    """Also where a ledger has pulls of agents that died, or lost their memory."""
    mine = machine(LedgerSums(), one_view(num_arms=1))
    mine.total = 31 / 4.0  # four agents
    mine.ledger = np.array([3.0, 9.0, 6.0, 90.0])
    for steady, seen, believed in ((19, 3.0, 6.0), (20, 3.0, 3.0), (20, 1.0, 6.0)):
        mine.steady, mine.agents_seen = steady, seen
        assert mine.estimate().num_agents == pytest.approx(believed)
    mine.stood = 2500
    assert mine.estimate().num_agents == 1.0, "whatever minima say, it has long been so"
    mine.stood = 0
    mine.most_agents = 5.0
    assert mine.estimate().num_agents == 5.0, "no more than there can be"


@pytest.mark.parametrize(
    "first",
    [
        2**32 - 100,
        pytest.param(2**31 - 100, marks=pytest.mark.slow),
        pytest.param(2**40, marks=pytest.mark.slow),
    ],
)
def test_numbers_hold_their_marks_after_years(first: int) -> None:
    """Seven years have 2^32 rounds of 50 ms."""
    world = Followed(GRAPHS["path-4"], 3 * YOUNG + 1)
    for agent in world.agents:
        agent.rounds = first
    for _ in range(3 * YOUNG):
        world.pull()
        world.step()
        world.assert_every_pull_is_somewhere()
    assert max(agent._pulls(agent.ledger) for agent in world.agents) >= 4 * (3 * YOUNG - 8)
    world.pull()
    world.reopen(0, world.agents[0].export_state())
    world.step()
    assert world.agents[0].is_recovered
    world.assert_every_pull_is_somewhere()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"lineage": 1 << LINEAGE_BITS}, "lineage.*48"),
        ({"tenure": -1}, "state field tenure"),
        ({"marks": [0.5, 1.5]}, "marks are fractions"),
        ({"former": [[7.0, 1.0, 0.5, 64.0, 0.0]]}, "former.*neighbours"),
    ],
)
def test_impossible_states_are_refused(change: dict[str, Any], sentence: str) -> None:
    mine = machine(LedgerSums(), one_view())
    state = mine.export_state()
    with pytest.raises(InputError, match=sentence):
        mine.restore_state(state | change)
    assert mine.export_state() == state


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"handed": -1.0}, "never negative"),
        ({"handed": 241.0}, "pulls by 4 agents"),
        ({"mark": 1e9}, r"number.*1e\+09"),
    ],
)
def test_impossible_claims_are_refused(more: dict[str, float], sentence: str) -> None:
    mine = machine(LedgerSums(), one_view(num_arms=1))
    claims = Claims(bounded=False, rate=1.0, epoch=0.0, max_agents=4)
    mine.check_claims(root_says(mine, 9, pulls=30.0, handed=3.0), claims, 0.0)
    mine.check_claims(root_says(mine, 9)[:4], claims, 0.0)  # of no form: refused at the round's end
    with pytest.raises(InputError, match=sentence):
        mine.check_claims(root_says(mine, 9, **more), claims, 0.0)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"pulls": 241.0}, "pulls by 4 agents"),
        ({"pulls": -1.0}, "never negative"),
        ({"lineage": 0.5}, "lineage.*48"),
    ],
)
def test_an_impossible_ledger_is_left_out_and_the_rest_believed(
    more: dict[str, float], sentence: str
) -> None:
    """An honest root that was lied to does not lose its neighbours."""
    mine = machine(LedgerSums(), one_view(num_arms=1))
    claims = Claims(bounded=False, rate=1.0, epoch=0.0, max_agents=4)
    told = root_says(mine, 9, handed=3.0, **more)
    with pytest.raises(PartlyImpossibleError, match=sentence) as caught:
        mine.check_claims(told, claims, 0.0)
    width = mine.own.size
    assert not caught.value.rest[width : 2 * width + 1].any()
    assert caught.value.rest[:width].tolist() == told[:width].tolist()
    assert not caught.value.passes
    mine.check_claims(caught.value.rest, claims, 0.0)
    mine.receive({2: caught.value.rest})
    assert mine.parent == 2


def test_arms_may_come_while_pulls_move() -> None:
    """Two agents with arms in different orders, of which one is told of the third later."""
    first, second = views(gossip_matrix(nx.path_graph(2)), NUM_ARMS)
    mine, yours = (machine(LedgerSums(), view) for view in (first, replace(second, num_arms=3)))
    order, pulled = (1, 0, 2), np.zeros(3)  # where my arms are among yours, and the other way round
    for now in range(YOUNG + 20):
        if now == 10:
            wide = machine(LedgerSums(), replace(first, num_arms=3))
            state = through_json(mine.export_state())
            wide.restore_state(wide.rearranged(state, mine.registers, range(NUM_ARMS)))
            mine = wide
        known = mine.registers.num_arms
        for agent, arm in ((mine, now % known), (yours, now % 3)) if now < 20 else ():
            agent.observe(arm, 1.0)
            pulled[arm if agent is mine else order[arm]] += 1.0
        told, answer = mine.outgoing(1), yours.outgoing(0)
        yours.receive({0: yours.translated(told, mine.registers, order[:known])})
        heard = {1: mine.translated(answer, yours.registers, order)} if known == 3 else {}
        mine.receive(heard)
    assert mine.registers.share(mine.ledger[:-2]).counts.tolist() == pulled.tolist()
    assert yours.registers.share(yours.ledger[:-2]).counts.tolist() == pulled[list(order)].tolist()
    for agent in (mine, yours):
        assert agent.ledger[-2:].tolist() == [2.0, 40.0]
    assert mine.translated(np.ones(3), yours.registers, order).tolist() == [1.0] * 3


def test_ill_formed_messages_change_nothing() -> None:
    mine = machine(LedgerSums(), one_view(num_arms=1))
    before = mine.export_state()
    for message, sentence in (
        (np.zeros(5), "shape"),
        (root_says(mine, 1, lineage=0.5), r"\b2\b.*lineage.*0\.5"),
        (np.append(root_says(mine, 1), [-1.0] * EXPONENTIALS), "minima"),
    ):
        with pytest.raises(InputError, match=sentence):
            mine.receive({2: message})
    assert mine.export_state() == before


def test_mass_ages_on_its_way() -> None:
    """With a discount every pull in a ledger counts γ to its age, wherever it has been."""
    world = Rough(partial(machine, LedgerSums(discount=0.5)), GRAPHS["path-4"])
    with in_a_hurry():
        for now in range(30):
            if now == 10:
                world.pull()
            world.step()
    for agent in world.agents:
        assert agent._pulls(agent.ledger) == 4.0
        assert agent.registers.pulls(agent.ledger[:-2]) == 4.0 * 0.5**20
        assert not agent.held[:-2].any()
