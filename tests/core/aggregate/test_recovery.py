"""Memories that are opened again: an old one enters no pull twice, and a good one loses none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import networkx as nx
import numpy as np
import pytest
from hypothesis import strategies as st

from coopbandits.core import InputError, State, Vector
from coopbandits.core.aggregate import LedgerSums, ledger_sums
from coopbandits.core.aggregate.aggregation import Moving
from coopbandits.core.aggregate.claims import Claims
from coopbandits.core.aggregate.ledger_sums import (
    FORMER,
    LEVELS,
    PATIENCE,
    UNHEARD,
    YOUNG,
    LedgerSumsMachine,
)
from coopbandits.core.aggregate.moving_mass import RECOVERED, mark_of

from ..fleet import machine, one_view, through_json  # as in test_local
from ..ledgers import Apart, Followed, handed, in_a_hurry, relinked, root_says
from ..rough import CALM, Schedule, given_in_tiers, graphs, schedules

ROUNDS = 50

openings = st.lists(
    st.tuples(
        st.integers(12, ROUNDS - 10),  # when
        st.sets(st.integers(0, 5), min_size=1),  # who
        st.integers(0, 12),  # rounds lost, at most
        st.integers(0, 8),  # rounds without a link
    ),
    min_size=1,
    max_size=4,
)
"""Losses of power: those who lose it lose different parts of their memories."""


def play(
    world: Followed, schedule: Schedule, troubles: list[Any], *, lossless: bool = False
) -> None:
    """Play a world in which agents are opened again, and look for pulls that count twice."""
    size = len(world.agents)
    losses = [
        (when, agent, when if lossless else when - (lost * (agent + 3)) % (lost + 1), when + alone)
        for when, who, lost, alone in troubles
        for agent in sorted({i % size for i in who})
    ]
    journals: dict[tuple[int, int], State] = {}
    until: dict[int, int] = {}
    for now in range(ROUNDS):
        world.pull()
        for _, agent, kept, _ in losses:
            if kept == now:
                journals[agent, kept] = world.agents[agent].export_state()
        for when, agent, kept, alone in losses:
            if when == now:
                world.reopen(agent, journals[agent, kept])
                until[agent] = alone
                undone = [key for key in journals if key[0] == agent and kept < key[1] < now]
                journals |= dict.fromkeys(undone, journals[agent, kept])
        calm = now < 8  # links are acknowledged once
        world.step(Apart(**(vars(CALM if calm else schedule)), until=until))
        if lossless:
            world.assert_every_pull_is_somewhere()


@given_in_tiers(8, 25, graphs(), schedules, openings)
def test_old_memories_make_no_pull_count_twice(
    graph: nx.Graph[Any], schedule: Schedule, troubles: list[Any]
) -> None:
    with in_a_hurry():
        play(Followed(graph, ROUNDS), schedule, troubles)


@given_in_tiers(8, 25, graphs(), schedules, openings, st.integers(0, 5), st.integers(9, ROUNDS))
def test_nor_where_others_have_lost_theirs(
    graph: nx.Graph[Any], schedule: Schedule, troubles: list[Any], agent: int, when: int
) -> None:
    class Losing(Followed):
        def pull(self) -> None:
            if self.now == when:
                self.forget(agent % len(graph))
            super().pull()

    with in_a_hurry(), patch.object(ledger_sums, "PATIENCE", 10):
        play(Losing(graph, ROUNDS), schedule, troubles)


@given_in_tiers(8, 25, graphs(), schedules, openings)
def test_who_has_lost_nothing_drops_nothing(
    graph: nx.Graph[Any], schedule: Schedule, troubles: list[Any]
) -> None:
    """However many are opened at once, and again while in doubt."""
    with in_a_hurry():
        play(Followed(graph, ROUNDS), schedule, troubles, lossless=True)


class Careless(LedgerSumsMachine):
    """A deliberate mistake: every memory is taken for a good one."""

    def reopened(self, word: int) -> None:
        self.state.me.nonce = word


class Late(LedgerSumsMachine):
    """A deliberate mistake: rounds that have passed since the opening count as known."""

    def _recover(self, told: Mapping[int, Vector]) -> None:
        self.state.me.opened = self.state.me.rounds - 1
        super()._recover(told)


class Hasty(LedgerSumsMachine):
    """A deliberate mistake: neighbours in doubt are taken for good ones."""

    def _recover(self, told: Mapping[int, Vector]) -> None:
        told = {j: message.copy() for j, message in told.items()}
        for message in told.values():
            message[self.start - 2] = max(1.0, message[self.start - 2])
        super()._recover(told)


@dataclass(frozen=True)
class Broken(Schedule):
    """A schedule in which links (first round, end, one end, other end) are down."""

    links: tuple[tuple[int, int, int, int], ...] = ()

    def delay(self, now: int, sender: int, receiver: int) -> int | None:
        down = any(
            first <= now < end and {sender, receiver} == set(ends)
            for first, end, *ends in self.links
        )
        return None if down else super().delay(now, sender, receiver)


def lose_a_moment(spec: LedgerSums) -> None:
    """One agent loses a few rounds, and ends more than that before it has a link."""
    for agent in range(3):  # two of them hand on what they pull, and one collects it
        play(Followed(nx.complete_graph(3), ROUNDS, spec), CALM, [(30, {agent}, 5, 8)])


def lose_the_way(spec: LedgerSums) -> None:
    """Agent i hands j what it has held for long, j hands it to the root, and both forget that.

    The root has not heard i since, and j does not hear the root: so all seems right to i.
    """
    world = Followed(nx.complete_graph(3), ROUNDS, spec)
    root, i, j = sorted(range(3), key=lambda at: world.agents[at].tag)
    links = ((18, 25, i, j), (18, 31, i, root), (31, 42, j, root))
    journals: dict[int, State] = {}
    for now in range(ROUNDS):
        world.pull()
        if now == 24:
            journals = {agent: world.agents[agent].export_state() for agent in (i, j)}
            assert world.agents[i]._pulls(world.agents[i].held) > 3
        if now == 31:
            for agent in (i, j):
                world.reopen(agent, journals[agent])
        world.step(Broken(**vars(CALM), links=links))


@pytest.mark.parametrize(
    ("mistake", "attack"),
    [(Careless, lose_the_way), (Late, lose_a_moment), (Hasty, lose_the_way)],
)
def test_the_watch_over_old_memories_sees_mistakes(
    mistake: type[LedgerSumsMachine], attack: Callable[[LedgerSums], None]
) -> None:
    class Wrong(LedgerSums):
        machine = mistake

    with in_a_hurry():
        attack(LedgerSums())
        with pytest.raises(AssertionError, match="twice in the ledger"):
            attack(Wrong())


def opened(pulls: int = 1) -> Any:
    """A machine of 3 rounds that holds some pulls, knows both neighbours, and is opened again."""
    mine = machine(LedgerSums(), one_view(num_arms=1))
    for beat in (1, 2, 3):
        mine.receive({j: root_says(mine, beat, root=0.9) for j in (1, 2)})
    for _ in range(pulls):
        mine.observe(0, 1.0)
    mine.reopened(7)
    return mine


def answers(
    mine: Any, heard: int, level: int | None = None, who: tuple[int, ...] = (1, 2)
) -> dict[int, Vector]:
    """What neighbours say that have heard a number of this memory; with a level, in doubt."""
    told = {}
    for j in who:
        mark = float(mine.marks[mine.places[j]])
        told[j] = root_says(mine, mine.rounds + 1, heard=heard + mark, root=0.9)
        if level is not None:
            told[j][mine.start - 2] = -level
    return told


def test_who_is_in_doubt_is_silent_until_all_have_answered() -> None:
    mine = opened()
    assert (mine.opened, mine._pulls(mine.held), mine._pulls(mine.doubted)) == (3, 0.0, 1.0)
    mine.observe(0, 1.0)
    mine.receive({})
    mine.receive(answers(mine, heard=4, who=(1,)))
    assert not mine.is_recovered
    assert mine.outgoing(1)[mine.start - 2] == 0.0
    assert handed(mine, 2) == 0.0
    assert mine.numbers.tolist() == [3.25, 3.25]  # as before
    assert mine.moving().held == 2.0
    mine.receive(answers(mine, heard=2, who=(2,)))
    assert (mine.opened, mine._pulls(mine.held), mine._pulls(mine.doubted)) == (RECOVERED, 2.0, 0.0)
    assert mine.outgoing(1)[mine.start - 2] == 7.0 + mine.marks[0]


def test_a_memory_that_has_told_more_begins_anew() -> None:
    """And keeps what was pulled since it was opened: nobody has heard of that."""
    mine = opened()
    marks = mine.marks.tolist()
    mine.observe(0, 1.0)
    mine.receive({})
    mine.receive(answers(mine, heard=5, who=(1,)))  # three rounds have sent number 4 at the most
    assert (mine.opened, mine._pulls(mine.held), mine._pulls(mine.doubted)) == (RECOVERED, 1.0, 0.0)
    assert mine.taken[0].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert mine.marks.tolist() == [mark_of(1 ^ 7, 5), 0.0]
    assert mine.marks[0] not in marks


def test_a_neighbour_that_has_forgotten_what_it_heard_cannot_clear_a_doubt() -> None:
    for heard in (0.0, 3.0, 3.5):  # nothing; no mark; the mark of another memory
        mine = opened()
        told = answers(mine, heard=3)
        told[2][mine.start - 1] = heard
        mine.receive(told)
        assert mine.is_recovered
        assert not mine._pulls(mine.held)


def test_a_neighbour_that_never_answers_is_not_waited_for_for_ever() -> None:
    mine = opened()
    for _ in range(PATIENCE):
        mine.receive(answers(mine, heard=4, who=(1,)))
    assert mine.opened == 3
    mine.receive(answers(mine, heard=4, who=(1,)))
    assert mine.opened == RECOVERED
    assert not mine._pulls(mine.held)


def test_levels_rise_with_those_around() -> None:
    mine = opened()
    for level, own in ((0, 1), (1, 2), (0, 1), (LEVELS - 2, LEVELS - 1)):
        mine.receive(answers(mine, heard=4, level=level))
        assert (mine.level, mine.outgoing(1)[mine.start - 2]) == (own, -own)
    mine.receive(answers(mine, heard=4, level=LEVELS - 1))
    assert mine.is_recovered
    mine.receive(answers(mine, heard=6, level=3))  # one that is in doubt later
    assert mine.acknowledged.tolist() == [0.0, 0.0]
    assert mine.numbers.tolist() == [3.25, 3.25]


def test_a_root_in_doubt_collects_later() -> None:
    """What it pulls, and larger ledgers of others, too."""
    mine = machine(LedgerSums(), one_view(num_arms=1))
    for now in range(1, YOUNG + 2):
        mine.observe(0, 1.0)
        mine.receive({j: root_says(mine, now, root=0.9) for j in (1, 2)})
    tenure, pulls = mine.tenure, mine._pulls(mine.ledger)
    assert (mine.dist, pulls) == (0.0, YOUNG + 1)
    mine.reopened(7)
    mine.observe(0, 1.0)
    larger = answers(mine, heard=9)
    for message in larger.values():
        message[mine.own.size + 1] = 500.0
    mine.receive({1: larger[1]})
    assert (mine._pulls(mine.ledger), mine._pulls(mine.held)) == (pulls, 1.0)
    mine.receive(larger)
    assert (mine._pulls(mine.ledger), mine.tenure) == (500.0 + pulls + 1.0, tenure)


def test_opened_again_while_in_doubt() -> None:
    """It is certain of no more than at first, and what it has pulled since is in doubt, too."""
    mine = opened()
    mine.observe(0, 1.0)
    mine.receive(answers(mine, heard=4, who=(1,)))
    again = machine(LedgerSums(), one_view(num_arms=1))
    again.restore_state(through_json(mine.export_state()))
    again.reopened(8)
    assert (again.opened, again._pulls(again.doubted), again.levels.tolist()) == (3, 2.0, [-1, -1])
    again.receive(answers(again, heard=5))
    assert again.is_recovered
    assert not again._pulls(again.held)


def test_what_the_last_message_handed_on_is_not_held_any_more() -> None:
    """It went with the message, whether that was sent or not."""
    mine = machine(LedgerSums(), one_view(num_arms=1))
    mine.observe(0, 1.0)
    mine.receive({2: root_says(mine, 1)})
    for beat in (2, 3):
        mine.receive({2: root_says(mine, beat, heard=beat - 1 + float(mine.marks[1]))})
    mine.observe(0, 1.0)
    told = handed(mine, 2)
    mine.reopened(7)
    assert handed(mine, 2) == told
    assert not mine._pulls(mine.doubted)


def test_nothing_is_doubted_where_nothing_is_known() -> None:
    mine = machine(LedgerSums(), one_view(num_arms=1))
    mine.reopened(7)
    assert (mine.is_recovered, mine.nonce) == (True, 7)
    mine.observe(0, 1.0)
    mine.reopened(8)
    assert not mine.is_recovered


def lonely() -> Any:
    """A machine of 2 rounds that holds a pull, has heard nobody yet, and is opened again."""
    mine = machine(LedgerSums(), one_view(neighbor_weights={}, own_weight=1.0, num_arms=1))
    mine.observe(0, 1.0)
    for _ in range(2):
        mine.receive({})
    mine.reopened(7)
    return mine


def test_a_memory_of_before_anybody_was_heard_waits_for_those_who_come() -> None:
    """What it holds may have been handed to one whom it no longer knows."""
    mine = lonely()
    mine.receive({})
    mine = relinked(mine, [1])
    for _ in range(9):  # the first that comes need not be the one that knows
        mine.receive({1: root_says(mine, mine.rounds + 1, root=0.9)})
    assert (mine.is_recovered, mine._pulls(mine.held), mine.moving().held) == (False, 0.0, 1.0)
    mine = relinked(mine, [1, 2])
    mine.receive({2: root_says(mine, mine.rounds + 1, heard=5.5, root=0.9)})
    assert (mine.is_recovered, mine.moving().held) == (True, 0.0)


@pytest.mark.parametrize("neighbors", [[], [1, 2]])
def test_and_goes_on_if_nobody_knows_more(neighbors: list[int]) -> None:
    mine = relinked(lonely(), neighbors)
    for _ in range(PATIENCE):
        mine.receive({j: root_says(mine, mine.rounds + 1, root=0.9) for j in neighbors})
    assert not mine.is_recovered
    mine.receive({j: root_says(mine, mine.rounds + 1, root=0.9) for j in neighbors})
    assert (mine.is_recovered, mine.moving()) == (True, Moving(0.0, 0.0, 1.0))  # it is the root


def test_others_in_doubt_do_not_wait_for_one_that_knows_nobody() -> None:
    """It tells as high a level as any other: nobody around has given a wrong answer."""
    mine = relinked(lonely(), [1])
    for level in (LEVELS - 1, None):
        mine.receive(answers(mine, heard=0, level=level, who=(1,)))
        assert (mine.is_recovered, mine.outgoing(1)[mine.start - 2]) == (False, -LEVELS)


def test_who_has_gone_is_asked_when_it_comes_back() -> None:
    """Nobody is a neighbour right after a start where agents find each other."""
    mine = relinked(opened(), [])
    assert (mine.is_recovered, mine.moving().held) == (False, 1.0)
    mine.receive({})
    assert mine.level == 0
    mine = relinked(mine, [2, 3])
    told = answers(mine, heard=4, who=(2,)) | {3: root_says(mine, 9, root=0.9)}
    mine.receive(told)
    assert (mine.is_recovered, mine.moving().held) == (False, 1.0), "there is one more to be asked"
    mine = relinked(mine, [1, 4])
    mine.receive(answers(mine, heard=4, who=(1,)))
    assert not mine.is_recovered, "a neighbour that is new may know of a later life"
    mine.receive({4: root_says(mine, 10, root=0.9)})
    assert (mine.is_recovered, mine._pulls(mine.held)) == (True, 1.0)


def test_all_who_are_asked_are_remembered_however_many() -> None:
    many = range(1, 2 * FORMER)
    mine = machine(LedgerSums(), one_view(num_arms=1, neighbor_weights=dict.fromkeys(many, 0.01)))
    mine.receive({j: root_says(mine, 1, root=0.9) for j in many})
    mine.reopened(7)
    assert len(relinked(mine, []).former) == len(many)


def test_who_does_not_come_back_is_not_waited_for_for_ever() -> None:
    mine = relinked(opened(), [2])
    for _ in range(PATIENCE):
        mine.receive(answers(mine, heard=4, who=(2,)))
    assert not mine.is_recovered
    mine.receive(answers(mine, heard=4, who=(2,)))
    assert (mine.is_recovered, mine.moving().held, mine.former.size) == (True, 0.0, 0)


@pytest.mark.parametrize(("heard", "held"), [(0.0, 1.0), (3.5, 1.0), (4.0, 1.0), (5.5, 0.0)])
def test_a_new_neighbour_may_have_heard_of_a_later_life(heard: float, held: float) -> None:
    mine = relinked(opened(), [1, 2, 3])
    mine.receive(answers(mine, heard=4) | {3: root_says(mine, 9, heard=heard, root=0.9)})
    assert (mine.is_recovered, mine.moving().held) == (True, held)


def test_who_was_never_heard_cannot_clear_a_doubt_after_it_was_away() -> None:
    mine = machine(LedgerSums(), one_view(num_arms=1))
    mine.observe(0, 1.0)
    mine.receive({})
    mine.reopened(7)
    mine = relinked(relinked(mine, []), [1, 2])
    assert mine.levels.tolist() == [UNHEARD, UNHEARD]
    mine.receive({1: root_says(mine, 9, root=0.9)})
    assert (mine.is_recovered, mine.moving().held) == (True, 0.0)


def test_who_is_new_since_the_first_opening_is_new_after_the_second() -> None:
    mine = relinked(opened(), [2, 3])
    mine.reopened(8)
    assert mine.levels.tolist() == [UNHEARD, 0.0]
    assert mine.former[:, 3].tolist() == [UNHEARD]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nonce": -1}, "nonce"),
        ({"opened": -2}, "opened"),
        ({"level": -1}, "level"),
        ({"levels": [0.0, LEVELS + 1.0]}, "levels.*64"),
    ],
)
def test_impossible_doubts_are_refused(change: dict[str, Any], sentence: str) -> None:
    mine = opened()
    with pytest.raises(InputError, match=sentence):
        mine.restore_state(mine.export_state() | change)


def test_impossible_levels_are_refused() -> None:
    mine = opened()
    claims = Claims(bounded=False, rate=1.0, epoch=0.0, max_agents=4)
    (told,) = answers(mine, heard=4, level=LEVELS, who=(1,)).values()
    mine.check_claims(told, claims, 0.0)
    with pytest.raises(InputError, match=r"number.*-65"):
        mine.check_claims(np.concatenate([told[:9], [-LEVELS - 1.0], told[10:]]), claims, 0.0)
