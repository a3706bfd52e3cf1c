"""Tickets: each takes one reward, once; late, repeated and foreign ones are told apart."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest

from coopbandits.fleet.service import (
    ExpiredTicketError,
    OtherRewardError,
    UnknownTicketError,
)
from coopbandits.fleet.storage.tickets import STARTS, Settled, Tickets


def test_a_ticket_takes_one_reward_and_recognises_it_again() -> None:
    tickets = Tickets(limit=3, lifetime=10.0, nonce=7)
    number = tickets.add(arm=2, now=0.0)
    assert tickets.look_up(number, 0.5).arm == 2
    assert tickets.settle(number, 0.5) == (2, b"")
    assert tickets.look_up(number, 0.5) == Settled(2, 0.5)
    with pytest.raises(OtherRewardError, match=r"0\.5\b.*0\.7\b"):
        tickets.look_up(number, 0.7)


def test_tickets_expire_in_the_order_of_their_making() -> None:
    tickets = Tickets(limit=9, lifetime=10.0, nonce=7)
    for now in (0.0, 1.0, 5.0):
        tickets.add(0, now)
    assert tickets.due(9.9) == []
    assert tickets.due(11.0) == [1, 2]
    del tickets.open[1]
    with pytest.raises(ExpiredTicketError, match="not counted"):
        tickets.look_up(1, 0.5)


def test_a_clock_that_was_set_back_keeps_no_ticket_open_for_ever() -> None:
    tickets = Tickets(limit=9, lifetime=10.0, nonce=7)
    for now in (1e9, 2.0):
        tickets.add(0, now)
    assert tickets.due(50.0) == [], "the first holds up the second"
    tickets.cap_lifetimes(5.0)
    assert [ticket.expires for ticket in tickets.open.values()] == [15.0, 12.0]
    assert tickets.due(15.0) == [1, 2]


def open_one(tickets: Tickets) -> int:
    """Open a ticket as a replica does, which abandons the oldest ones at the limit."""
    list(tickets.abandon(max(0, len(tickets.open) + 1 - tickets.limit)))
    return tickets.add(0, 0.0)


def test_no_more_rewards_than_the_limit_are_remembered() -> None:
    tickets = Tickets(limit=2, lifetime=10.0, nonce=7)
    for _ in range(3):
        tickets.settle(open_one(tickets), 1.0)
    assert list(tickets.settled) == [2, 3]
    with pytest.raises(ExpiredTicketError, match="long ago"):
        tickets.look_up(1, 1.0)
    assert tickets.look_up(2, 1.0).arm == 0


def test_at_the_limit_a_ticket_abandons_the_oldest_open_one() -> None:
    tickets = Tickets(limit=3, lifetime=10.0, nonce=7)
    for _ in range(3):
        open_one(tickets)
    tickets.settle(1, 0.5)
    assert (open_one(tickets), list(tickets.open)) == (4, [2, 3, 4]), "there was room"
    assert (open_one(tickets), list(tickets.open)) == (5, [3, 4, 5])
    with pytest.raises(ExpiredTicketError, match=r"abandoned.* max_open_tickets.*now 3.*sooner"):
        tickets.look_up(2, 0.5)
    assert tickets.look_up(1, 0.5) == Settled(0, 0.5)
    assert (list(tickets.abandoned), tickets.num_abandoned) == ([2], 1)


def test_abandoned_tickets_are_remembered_up_to_the_limit_and_counted_beyond_it() -> None:
    tickets = Tickets(limit=3, lifetime=10.0, nonce=7)
    for _ in range(50):
        open_one(tickets)
    assert (list(tickets.open), list(tickets.abandoned)) == ([48, 49, 50], [45, 46, 47])
    assert tickets.num_abandoned == 47
    with pytest.raises(ExpiredTicketError, match="abandoned or settled long ago"):
        tickets.look_up(44, 0.5)


def test_a_lower_limit_trims_what_is_open_and_remembered() -> None:
    tickets = Tickets(limit=20, lifetime=10.0, nonce=7)
    for _ in range(40):
        open_one(tickets)
    for number in range(25, 35):
        tickets.settle(number, 0.5)
    lower = Tickets(limit=4, lifetime=10.0, nonce=7)
    lower.restore_state(tickets.export_state())
    assert list(lower.open) == [21, 22, 23, 24, 35, 36, 37, 38, 39, 40]
    open_one(lower)
    assert list(lower.open) == [38, 39, 40, 41]
    assert list(lower.abandoned) == [24, 35, 36, 37]
    assert lower.num_abandoned == 20 + 7
    lower.settle(38, 0.5)
    assert list(lower.settled) == [32, 33, 34, 38]


def test_the_largest_limit_that_a_file_may_name_is_a_limit() -> None:
    tickets = Tickets(limit=2**64 - 1, lifetime=10.0, nonce=7)
    assert open_one(tickets) == 1


def test_finding_the_oldest_ticket_takes_constant_time() -> None:
    """Choices at the limit must not slow down with it."""

    def taken(limit: int) -> float:
        tickets = Tickets(limit, 10.0, nonce=7)
        for _ in range(limit):
            open_one(tickets)
        return seconds(lambda: [open_one(tickets) for _ in range(30_000)])

    assert min(taken(50_000) for _ in range(3)) < 5 * min(taken(100) for _ in range(3))


def test_names_tell_agents_apart() -> None:
    tickets, other = Tickets(2, 1.0, nonce=7), Tickets(2, 1.0, nonce=8)
    mine, foreign = tickets.name(tickets.add(0, 0.0)), other.name(other.add(0, 0.0))
    assert tickets.number(mine) == 1
    for name in ("", "7-1", foreign, f"{7:016x}-", f"{7:016x}-1.0", f"{7:016x}-²"):
        with pytest.raises(UnknownTicketError, match="no ticket"):
            tickets.number(name)
    for name in (f"{7:016x}-2", f"{7:016x}-0", f"{7:016x}-01"):
        with pytest.raises(UnknownTicketError, match="no such ticket"):
            tickets.number(name)


def test_tickets_of_a_memory_that_was_rolled_back_are_unknown_and_never_given_again() -> None:
    tickets = Tickets(99, 10.0, nonce=7)
    tickets.add(0, 0.0)
    copy = tickets.export_state()
    lost = [tickets.name(tickets.add(1, 1.0)) for _ in range(3)]
    again = Tickets(99, 10.0, nonce=7)
    again.restore_state(copy)
    again.begin(8)
    fresh = [again.name(again.add(2, 1.0)) for _ in range(3)]
    assert not set(lost) & set(fresh)
    for name in lost:
        with pytest.raises(UnknownTicketError, match="lost the memory"):
            again.number(name)
    assert [again.number(name) for name in fresh] == [2, 3, 4]
    assert again.number(f"{7:016x}-1") == 1, "one of before is as good as ever"


def test_starts_are_forgotten_but_not_their_open_tickets() -> None:
    tickets = Tickets(2 * STARTS, 10.0, nonce=1)
    first = tickets.name(tickets.add(0, 0.0))
    for nonce in range(2, STARTS + 50):
        tickets.begin(nonce)
        tickets.begin(nonce)
        tickets.add(0, 0.0)
    assert tickets.number(first) == 1
    tickets.open.clear()
    tickets.begin(1)
    assert len(tickets.starts) == STARTS


def test_state_comes_back() -> None:
    tickets = Tickets(limit=5, lifetime=10.0, nonce=7)
    for arm in range(8):
        list(tickets.abandon(max(0, len(tickets.open) + 1 - tickets.limit)))
        tickets.add(arm, 1.5)
    tickets.settle(5, 0.25)
    again = Tickets(limit=5, lifetime=10.0, nonce=7)
    again.restore_state(tickets.export_state())
    assert (again.next_number, again.open, again.settled) == (9, tickets.open, tickets.settled)
    assert (again.abandoned, again.num_abandoned) == (tickets.abandoned, 3)
    assert open_one(again) == open_one(tickets) == 9
    assert open_one(again) == open_one(tickets) == 10
    assert (again.open, list(again.abandoned)) == (tickets.open, [1, 2, 3, 4])


def test_a_snapshot_of_many_tickets_takes_little_more_than_writing_them() -> None:
    """Nothing else is served while a journal is compacted."""
    count = 20_000
    tickets = Tickets(limit=count, lifetime=60.0, nonce=1)
    for number in range(1, 2 * count + 1):
        tickets.add(0, 0.0)
        if number > count:
            tickets.settle(number - count, 1.0)
    tables = tickets.open, tickets.settled
    bare = min(seconds(lambda: msgspec.msgpack.encode(tables)) for _ in range(5))
    whole = min(seconds(lambda: msgspec.msgpack.encode(tickets.export_state())) for _ in range(5))
    assert whole < 5 * bare


def seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def test_the_oldest_reward_is_forgotten_first_after_a_restart_too() -> None:
    tickets = Tickets(limit=3, lifetime=60.0, nonce=1)
    for _ in range(3):
        tickets.add(0, 0.0)
    for number in (2, 3, 1):
        tickets.settle(number, 0.5)
    again = Tickets(limit=3, lifetime=60.0, nonce=1)
    written = msgspec.msgpack.encode(tickets.export_state())
    again.restore_state(msgspec.msgpack.decode(written, strict=False))
    again.add(0, 0.0)
    again.settle(4, 0.5)
    assert list(again.settled) == [3, 1, 4]
