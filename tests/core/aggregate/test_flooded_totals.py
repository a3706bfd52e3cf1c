"""Flooding of totals: exact, never twice, sent until it has arrived, and then no more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import InputError
from coopbandits.core.aggregate import FloodedTotals
from coopbandits.core.aggregate.entries import FORGET, RENUMBER, entry_number
from coopbandits.core.aggregate.flooded_totals import (
    CHANGED,
    FloodedTotalsMachine,
    begin_round,
    end_round,
    hear,
    listen,
)

from ..fleet import GRAPHS, machine, one_view  # as in test_local
from ..rough import NUM_ARMS, Rough, Schedule, graphs, schedules

REPEATABLE = settings(max_examples=20, deadline=None, derandomize=True, database=None)


def sent(agent: FloodedTotalsMachine, neighbor: int) -> list[float]:
    message = agent.outgoing(neighbor)
    assert message is not None
    found: list[float] = message.tolist()
    return found


def test_rounds_by_hand() -> None:
    """One arm, and squares: entries are agent, rounds, sum, count, square."""
    mine = machine(FloodedTotals(), one_view(num_arms=1), squares="pooled")
    assert sent(mine, 1) == [1, 0, 0, 0, 0, 0, 0]
    mine.observe(0, 3.0)
    assert sent(mine, 1) == [1, 0, 0, 1, 3, 1, 9]
    mine.receive({1: np.array([1.0, 1, 1, 1, 5, 1, 25, 7, 4, 8, 4, 20])})
    estimate = mine.estimate()
    assert (estimate.sums.tolist(), estimate.counts.tolist()) == ([16.0], [6.0])
    assert (estimate.time, estimate.num_agents, *estimate.squares) == (6.0, 3.0, 54.0)
    assert estimate.anticipation == 1.0  # three agents and one round, of which six are known
    # Message 1 has arrived, but the pull might have come after it: it goes out once more. What
    # came from neighbour 1 does not go back; neighbour 2 knows nothing.
    assert sent(mine, 1) == [2, 1, 0, 1, 3, 1, 9]
    assert sent(mine, 2) == [2, 0, 0, 1, 3, 1, 9, 1, 1, 5, 1, 25, 7, 4, 8, 4, 20]
    # The entry with fewer pulls is the older one.
    mine.receive({1: np.array([2.0, 2, 7, 3, 7, 3, 15]), 2: np.array([2.0, 2])})
    assert mine.estimate().counts.tolist() == [6.0]
    assert sent(mine, 1) == [3, 2]
    assert sent(mine, 2) == [3, 2]
    mine.receive({2: np.array([3.0, 3, 7, 5, 9, 5, 21])})
    assert sent(mine, 1) == [4, 2, 7, 5, 9, 5, 21]
    assert sent(mine, 2) == [4, 3]


def test_what_is_on_its_way_is_anticipated() -> None:
    mine = machine(FloodedTotals(), one_view(num_arms=1))
    mine.observe(0, 3.0)
    for number in range(1, 9):
        mine.receive({1: np.array([number, 0.0, 1, 3, 6, 3])})
    assert mine.estimate().anticipation == 2 * 8 / (1 + 3)
    alone = machine(FloodedTotals(), one_view(num_arms=1, common_round=False))
    alone.restore_state(mine.export_state())
    assert alone.estimate().anticipation == 1.0


def test_an_agent_without_memory_hears_of_its_former_self() -> None:
    world = Rough(partial(machine, FloodedTotals()), GRAPHS["star-6"])
    for _ in range(10):
        world.pull()
        world.step()
    world.agents[0] = world.make(world.views[0])
    for _ in range(4):
        world.step()
    for agent in world.agents:
        assert agent.machine.entries[:, 2:].sum(axis=0).tolist() == world.paid.tolist()


@REPEATABLE
@given(graphs(8))
def test_totals_are_as_old_as_far(graph: nx.Graph[Any]) -> None:
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    world = Rough(partial(machine, FloodedTotals()), graph)
    for _ in range(nx.diameter(graph) + 3):
        world.pull()
        world.step()
        for i, agent in enumerate(world.agents):
            ages = {j: max(1, distance[i][j]) for j in graph}
            reached = [j for j in graph if ages[j] <= world.now]
            assert agent.machine.entries[:, 0].tolist() == reached
            expected = [world.history[world.now + 1 - ages[j]][j].tolist() for j in reached]
            assert agent.machine.entries[:, 2:].tolist() == expected


@REPEATABLE
@given(graphs(), schedules)
def test_loss_is_delay_and_traffic_ends(graph: nx.Graph[Any], schedule: Schedule) -> None:
    """At all times what is known of an agent is what it had once; in the end it is all."""
    world = Rough(partial(machine, FloodedTotals()), graph)
    for _ in range(25):
        world.pull()
        world.step(schedule)
        for agent in world.agents:
            for entry in agent.machine.entries:
                j, rounds = entry[:2].astype(int)
                assert entry[2:].tolist() == world.history[rounds][j].tolist()
            assert np.isfinite(agent.estimate().anticipation)
    for _ in range(nx.diameter(graph) + 5):
        world.step()
    for agent in world.agents:
        assert agent.machine.entries[:, 2:].sum(axis=0).tolist() == world.paid.tolist()
        assert all(len(sent(agent, j)) == 2 for j in agent.places)


WIDTH = 2 + 2 * NUM_ARMS
BAD: dict[str, tuple[Any, str]] = {
    "length": (np.ones(7), r"\b2\b.*\(7,\).* 2 .* 6 "),
    "square": (np.ones((1, 8)), r"\b2\b.*\(1, 8\)"),
    "nan": (np.full(2 + WIDTH, np.nan), r"\b2\b.*finite"),
    "agent": (np.array([1.0, 0, 0.5, 1, 0, 0, 0, 0]), r"agent 0\.5"),
    "nobody": (np.array([1.0, 0, -1, 1, 0, 0, 0, 0]), "agent -1"),
    "rounds": (np.array([1.0, 0, 1, -1.5, 0, 0, 0, 0]), r"agent 1\b.*-1\.5 rounds"),
    "short": (np.ones(0), r"\(0,\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_messages_change_nothing(case: str) -> None:
    message, sentence = BAD[case]
    mine = machine(FloodedTotals(), one_view())
    before = mine.export_state()
    with pytest.raises(InputError, match=sentence):
        mine.receive({1: np.array([1.0, 0, 1, 1, 0, 0, 1, 0]), 2: message})
    assert mine.export_state() == before


def told(*rows: list[float], number: float = 1.0, heard: float = 0.0) -> Any:
    return np.array([number, heard, *(value for row in rows for value in row)])


def test_the_entries_of_a_message() -> None:
    mine = machine(FloodedTotals(), one_view())
    entry = [2.0, 1, 0, 0, 9, 0]
    assert mine.rows(told(entry, entry)).tolist() == [entry, entry]
    with pytest.raises(InputError, match=r"\(7,\)"):
        mine.rows(np.ones(7))


def test_an_entry_that_is_forgotten_leaves_the_totals_and_may_come_back() -> None:
    mine = machine(FloodedTotals(), one_view(agent_id=1, neighbor_weights={2: 0.5}))
    mine.receive({2: told([2, 1, 0, 0, 9, 0], [3, 1, 0, 0, 1, 0])})
    mine.receive({2: told([2, FORGET, 0, 0, 0, 0], [1, FORGET, 0, 0, 0, 0])})
    assert mine.machine.entries[:, 0].tolist() == [1, 3], "the own one is never forgotten"
    mine.receive({2: told([3, FORGET, 0, 0, 0, 0], [3, 1, 0, 0, 0.5, 0])})
    assert mine.machine.entries[:, 4].tolist() == [0, 0.5], "also with fewer pulls"


def test_what_a_renumbered_agent_leaves_behind_is_as_it_was_signed() -> None:
    mine = machine(FloodedTotals(), one_view(agent_id=1, neighbor_weights={2: 0.5}))
    mine.observe(0, 0.5)
    left = mine.machine.entries[0].copy()
    mine.receive({})
    mine.observe(0, 0.5)
    mine.receive({2: told(mine.renumbering(7, left).tolist())})
    assert mine.machine.entries.tolist() == [left.tolist(), [7, 2, 0.5, 0, 1, 0]]


def test_a_renumbered_agent_leaves_what_was_told_behind() -> None:
    mine = machine(FloodedTotals(), one_view(agent_id=1, neighbor_weights={2: 0.5}))
    for _ in range(3):
        mine.observe(0, 0.5)
    mine.receive({2: told([7, RENUMBER, 0.5, 0, 1, 0], [1, 9, 2, 0, 5, 0])})
    assert mine.number == 7
    assert mine.heard_from(2) == 0.0, "neighbours have to tell this memory everything"
    assert mine.machine.entries[:, [0, 2, 4]].tolist() == [[1, 2, 5], [7, 1, 2]]
    mine.observe(0, 0.5)
    assert mine.machine.entries[1, 4] == 3
    assert mine.share().counts.tolist() == [4, 0], "all that this agent remembers to have pulled"
    again = machine(FloodedTotals(), one_view(agent_id=1, neighbor_weights={2: 0.5}))
    again.restore_state(mine.export_state())
    assert again.export_state() == mine.export_state()
    mine.receive({2: told([1, RENUMBER, 0, 0, 0, 0])})
    assert mine.number == 7, "a number that is taken is not taken again"


def test_a_renumbered_lazy_agent_tells_its_next_pull() -> None:
    mine = machine(FloodedTotals(lazy=9.0), one_view(agent_id=1, neighbor_weights={2: 0.5}))
    for _ in range(3):
        mine.observe(0, 0.5)
    mine.receive({2: told([7, RENUMBER, 1.5, 0, 3, 0])})
    mine.observe(0, 0.5)
    assert mine.tags[1, CHANGED] == mine.rounds + 2, "nothing was told under the new number yet"


def test_agents_are_counted_and_not_their_numbers() -> None:
    own, other = entry_number(author=1, generation=7), entry_number(author=2, generation=0)
    mine = machine(FloodedTotals(), one_view(agent_id=own, neighbor_weights={2: 0.5}))
    assert mine.estimate().num_agents == 1.0
    rows = [[float(other + generation), 1, 0, 0, 1, 0] for generation in range(64)]
    mine.receive({2: told(*rows, [entry_number(author=3, generation=9), 1, 0, 0, 1, 0])})
    assert (mine.estimate().num_agents, len(mine.held())) == (3.0, 66)
    assert mine.estimate().counts.tolist() == [65.0, 0.0], "what they pulled counts"
    mine.receive({2: told([own + 1, RENUMBER, 0, 0, 0, 0])})
    assert (mine.estimate().num_agents, len(mine.held())) == (3.0, 67), "a lost memory is nobody"
    mine.receive({2: told(*([row[0], FORGET, 0, 0, 0, 0] for row in rows))})
    assert mine.estimate().num_agents == 2.0


def test_who_acknowledges_what_was_never_sent_is_told_everything() -> None:
    mine = machine(FloodedTotals(), one_view(agent_id=1, neighbor_weights={2: 0.5}))
    mine.observe(0, 1.0)
    mine.receive({2: told(heard=500.0)})
    assert len(sent(mine, 2)) > 2


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "rounds": (lambda s: s.update(rounds=-1), "rounds.*-1"),
    "agent": (lambda s: s["entries"][1].__setitem__(0, 0.5), r"entries.*agent 0\.5"),
    "order": (lambda s: s["entries"].reverse(), "entries.*own"),
    "stranger": (lambda s: s["entries"][0].__setitem__(0, 0.0), "entries.*own"),
    "length": (lambda s: s["tags"].pop(), "entries.*tags"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_state_that_no_agent_can_have_changes_nothing(name: str) -> None:
    tamper, sentence = TAMPERED[name]
    mine = machine(FloodedTotals(), one_view(agent_id=1, neighbor_weights={2: 0.5}))
    mine.receive({2: np.array([1.0, 0, 2, 1, 0, 0, 1, 0])})
    before, state = mine.export_state(), mine.export_state()
    tamper(state)
    with pytest.raises(InputError, match=sentence):
        mine.restore_state(state)
    assert mine.export_state() == before


ENTRIES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=12)


@settings(max_examples=60)
@given(st.lists(ENTRIES, min_size=1, max_size=4), st.sampled_from([1.0, 0.5]), st.data())
def test_many_entries_are_taken_as_one_after_another(
    rounds: list[list[tuple[int, int]]], discount: float, data: st.DataObject
) -> None:
    """Unknown ones, older ones, and several of one agent, in any order."""
    view = one_view(agent_id=4, neighbor_weights={1: 0.5, 2: 0.5})
    found, expected = (machine(FloodedTotals(discount=discount), view) for _ in range(2))
    for number, first in enumerate(rounds, 1):
        second = data.draw(ENTRIES)
        messages = {
            j: told(
                *([a, n, float(j), 0, n, 0] + [n] * (discount != 1.0) for a, n in each),
                number=number,
            )
            for j, each in ((1, first), (2, second))
        }
        for each in (found, expected):
            each.observe(0, 1.0)
        found.receive(messages)
        expected.machine.make_room(40)
        s = expected.machine.state
        begin_round(s)
        for j, message in messages.items():
            listen(s, expected.places[j], number, 0.0, message.size)
            hear(s, message[2:], float(j))
        end_round(s)
        assert found.export_state() == expected.export_state()
        assert found.estimate().counts.tolist() == expected.estimate().counts.tolist()
        assert found.estimate().num_agents == len(found.machine.entries)
