"""Tree sums: exact on a tree that stands, and never a loop, whatever the network does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from coopbandits.core import InputError, Vector
from coopbandits.core.aggregate import TreeSums
from coopbandits.core.aggregate.extrema import EXPONENTIALS, counted
from coopbandits.core.aggregate.spanning_tree import FAR, NOBODY, tag_of
from coopbandits.core.aggregate.tree_sums import FEW

from ..fleet import GRAPHS, machine, one_view  # as in test_local
from ..rough import CALM, Rough, Schedule, graphs, schedules

REPEATABLE = settings(max_examples=12, deadline=None, derandomize=True, database=None)


def message(payload: list[float], root: float, beat: int, dist: float, bond: int) -> Vector:
    return np.array([*payload, root, beat, dist, bond], dtype=np.float64)


def a_tree(**known: float) -> Any:
    """An agent with neighbours 1 and 2, and one arm; 2 is its parent and 1 its child."""
    mine = machine(TreeSums(), one_view(num_arms=1, **known))
    mine.receive(
        {
            1: message([5.0, 2.0, 1.0, 2.0], mine.tag, 1, 1, 2),
            2: message([7.0, 3.0, 2.0, 3.0], mine.tag / 2, 9, 4, 1),
        }
    )
    return mine


def test_rounds_by_hand() -> None:
    mine = a_tree()
    assert (mine.parent, mine.root, mine.beat, mine.dist) == (2, mine.tag / 2, 9.0, 5.0)
    mine.observe(0, 10.0)
    to_child, to_parent = mine.outgoing(1), mine.outgoing(2)
    assert to_child is not None
    assert to_parent is not None
    assert to_child[:8].tolist() == [17.0, 4.0, 3.0, 4.0, mine.tag / 2, 9.0, 5.0, 1.0]
    assert to_parent[:8].tolist() == [15.0, 3.0, 2.0, 3.0, mine.tag / 2, 9.0, 5.0, 2.0]
    assert to_child[8:].tolist() == mine.minima.tolist()
    estimate = mine.estimate()
    assert (estimate.sums.tolist(), estimate.counts.tolist()) == ([22.0], [6.0])
    assert (estimate.time, estimate.squares) == (6.0, ())
    num_agents = max(4.0, counted(mine.machine.state))
    assert estimate.num_agents == num_agents
    assert estimate.anticipation == max(1.0, num_agents * 1 / 6)


def test_who_is_no_relative_is_told_everything_and_not_counted() -> None:
    mine = machine(TreeSums(), one_view(num_arms=1), squares="pooled")
    mine.observe(0, 3.0)
    mine.receive({1: message([5.0, 2.0, 25.0, 1.0, 2.0], mine.tag + 0.1, 1, 1, 1)})
    told = mine.outgoing(1)
    assert told is not None
    assert told[:5].tolist() == [3.0, 1.0, 9.0, 1.0, 1.0]
    assert mine.estimate().squares == [9.0]
    assert (mine.parent, mine.dist, mine.beat) == (NOBODY, 0.0, 1.0)
    assert told[5:9].tolist() == [mine.tag, 2.0, 0.0, 1.0]


def test_nothing_is_anticipated_without_a_common_round() -> None:
    mine = machine(TreeSums(), one_view(common_round=False))
    assert mine.estimate().anticipation == 1.0
    mine.observe(0, 1.0)
    for _ in range(5):
        mine.receive({})
    assert mine.estimate().anticipation == 1.0
    common = machine(TreeSums(), one_view())
    common.restore_state(mine.export_state())
    assert common.estimate().anticipation == 5 * common.estimate().num_agents


def test_the_number_of_agents_is_believed_when_it_is_steady() -> None:
    mine = a_tree()
    mine.minima, mine.total = np.full(EXPONENTIALS, 31 / 32 / 8.0), 31 / 8.0  # eight agents
    for steady, expected in ((19, 8.0), (20, 4.0)):
        mine.steady = steady
        assert mine.estimate().num_agents == pytest.approx(expected)
        told = mine.outgoing(1)
        assert told is not None
        assert told.size == 8 + (EXPONENTIALS if steady < 20 else 0)
    mine.total /= 2.0  # sixteen: four are too few to be all
    assert mine.estimate().num_agents == pytest.approx(16.0)
    for stood, standing, expected in ((2499, 4.0, 16.0), (2500, 4.0, 4.0), (2500, 3.0, 16.0)):
        mine.stood, mine.standing = stood, standing
        assert mine.estimate().num_agents == pytest.approx(expected)
    mine.receive({2: message([7.0, 3.0, 2.0, 3.0], mine.root, 10, 4, 1)})
    assert mine.steady == 21
    mine.receive({2: message([7.0, 3.0, 3.0, 3.0], mine.root, 11, 4, 1)})
    assert mine.steady == 0


def test_no_more_agents_are_believed_in_than_there_can_be() -> None:
    """Each neighbour may tell of as many as there are, and V adds them up."""
    mine = a_tree(max_agents=3.0)
    assert mine.estimate().num_agents == 3.0
    mine.steady = 20
    assert mine.estimate().num_agents == 3.0


def test_a_silent_child_leaves_the_totals_and_a_silent_parent_is_dropped() -> None:
    """18 silent rounds for a mean gap of 1; root and beat are kept, at an infinite distance."""
    mine = a_tree()
    for _ in range(18):
        mine.receive({})
    assert (mine.parent, mine.estimate().counts.tolist()) == (2, [5.0])
    mine.receive({})
    assert (mine.parent, mine.estimate().counts.tolist()) == (NOBODY, [0.0])
    assert (mine.root, mine.beat, mine.dist) == (mine.tag / 2, 9.0, FAR)


def test_a_parent_whose_root_has_grown_is_dropped() -> None:
    mine = a_tree()
    mine.receive({2: message([0.0, 0.0, 1.0, 0.0], 0.9, 10, 0, 1)})
    assert (mine.parent, mine.root, mine.dist) == (NOBODY, mine.tag / 2, FAR)
    # The old root is taken again with a newer beat only, and from whoever is not at infinity.
    for beat, dist, parent in ((9, 1, NOBODY), (10, FAR, NOBODY), (10, 1, 2)):
        mine.receive({2: message([0.0] * 4, mine.root, beat, dist, 1)})
        assert mine.parent == parent
    assert (mine.dist, mine.beat) == (2.0, 10.0)
    mine.receive({2: message([0.0] * 4, mine.root, 11, FAR, 1)})
    assert (mine.parent, mine.dist) == (2, FAR)


def test_a_deaf_parent_is_dropped_unless_all_are_deaf() -> None:
    mine = a_tree()
    mine.receive({2: message([0.0] * 4, mine.root, 10, 4, 0)})
    assert (mine.parent, mine.dist) == (NOBODY, FAR)
    mine.receive({2: message([0.0] * 4, mine.root, 11, 4, 0)})
    assert mine.parent == NOBODY
    mine.receive({j: message([0.0] * 4, mine.root, 12, 3 + j, 0) for j in (1, 2)})
    assert mine.parent == 1
    for _ in range(19):
        mine.receive({1: message([0.0] * 4, mine.root, mine.rounds + 20, 4, 0)})
    bonds = [mine.outgoing(j) for j in (1, 2)]
    assert [told[7] for told in bonds if told is not None] == [2.0, 0.0]


def test_links_that_work_one_way_are_left_out_of_the_tree() -> None:
    """A cycle with one link that carries nothing from 0 to 1: totals are exact all the same."""

    class OneWay(Schedule):
        def delay(self, now: int, sender: int, receiver: int) -> int | None:
            return None if (sender, receiver) == (0, 1) else 0

    world = Rough(partial(machine, TreeSums()), GRAPHS["cycle-5"])
    for _ in range(60):
        world.pull()
        world.step(OneWay(**vars(CALM)))
    assert_exact(world)
    assert world.agents[0].parent != 1
    assert world.agents[1].parent != 0


def test_a_nearer_neighbour_with_a_newer_beat_becomes_parent() -> None:
    mine = a_tree()
    root = mine.root
    for beat, dist, parent in ((9, 2, 2), (10, 4, 2), (11, 3, 1)):
        mine.receive({1: message([0.0] * 4, root, beat, dist, 1)})
        assert mine.parent == parent


def test_a_lost_root_is_replaced() -> None:
    """After 40 + 8 + 56/8 rounds without a new beat, by the own tag, one below the lost root's."""
    mine = a_tree()
    still = message([0.0] * 4, mine.root, 9, 4, 1)
    for _ in range(55):
        mine.receive({2: still})
    assert mine.parent == 2
    mine.receive({2: still})
    assert (mine.parent, mine.root, mine.dist) == (NOBODY, mine.tag - 1.0, 0.0)
    assert mine.beat == mine.rounds
    assert mine.root < still[4]
    mine.receive({1: message([0.0] * 4, mine.root - 3.0, 5, 0, 1)})
    assert (mine.parent, mine.beat) == (1, 5.0)


def test_a_lost_root_is_waited_for_longer_the_more_is_known() -> None:
    mine = a_tree()
    mine.lived = 10_000
    for _ in range(40 + 8 + 800):
        mine.receive({2: message([0.0] * 4, mine.root, 9, 4, 1)})
    assert mine.parent == 2
    mine.receive({2: message([0.0] * 4, mine.root, 9, 4, 1)})
    assert mine.parent == NOBODY


def test_rounds_before_an_agent_starts_do_not_delay_its_takeover() -> None:
    """A fresh agent may sit out 10 000 rounds; its patience is that of a young one."""
    mine = machine(TreeSums(), one_view(num_arms=1))
    for _ in range(10_000):
        mine.receive({})
    root = mine.tag / 2
    for _ in range(60):
        mine.receive({2: message([0.0] * 4, root, 9, 4, 1)})
    assert (mine.root, mine.dist) == (mine.tag + np.floor(root) - 1.0, 0.0)


def test_an_overdue_beat_makes_a_farther_neighbour_with_a_newer_beat_parent() -> None:
    """As in a loop that an agent without memory closed: its beat stands still, others' do not."""
    mine = a_tree()
    root = mine.root

    def hear(beat: int) -> None:
        mine.receive(
            {
                1: message([0.0] * 4, root, beat, 30, 1),
                2: message([0.0] * 4, root, 9, 4, 1),
            }
        )

    for beat in range(10, 10 + 18):
        hear(beat)
        assert mine.parent == 2
    hear(28)
    assert (mine.parent, mine.beat, mine.dist) == (1, 28.0, 31.0)


def test_rounds_without_messages_do_not_make_a_count_steady() -> None:
    mine = a_tree()
    heard = {2: message([7.0, 3.0, 2.0, 3.0], mine.root, 10, 4, 1)}
    mine.receive(heard)
    steady = mine.steady
    for _ in range(5):
        mine.receive({})
    assert mine.steady == steady
    mine.receive(heard)
    assert mine.steady == steady + 1


def test_rounds_without_messages_do_not_make_a_root_lost() -> None:
    """Nor does hearing again after long: it takes as many rounds heard as ever."""
    mine = a_tree()
    for _ in range(300):
        mine.receive({})
    assert (mine.root, mine.dist) == (mine.tag / 2, FAR)
    heard = 0
    while mine.root == mine.tag / 2:
        mine.receive({1: message([0.0] * 4, 0.9, 9, 4, 0)})
        heard += 1
    assert (mine.root, mine.dist) == (mine.tag - 1.0, 0.0)
    assert heard - 1 <= 40 + 8 + mine.lived / 8 < heard + 1


def test_agents_that_seldom_act_do_not_replace_a_root_that_lives() -> None:
    """One agent in two acts once in 60 rounds: nobody could hear more beats than it does."""
    network = GRAPHS["cycle-9"]

    class Slow(Schedule):
        def sleeps(self, now: int, agent: int) -> bool:
            return agent % 2 == 1 and (now + 7 * agent) % 60 != 0

    world = Rough(partial(machine, TreeSums()), network)
    for _ in range(600):
        world.pull()
        world.step(Slow(**vars(CALM)))
    tags = [agent.tag for agent in world.agents]
    assert {agent.root % 1.0 for agent in world.agents} == {min(tags)}


def test_a_root_of_long_standing_lowers_its_value() -> None:
    """After 256, 512 and 1024 rounds; those before it has pulled or heard do not count."""
    mine = machine(TreeSums(), one_view(num_arms=1))
    for _ in range(300):
        mine.receive({})
    assert (mine.root, mine.reign) == (mine.tag, 0)
    mine.observe(0, 1.0)
    lowered: list[tuple[int, float]] = []
    for now in range(1, 1100):
        mine.receive({})
        if not lowered or mine.root < lowered[-1][1]:
            lowered.append((now, mine.root))
    tag = mine.tag
    assert lowered == [(1, tag), (256, tag - 1.0), (512, tag - 2.0), (1024, tag - 3.0)]
    mine.receive({1: message([0.0] * 4, tag - 9.0, 5, 0, 1)})
    assert (mine.parent, mine.reign) == (1, 0)


def test_rounds_behind_totals_count_from_the_first_pull() -> None:
    mine = machine(TreeSums(), one_view(num_arms=1))
    for pulls, behind in ((0, 0.0), (1, 1.0), (1, 2.0), (0, 2.0), (2, 4.0)):
        for _ in range(5 if mine.rounds == 0 else 1):
            mine.receive({})
        for _ in range(pulls):
            mine.observe(0, 1.0)
        assert mine.own[-1] == behind


def test_means_of_gaps_make_patient() -> None:
    mine = a_tree()
    for now in range(1, 61):
        heard = message([0.0] * 4, mine.root, 9 + now, 4, 1)
        mine.receive({2: heard} if now % 10 == 0 else {})
    assert mine.gaps[1] == pytest.approx(10 - 9 * 0.8**6)
    assert mine.beat_gap == 1.0  # a beat in every round in which anything was heard


def test_tags_are_unit_uniforms_and_shift_exactly() -> None:
    tags = np.array([tag_of(word) for word in range(1, 2001)])
    assert np.unique(tags).size == 2000
    assert abs(tags.mean() - 0.5) < 4 * 12**-0.5 / 2000**0.5
    assert ((tags - 4000.0) + 4000.0 == tags).all()


def parents_have_a_loop(world: Rough[Any]) -> bool:
    for agent in world.agents:
        steps = 0
        while agent.parent != NOBODY:
            agent, steps = world.agents[agent.parent], steps + 1
            if steps > len(world.agents):
                return True
    return False


def assert_exact(world: Rough[Any]) -> None:
    """Everybody's totals are those of everybody, as old as they are far away on the tree.

    In the round after, that is: what a neighbour pulled in the last one has just arrived.
    """
    tree: nx.Graph[Any] = nx.empty_graph(len(world.agents))
    tree.add_edges_from((i, a.parent) for i, a in enumerate(world.agents) if a.parent != NOBODY)
    assert nx.is_tree(tree)
    for i, agent in enumerate(world.agents):
        ages = nx.single_source_shortest_path_length(tree, i)
        expected = sum(world.history[world.now + 1 - max(1, ages[j])][j] for j in tree)
        estimate = agent.estimate()
        assert [*estimate.sums, *estimate.counts] == np.asarray(expected).tolist()
        assert agent.agents_seen == len(world.agents)


@REPEATABLE
@given(graphs(9))
def test_three_diameters_make_totals_exact(graph: nx.Graph[Any]) -> None:
    world = Rough(partial(machine, TreeSums()), graph)
    for _ in range(3 * nx.diameter(graph) + 2):
        world.pull()
        world.step()
        assert not parents_have_a_loop(world)
    assert_exact(world)
    best = min(agent.tag for agent in world.agents)
    assert all(agent.root == best for agent in world.agents)
    distance = nx.single_source_shortest_path_length(
        graph, next(i for i, agent in enumerate(world.agents) if agent.dist == 0)
    )
    assert [agent.dist for agent in world.agents] == [distance[i] for i in graph]


@pytest.mark.parametrize("leaves", [FEW, FEW + 1])
def test_a_hub_of_many_relatives(leaves: int) -> None:
    """What each of them is told is a difference then; sums are whole numbers here, so exact."""
    world = Rough(partial(machine, TreeSums()), nx.star_graph(leaves))
    for _ in range(60):
        world.pull()
        world.step(Schedule(key=2, loss=0.2, late=0, sleep=0.0, spell=0, both_ways=True))
    for _ in range(4):
        world.pull()
        world.step()
    assert_exact(world)


@REPEATABLE
@given(graphs(), schedules)
def test_never_a_loop_under_any_schedule(graph: nx.Graph[Any], schedule: Schedule) -> None:
    world = Rough(partial(machine, TreeSums()), graph)
    for _ in range(60):
        world.pull()
        world.step(schedule)
        assert not parents_have_a_loop(world)
        for agent in world.agents:
            estimate = agent.estimate()
            assert np.isfinite([*estimate.sums, estimate.time, estimate.anticipation]).all()


@pytest.mark.covering(1)
@pytest.mark.plays
@pytest.mark.parametrize(
    ("graph", "loses_roots", "keys"),
    [
        ("grid-2x4", False, 1),
        ("grid-2x4", False, 2),
        ("cycle-9", True, 2),
        ("regular-3-8", True, 2),
    ],
)
def test_trees_fall_apart_and_heal(graph: str, loses_roots: bool, keys: int) -> None:
    """Long outages: parents are dropped, roots replaced, and totals exact when all is over.

    On the grid there is a way round every outage, in time to keep the root.
    """
    drops = roots = 0
    for key in range(keys):
        world = Rough(partial(machine, TreeSums()), GRAPHS[graph])
        schedule = Schedule(key, loss=0.2, late=0, sleep=0.1, spell=100, both_ways=key > 0)
        for now in range(520):
            parents = [agent.parent for agent in world.agents]
            world.pull()
            world.step(schedule if now < 300 else CALM)
            assert not parents_have_a_loop(world)
            pairs = list(zip(parents, world.agents, strict=True))
            drops += sum(old != NOBODY and agent.dist == FAR for old, agent in pairs)
            roots += sum(old != NOBODY and agent.dist == 0 for old, agent in pairs)
        assert_exact(world)
        assert all(agent.steady > 0 for agent in world.agents)
    assert drops > 10
    assert (roots > 0) == loses_roots


def test_a_root_that_is_gone_for_good() -> None:
    world = Rough(partial(machine, TreeSums()), GRAPHS["grid-2x4"])
    gone = min(range(8), key=lambda i: world.agents[i].tag)

    class Without(Schedule):
        def delay(self, now: int, sender: int, receiver: int) -> int | None:
            return None if gone in (sender, receiver) else 0

    silent = Without(**vars(CALM))
    for now in range(120):
        world.pull()
        world.step(CALM if now < 20 else silent)
    others = [agent for i, agent in enumerate(world.agents) if i != gone]
    assert len({agent.root for agent in others}) == 1
    assert all(agent.root < 0.0 and agent.agents_seen == 7 for agent in others)


def test_a_trap_for_trees() -> None:
    """Whoever drops its parent must not end below an agent that has not heard of it.

    0 and 1 have the smallest tags. 4 hangs on 0, 3 on 4, and 2 on 1. Then 4 loses 0, and 3 hears
    nothing of it; 4 meets 2, which loses 1 and meets 3. Were an agent free to forget its root, 4
    would go below 2 and 2 below 3, which is below 4.
    """
    graph: nx.Graph[Any] = nx.Graph([(0, 4), (4, 3), (3, 2), (2, 4), (2, 1)])
    words = sorted(range(1, 400), key=tag_of)
    since = {(0, 4): (0, 40), (1, 2): (0, 42), (2, 4): (58, 999), (2, 3): (60, 999)}

    class Trap(Schedule):
        def delay(self, now: int, sender: int, receiver: int) -> int | None:
            first, end = since.get((min(sender, receiver), max(sender, receiver)), (0, 999))
            muted = (sender, receiver) == (4, 3) and 58 <= now < 67
            return 0 if first <= now < end and not muted else None

    world = Rough(
        lambda view: machine(TreeSums(), replace(view, random_word=words[view.agent_id])),
        nx.convert_node_labels_to_integers(graph, ordering="sorted"),
    )
    for now in range(200):
        world.pull()
        world.step(Trap(**vars(CALM)))
        assert not parents_have_a_loop(world)
        if now >= 55:
            assert all(agent.agents_seen <= 4.0 for agent in world.agents)
    assert [agent.agents_seen for agent in world.agents] == [1.0, 1.0, 3.0, 3.0, 3.0]


BAD: dict[str, tuple[Any, str]] = {
    "short": (np.ones(9), r"\b2\b.*\(9,\).*\(10,\).*\(42,\)"),
    "nan": (np.full(10, np.nan), r"\b2\b.*finite"),
    "minima": (np.append(np.ones(41), 0.0), r"\b2\b.*minima"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_messages_change_nothing(case: str) -> None:
    bad, sentence = BAD[case]
    mine = machine(TreeSums(), one_view())
    before = mine.export_state()
    with pytest.raises(InputError, match=sentence):
        mine.receive({1: np.ones(10), 2: bad})
    assert mine.export_state() == before


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "up": (lambda s: s.update(up=7), r"up.* 7\b.*\[1, 2"),
    "rounds": (lambda s: s.update(rounds=-1), "rounds.*-1"),
    "payloads": (lambda s: s.update(payloads=[]), r"payloads.*\(0,\).*\(2, 4\)"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_state_that_no_agent_can_have_changes_nothing(name: str) -> None:
    tamper, sentence = TAMPERED[name]
    mine = a_tree()
    before, state = mine.export_state(), mine.export_state()
    tamper(state)
    with pytest.raises(InputError, match=sentence):
        mine.restore_state(state)
    assert mine.export_state() == before
