"""What a fleet asks of entries: who wrote them, what is at hand, and what is believed."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits.core import FloodedTotals, LocalView
from coopbandits.core.aggregate.claims import Claims
from coopbandits.core.aggregate.entries import HEADER, entry_number, order, told_in
from coopbandits.core.aggregate.flooded_totals import FloodedTotalsMachine
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import ArmSums

REGISTERS = ArmSums().registers(2)
ENTRY = np.array([7.0, 3.0, 1.0, 0.0, 2.0, 0.0])
"""Agent 7 after three rounds: two pulls of the first arm."""


def machine() -> FloodedTotalsMachine:
    made = FloodedTotals().make(LocalView(0, 0.5, {1: 0.25, 2: 0.25}, num_arms=2), REGISTERS)
    assert isinstance(made, FloodedTotalsMachine)
    made.observe(1, 0.5)
    made.receive({1: np.concatenate([[4.0, 0.0], ENTRY])})
    return made


def test_entries_at_hand() -> None:
    made = machine()
    assert made.held() == {0.0: 1.0, 7.0: 2.0}
    found = made.entry(7.0)
    assert found is not None
    assert found.tolist() == ENTRY.tolist()
    assert made.entry(6.0) is None
    assert made.entry(8.0) is None


def test_what_is_left_out_of_a_message_belongs_in_the_next() -> None:
    made = machine()
    first = made.outgoing(2)
    assert first is not None
    made.postpone(np.array([7.0]))
    made.receive({2: np.array([5.0, first[0]])})  # it has heard the message without the entry
    second = made.outgoing(2)
    assert second is not None
    assert made.rows(second)[:, 0].tolist() == [7.0]


@pytest.mark.parametrize("count", [1, 60])
def test_what_a_message_tells_of(count: int) -> None:
    message = np.concatenate([[4.0, 0.0], np.tile(ENTRY, count)])
    assert told_in(message, machine()) == [(7.0, 3.0, 2.0)] * count
    with pytest.raises(InputError, match="per agent"):
        told_in(message[:-1], machine())


@pytest.mark.parametrize(("told", "read"), [(4.0, 4), (-5.0, 0), (1e300, 2**53)])
def test_numbers_of_messages_are_read_as_such_that_can_be(told: float, read: int) -> None:
    made = machine()
    made.receive({2: np.array([told, told])})
    assert made.heard_from(2) == read
    assert made.arrived_at(2) == 0, "nothing was sent that could have arrived"


def test_a_note_tells_rows_and_changes_nothing_else() -> None:
    made = machine()
    before = made.heard_from(1), made.arrived_at(1)
    made.receive({1: made.note(1, np.array([[9.0, 1.0, 0.0, 1.0, 0.0, 1.0]]))})
    assert (made.heard_from(1), made.arrived_at(1)) == before
    assert made.held() == {0.0: 1.0, 7.0: 2.0, 9.0: 1.0}


@pytest.mark.parametrize(
    "entry",
    [
        [7.5, 3.0, 1.0, 0.0, 2.0, 0.0],
        [-7.0, 3.0, 1.0, 0.0, 2.0, 0.0],
        [7.0, -1.0, 1.0, 0.0, 2.0, 0.0],
        [np.nan, 3.0, 1.0, 0.0, 2.0, 0.0],
        [np.inf, 3.0, 1.0, 0.0, 2.0, 0.0],
        [7.0, np.nan, 1.0, 0.0, 2.0, 0.0],
        [7.0, np.inf, 1.0, 0.0, 2.0, 0.0],
        [7.0, 3.0, np.nan, 0.0, 2.0, 0.0],
        [7.0, 3.0, 1.0, 0.0, np.inf, 0.0],
        [7.0, 3.0, 3.0, 0.0, 2.0, 0.0],
        [7.0, 3.0, 1.0, 0.0, 2.0],
    ],
)
def test_what_may_be_wrong_is_not_read_quickly(entry: list[float]) -> None:
    made, sound = machine(), [5.0, 0.0, *ENTRY]
    assert made.quickly(np.array(sound)) == [(7.0, 3.0, 2.0)]
    assert made.quickly(np.array([*sound, *ENTRY])) == 2 * [(7.0, 3.0, 2.0)]
    assert made.quickly(np.array([*sound, *entry])) is None
    assert made.quickly(np.array([np.inf, 0.0, *ENTRY])) is None
    assert made.quickly(np.array([5.0])) is None


def test_an_order_is_a_row() -> None:
    assert order(-1.0, 7.0, ENTRY[HEADER:]).tolist() == [7.0, -1.0, 1.0, 0.0, 2.0, 0.0]


def test_what_is_believed_of_an_author_is_forgotten_number_by_number() -> None:
    claims = Claims(bounded=False, rate=1.0, epoch=0.0, max_agents=1)
    first, second, other = entry_number(0, 0), entry_number(0, 1), entry_number(1, 0)
    rows = np.array([[number, 0.0, 0.0, 0.0, 2.0, 0.0] for number in (first, second, other)])
    doubts = claims.sift(REGISTERS, rows, (0.0, 0.0), 10.0)
    assert [doubt is None for doubt in doubts] == [True, True, False], "one agent is allowed"
    claims.forget(other)  # which is not known
    claims.forget(first)
    (doubt,) = claims.sift(REGISTERS, rows[2:], (0.0, 0.0), 10.0)
    assert doubt is not None, "its other number is still known"
    claims.forget(second)
    assert claims.sift(REGISTERS, rows[2:], (0.0, 0.0), 10.0) == [None], "there is room again"


def test_own_pulls_that_were_made_are_no_lie() -> None:
    claims = Claims(bounded=False, rate=1.0, epoch=0.0, max_agents=3)
    own = entry_number(5, 0)
    rows = np.array([[own, 0.0, 0.0, 0.0, 2.0, 0.0]])
    assert claims.sift(REGISTERS, rows, (own, 2.0), 10.0) == [None]
    (doubt,) = claims.sift(REGISTERS, rows, (own, 1.0), 10.0)
    assert doubt is not None
