"""Ledger sums: restarts, answers that come late, and neighbours that go and come back."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from coopbandits.core import (
    LocalView,
)
from coopbandits.core.aggregate import LedgerSums
from coopbandits.core.aggregate.ledger_sums import (
    FORMER,
    YOUNG,
)
from coopbandits.core.aggregate.moving_mass import (
    LAGS,
    find_carrier,
)
from coopbandits.core.aggregate.spanning_tree import NOBODY

from ..fleet import GRAPHS, machine, one_view, through_json
from ..ledgers import Followed, handed, handing, in_a_hurry, relinked, root_says
from ..rough import CALM, Schedule

ROUNDS = 50
ROUGH = Schedule(key=1, loss=0.6, late=3, sleep=0.3, spell=7, both_ways=False)


def test_who_is_heard_and_does_not_hear_may_begin_anew() -> None:
    """Its numbers have no mark, and begin with 1 again."""
    mine = machine(LedgerSums(), one_view(num_arms=1))
    for beat in (1, 2, 30, 1, 2):
        mine.receive({2: root_says(mine, beat, mark=0.0, pulls=float(100 + mine.rounds))})
        assert (mine.numbers[1], mine._pulls(mine.ledger)) == (beat, 99.0 + mine.rounds)


def test_restarts_and_other_neighbours() -> None:
    """A state through JSON plays on as if nothing had been; a new link is a first contact."""
    world = Followed(GRAPHS["cycle-5"], ROUNDS)
    with in_a_hurry():
        for _ in range(ROUNDS // 2):
            world.pull()
            world.restart()
            world.step(ROUGH)
            world.assert_every_pull_is_somewhere()
        mine, view = world.agents[0], world.views[0]
        state = through_json(mine.export_state())
        fewer = LocalView(**(vars(view) | {"neighbor_weights": {2: 0.2, 4: 0.2}}))
        moved = world.make(fewer)
        moved.restore_state(moved.relinked(state, [1, 4], [2, 4]))
    assert moved.sent[1].tolist() == mine.sent[1].tolist()
    assert (moved.sent[0].any(), moved.marks[0], moved.numbers[0]) == (False, 0.0, 0.0)
    assert moved.parent in (NOBODY, 4)


@pytest.mark.parametrize("gone", [1, 2])
def test_what_a_neighbour_was_told_is_its_own_whoever_goes(gone: int) -> None:
    """Neighbour 2 was told to take it, and may have heard that: it is handed to nobody else."""
    mine = handing()
    stays = 3 - gone
    moved = relinked(mine, [stays])
    assert handed(mine, 2) == 1.0
    assert not moved.held.any()
    assert moved._pulls(moved.sent[0]) == float(stays == 2)


def test_what_was_told_to_nobody_is_kept_when_its_neighbour_goes() -> None:
    mine = handing()
    mine.parted([2])
    assert handed(mine, 2) == 0.0
    assert relinked(mine, [1]).moving().held == 1.0


def test_a_link_that_comes_back_goes_on() -> None:
    """Whether the other end has let go or not, nothing that was on its way is lost."""
    mine = handing()
    apart = relinked(mine, [1])
    assert apart.moving() == (0.0, 1.0, 0.0)
    back = relinked(apart, [1, 2])
    assert back.former.shape == (0, 5)
    assert (handed(back, 2), back.moving().underway) == (1.0, 1.0)
    assert back.outgoing(2)[back.start - 2] == 4.0 + mine.marks[1]
    back.receive({2: root_says(back, 4, heard=3.0 + mine.marks[1], handed=5.0)})
    assert back.moving() == (5.0, 1.0, 0.0), "what it has handed on meanwhile"
    assert back.acknowledged.tolist() == [0.0, 3.0]


def test_only_the_last_that_have_gone_are_remembered() -> None:
    mine = machine(LedgerSums(), one_view(num_arms=1))
    for j in range(2, FORMER + 5):
        mine = relinked(mine, [j])
        for beat in (1, 2):
            mine.receive({j: root_says(mine, beat)})
    mine = relinked(mine, [])
    assert mine.former[:, 0].tolist() == list(range(5, FORMER + 5))


@dataclass(frozen=True)
class Far(Schedule):
    """A schedule in which every message is on its way for so many rounds."""

    rounds: int = 0

    def delay(self, now: int, sender: int, receiver: int) -> int | None:
        del now, sender, receiver
        return self.rounds


@pytest.mark.parametrize(
    "rounds",
    [1, 6, pytest.param(0, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)],
)
def test_answers_that_are_always_late_are_no_sign_of_a_broken_link(rounds: int) -> None:
    world = Followed(GRAPHS["path-4"], 3 * YOUNG)
    for _ in range(3 * YOUNG):
        world.pull()
        world.step(Far(**vars(CALM), rounds=rounds))
        world.assert_every_pull_is_somewhere()
    entered = max(agent._pulls(agent.ledger) for agent in world.agents)
    assert entered >= 4 * (3 * YOUNG - 4 * (rounds + 1))
    assert all(
        agent.lags[:, 0].tolist() == [2.0 * rounds] * len(agent.places) for agent in world.agents
    )


def test_an_answer_that_has_become_late_is_a_sign() -> None:
    """Until all of many are, and again as soon as one is not."""
    mine = machine(LedgerSums(), one_view(num_arms=1))
    mine.receive({2: root_says(mine, 1)})
    mark, carriers = float(mine.marks[1]), []
    for beat in range(2, 60):
        late = 4 if 20 <= beat < 55 else 0
        mine.receive({2: root_says(mine, beat, heard=beat - 1 - late + mark)})
        carriers.append(find_carrier(mine.machine.state) == 1)
    assert carriers[:18] == [True] * 18
    assert carriers[18 : 18 + LAGS - 3] == [False] * (LAGS - 3)
    assert carriers[18 + 2 * LAGS - 3 :] == [True] * len(carriers[18 + 2 * LAGS - 3 :])
    assert mine.lags[1, 0] == 0.0
