"""Rewards and units at any agent: on a path of agents, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import networkx as nx
import pytest
from msgspec.msgpack import encode

from coopbandits.core.errors import InputError
from coopbandits.fleet.api.messages import failed
from coopbandits.fleet.config import ClusterConfig
from coopbandits.fleet.protocol.calls import Then
from coopbandits.fleet.protocol.frames import MAX_REASON, ROUTES, encode_routes
from coopbandits.fleet.protocol.routes import LIVES, WANTED
from coopbandits.fleet.service import (
    Choice,
    DrainingError,
    ExpiredTicketError,
    OtherRewardError,
    OwnerAwayError,
    Pending,
    RateLimitError,
    Receipt,
    UnavailableError,
    UnknownBanditError,
    UnknownTicketError,
)
from coopbandits.fleet.service.bandit import ServedBandit
from coopbandits.fleet.service.forwarding import Owners
from coopbandits.fleet.storage.units import unit_hash
from tests.fleet.bandits import BUTTON, CLUSTER, Many, bandit
from tests.torture.process import name as name_of
from tests.torture.process import number

T = TypeVar("T")

PATIENCE = 30.0
"""Virtual seconds in which every answer must be there."""


class Fleet(Many):
    """Agents on a path; rewards and units at any of them."""

    def __init__(
        self,
        agents: int,
        graph: nx.Graph[int] | None = None,
        *,
        cluster: ClusterConfig = CLUSTER,
        certificates: Path | None = None,
        **button: Any,
    ) -> None:
        declared = {"button": bandit("button", BUTTON | button, cluster)}
        self.posted: list[tuple[int, int, bytes]] = []
        graph = graph or nx.path_graph(agents)
        super().__init__(graph, declared=declared, certificates=certificates)
        self.restarted()

    def restarted(self, seconds: int = 5) -> None:
        """Give all agents a service, and time to find each other."""
        for agent in self.graph:
            if self.nodes[agent] is not None:
                self.of(agent)
        self.beats(seconds)

    def beats(self, seconds: int) -> None:
        for _ in range(seconds):
            self.step(1.0)

    def post(self, sender: int, receiver: int, data: bytes) -> bool:
        self.posted.append((sender, receiver, data))
        return super().post(sender, receiver, data)

    def ask(
        self, agent: int, call: Callable[[ServedBandit], T | Pending[T]]
    ) -> list[T | Exception]:
        """Ask an agent; the list has the answer once it is there."""
        found: list[T | Exception] = []
        got = call(self.of(agent).bandit("button"))
        if isinstance(got, Pending):
            got.then(found.append)
        else:
            found.append(got)
        self.shells[agent].settle()
        return found

    def answer(self, found: Sequence[T | Exception]) -> T | Exception:
        """Let time pass until there is an answer."""
        end = self.now + PATIENCE
        while not found:
            assert self.now < end, "no answer"
            self.step()
        return found[0]

    def send(self, agent: int, ticket: str, reward: float = 1.0) -> list[Receipt | Exception]:
        """Submit a reward to an agent."""
        return self.ask(agent, lambda button: button.submit(ticket, reward))

    def submit(self, agent: int, ticket: str, reward: float = 1.0) -> Receipt | Exception:
        """Submit a reward to an agent, and wait for the answer."""
        found = self.send(agent, ticket, reward)
        return self.answer(found)

    def choose(self, agent: int, unit: str = "", **more: Any) -> Choice:
        """Choose, for a unit if given."""

        def call(button: ServedBandit) -> Choice | Pending[Choice]:
            return button.choose_for(unit, **more) if unit else button.choose(**more)

        found = self.ask(agent, call)
        choice = self.answer(found)
        assert isinstance(choice, Choice), choice
        return choice

    def owner(self, unit: str) -> int:
        """Return the agent that owns a unit."""
        hashed = unit_hash("shop", self.bandit.number, unit)
        return number(self.of(0).forwarding.owner_of(hashed))

    def unit_of(self, agent: int) -> str:
        """Return a unit that an agent owns."""
        return next(u for u in map("user-{}".format, range(1000)) if self.owner(u) == agent)

    def rewards(self) -> list[int]:
        return [self.replica(agent).rewards for agent in self.graph]


# Rewards


def test_any_agent_accepts_a_reward_and_the_tickets_agent_counts_it_once() -> None:
    fleet = Fleet(3)
    choice = fleet.choose(0)
    assert choice.ticket.endswith("@n0")
    got = fleet.submit(2, choice.ticket)
    assert got == Receipt(choice.ticket, choice.arm, 1.0, duplicate=False)
    assert fleet.submit(1, choice.ticket) == Receipt(choice.ticket, choice.arm, 1.0, duplicate=True)
    assert isinstance(fleet.submit(2, choice.ticket, 0.0), OtherRewardError)
    assert fleet.rewards() == [1, 0, 0]


def test_errors_of_the_tickets_agent_reach_the_application() -> None:
    fleet = Fleet(2)
    ticket = fleet.choose(0).ticket
    other = ticket.replace("-1@", "-7@")
    error = fleet.submit(1, other)
    assert isinstance(error, UnknownTicketError)
    assert "has issued no such ticket" in str(error)
    assert "reward 7.0 is outside" in str(fleet.submit(1, ticket, 7.0))
    assert fleet.rewards() == [0, 0]
    with pytest.raises(UnknownTicketError, match="is no ticket of agent n1"):
        fleet.submit(1, ticket.partition("@")[0])
    with pytest.raises(UnknownTicketError, match="is no ticket of agent n1"):
        fleet.submit(1, f"{ticket} or so")


def test_a_reward_waits_for_a_link_and_is_not_lost_by_a_crash_on_the_way() -> None:
    fleet = Fleet(4)
    tickets = [fleet.choose(0).ticket for _ in range(4)]
    fleet.submit(3, tickets[3])
    fleet.cut_link(1, 2)
    waiting = fleet.send(3, tickets[0])
    fleet.step()
    assert not waiting
    fleet.heal()
    assert isinstance(fleet.answer(waiting), Receipt)
    for relay in (1, 2):  # it dies with the call, or with the answer, on its way
        waiting = fleet.send(3, tickets[relay])
        fleet.deliver(relay)
        fleet.crash(relay)
        fleet.restart(relay)
        fleet.restarted(0)
        fleet.answer(waiting)
        fleet.beats(5)
        assert isinstance(fleet.submit(3, tickets[relay]), Receipt)
    assert fleet.rewards() == [4, 0, 0, 0]


def test_an_agent_that_dies_before_it_has_answered_counts_the_reward_once() -> None:
    fleet = Fleet(2)
    fleet.submit(1, fleet.choose(0).ticket)  # they have found each other
    choice = fleet.choose(0)
    waiting = fleet.send(1, choice.ticket)
    fleet.deliver(1)  # the call, whose answer is on its way
    assert fleet.rewards() == [2, 0]
    fleet.crash(0)
    assert isinstance(fleet.answer(waiting), OwnerAwayError)
    fleet.restart(0)
    fleet.restarted()
    assert fleet.submit(1, choice.ticket) == Receipt(choice.ticket, choice.arm, 1.0, duplicate=True)


def test_while_the_tickets_agent_is_away_the_answer_says_so() -> None:
    fleet = Fleet(2)
    ticket = fleet.choose(0).ticket
    fleet.crash(0)
    error = fleet.submit(1, ticket)
    assert isinstance(error, OwnerAwayError)
    assert "agent n0, which issued this ticket, cannot be reached now" in str(error)
    fleet.now += 3600.0
    fleet.beats(3)
    error = fleet.submit(1, ticket)
    assert isinstance(error, ExpiredTicketError)
    assert "has been away for longer than a ticket lives (3600 s)" in str(error)


def test_calls_that_wait_are_bounded() -> None:
    fleet = Fleet(2)
    ticket = fleet.choose(0).ticket
    fleet.crash(0)
    most = fleet.of(1).config.max_forwarded_calls
    waiting = [fleet.send(1, ticket) for _ in range(most)]
    with pytest.raises(OwnerAwayError, match="1000 calls of other agents wait for answers"):
        fleet.of(1).bandit("button").submit(ticket, 1.0)
    assert all(isinstance(fleet.answer(each), OwnerAwayError) for each in waiting)
    assert fleet.node(1).calls.pending == []


def test_calls_of_others_are_held_to_the_rate() -> None:
    fleet = Fleet(2, max_pulls_per_second=1.0, sticky_seconds=600.0)
    unit = fleet.unit_of(0)
    choices = [fleet.choose(1, unit) for _ in range(50)]
    assert [each.sticky for each in choices[:20]] == [True] * 20
    assert choices[-1].sticky is False, "the agent asked chooses, at its own rate"
    assert fleet.of(0).bandit("button").choosing.refused > 0


def test_a_revoked_agent_is_not_called_and_not_served() -> None:
    fleet = Fleet(3)
    ticket = fleet.choose(0).ticket
    assert isinstance(fleet.submit(2, ticket), Receipt)
    fleet.node(2).revoke(frozenset({"n0"}), fleet.now)
    with pytest.raises(ExpiredTicketError, match="n0 is revoked"):
        fleet.submit(2, fleet.choose(0).ticket)
    fleet.node(2).revoke(frozenset(), fleet.now)
    fleet.node(0).revoke(frozenset({"n2"}), fleet.now)
    assert isinstance(fleet.submit(2, fleet.choose(0).ticket), OwnerAwayError)
    assert fleet.rewards() == [1, 0, 0]


# Units


def test_a_unit_gets_the_same_arm_at_every_agent_until_the_time_is_over() -> None:
    fleet = Fleet(3, arms=[f"arm-{k}" for k in range(20)], sticky_seconds=60.0)
    units = [f"user-{k}" for k in range(12)]
    first = {unit: fleet.choose(k % 3, unit) for k, unit in enumerate(units)}
    assert all(choice.sticky for choice in first.values())
    assert {c.ticket.partition("@")[2] for c in first.values()} == {"n0", "n1", "n2"}
    for agent in range(3):
        again = [fleet.choose(agent, unit) for unit in units]
        assert [each.arm for each in again] == [first[unit].arm for unit in units]
        assert all(each.sticky for each in again)
    assert len({first[unit].arm for unit in units}) > 3
    fleet.beats(61)
    later = [fleet.choose(0, unit).arm for unit in units]
    assert later != [first[unit].arm for unit in units]


def test_a_unit_is_remembered_through_a_restart_and_a_snapshot() -> None:
    fleet = Fleet(2, arms=[f"arm-{k}" for k in range(20)], sticky_seconds=600.0)
    unit = fleet.unit_of(1)
    first = fleet.choose(0, unit)
    for snapshot in (False, True):
        if snapshot:
            fleet.node(1).bandits.compact()
        fleet.crash(1)
        fleet.restart(1)
        fleet.restarted()
        assert fleet.choose(0, unit).arm == first.arm


def test_units_and_tickets_stay_through_an_era_a_purge_and_retirement() -> None:
    names = [f"arm-{k}" for k in range(8)]
    fleet = Fleet(3, arms=names, sticky_seconds=600.0)

    def take(agent: int, *left: str, **more: Any) -> None:
        table = BUTTON | {"arms": list(left), "policy": "ledger-ts", "era": 1}
        table |= {"sticky_seconds": 600.0} | more
        fleet.take(agent, {"button": bandit("button", table)} if left else {})

    units = [fleet.unit_of(2), *map("user-{}".format, range(1000, 1020))]
    first = {unit: fleet.choose(0, unit) for unit in units}
    for agent in (2, 0, 1):  # a call crosses eras, in either direction
        take(agent, *names)
        again = fleet.choose(0, units[0])
        assert (again.arm, again.sticky) == (first[units[0]].arm, True)
    fleet.crash(2)
    fleet.restart(2)
    fleet.restarted()
    assert fleet.choose(0, units[0]).arm == first[units[0]].arm
    assert isinstance(fleet.submit(1, first[units[0]].ticket), Receipt)
    gone, left = first[units[0]].arm, [n for n in names if n != first[units[0]].arm]
    dropped = fleet.choose(0, units[0])
    assert dropped.arm == gone
    for more in ({}, {"purged": [gone]}):
        for agent in range(3):
            take(agent, *left, **more)
    assert fleet.choose(0, units[0]).arm != gone
    error = fleet.submit(1, dropped.ticket)
    assert isinstance(error, ExpiredTicketError), "its tickets are closed"
    assert not any(each.arm == gone for each in map(fleet.choose, [0, 1, 2], units[:3]))
    kept = next(unit for unit in units if first[unit].arm != gone)
    for agent in range(3):
        take(agent)  # retired
    assert isinstance(fleet.submit(1, first[kept].ticket), Receipt)
    for agent in range(3):
        with pytest.raises(UnknownBanditError):
            fleet.choose(agent, units[0])


def test_an_arm_that_may_not_be_chosen_any_more_is_not_given() -> None:
    fleet = Fleet(2, arms=["red", "green", "blue"], sticky_seconds=600.0)
    unit = fleet.unit_of(1)
    first = fleet.choose(0, unit).arm
    left = sorted({"red", "green", "blue"} - {first})
    allowed = fleet.choose(0, unit, allowed=left)
    assert allowed.arm in left
    assert allowed.sticky
    assert fleet.choose(0, unit).arm == allowed.arm
    frozen = [{"name": n, "frozen": n == allowed.arm} for n in ("red", "green", "blue")]
    for agent in range(2):
        table = BUTTON | {"arms": frozen, "sticky_seconds": 600.0}
        fleet.take(agent, {"button": bandit("button", table)})
    assert fleet.choose(0, unit).arm != allowed.arm


@pytest.mark.parametrize(
    ("ticket", "arm"),
    [
        ("0b7c5f3a90c2e845-1@n2", "red"),  # of another agent, which would count it for its own arm
        ("0b7c5f3a90c2e845-1", "red"),
        ("0b7c5f3a90c2e845-1@n0", "blue"),  # which is not allowed
        ("0b7c5f3a90c2e845-1@n0", "no such arm"),
        ("0b7c5f3a90c2e845-1@n0" + "x" * 1000, "red"),
    ],
)
def test_what_an_owner_makes_up_is_not_used(ticket: str, arm: str) -> None:
    fleet = Fleet(3, arms=["red", "green", "blue"], sticky_seconds=600.0)
    unit = fleet.unit_of(0)
    fleet.node(0).calls.serve = lambda *_: encode((1, ticket, arm))
    choice = fleet.choose(1, unit, allowed=["red", "green"])
    assert choice.ticket.endswith("@n1")
    assert choice.arm in ("red", "green")
    assert choice.sticky is False


@pytest.mark.parametrize("wait", [math.inf, math.nan, -1.0, 1e300])
def test_an_error_of_another_agent_does_no_harm(wait: float) -> None:
    fleet = Fleet(2)
    ticket = fleet.choose(0).ticket
    fleet.node(0).calls.serve = lambda *_: encode((3, "RateLimitError", "no\nmore\x1b" * 999, wait))
    error = fleet.submit(1, ticket)
    assert isinstance(error, UnavailableError)
    assert failed(error).status == 503
    fleet.node(0).calls.serve = lambda *_: encode((3, "RateLimitError", "no\nmore\x1b" * 999, 2.5))
    error = fleet.submit(1, ticket)
    assert isinstance(error, RateLimitError)
    assert failed(error).headers == ((b"retry-after", b"3"),)
    assert str(error).isprintable()
    assert len(str(error)) <= MAX_REASON


def test_an_agent_that_stops_or_has_failed_makes_no_calls() -> None:
    fleet = Fleet(2, sticky_seconds=600.0)
    unit, ticket = fleet.unit_of(0), fleet.choose(0).ticket
    fleet.of(1).draining = True
    with pytest.raises(DrainingError):
        fleet.choose(1, unit)
    assert isinstance(fleet.submit(1, ticket), Receipt)
    fleet.of(1).failure = "the agent failed"
    with pytest.raises(UnavailableError, match="the agent failed"):
        fleet.choose(1, unit)
    with pytest.raises(UnavailableError, match="the agent failed"):
        fleet.submit(1, ticket)


def test_what_is_rejected_without_a_unit_is_rejected_with_one() -> None:
    fleet = Fleet(2, sticky_seconds=600.0)
    unit = fleet.unit_of(0)
    served = fleet.node(0).calls.served
    more: dict[str, Any]
    for more in ({"allowed": "red"}, {"allowed": []}, {"allowed": 7}, {"context": {"age": 3}}):
        with pytest.raises(InputError):
            fleet.choose(1, unit, **more)
    with pytest.raises(InputError, match="a unit is a string"):
        fleet.choose(1, "\ud800")
    assert fleet.node(0).calls.served == served


def test_while_a_units_owner_is_away_the_agent_asked_chooses() -> None:
    fleet = Fleet(3, sticky_seconds=600.0)
    unit = fleet.unit_of(2)
    assert fleet.choose(0, unit).sticky
    fleet.crash(2)
    began = fleet.now
    choice = fleet.choose(0, unit)
    assert choice.sticky is False
    assert choice.ticket.endswith("@n0")
    assert fleet.now - began <= 2.0
    began = fleet.now
    assert fleet.choose(0, unit).sticky is False
    assert fleet.now == began, "an owner that did not answer is not waited for again"
    fleet.restart(2)
    fleet.restarted(8)
    assert fleet.choose(0, unit).sticky


def test_an_agent_that_is_gone_leaves_its_units_to_others() -> None:
    fleet = Fleet(3, nx.complete_graph(3), sticky_seconds=600.0)
    units = [f"user-{k}" for k in range(30)]
    before = {unit: fleet.owner(unit) for unit in units}
    fleet.crash(2)
    fleet.beats(int(LIVES * fleet.node(0).routes.interval) + 3)
    after = {unit: fleet.owner(unit) for unit in units}
    assert set(after.values()) == {0, 1}
    assert all(after[unit] == before[unit] for unit in units if before[unit] != 2)
    assert all(fleet.choose(0, unit).sticky for unit in units)


def test_an_agent_that_stops_gives_its_units_away_until_it_is_back() -> None:
    fleet = Fleet(3, nx.complete_graph(3), sticky_seconds=600.0)
    units = [f"user-{k}" for k in range(30)]
    before = [fleet.owner(unit) for unit in units]
    fleet.shells[2].leave()
    fleet.deliver()
    assert {fleet.owner(unit) for unit in units} == {0, 1}
    fleet.crash(2)
    fleet.restart(2)
    fleet.restarted()
    assert [fleet.owner(unit) for unit in units] == before


def test_an_agent_that_drains_or_has_not_found_the_others_is_no_obstacle() -> None:
    fleet = Fleet(2, sticky_seconds=600.0)
    unit = fleet.unit_of(1)
    fleet.of(1).draining = True
    choice = fleet.choose(0, unit)
    assert (choice.sticky, choice.ticket.partition("@")[2]) == (False, "n0")
    fleet.crash(0)
    fleet.restart(0)
    fleet.of(0)
    assert fleet.choose(0, unit).sticky is False


def test_without_sticky_seconds_a_unit_changes_nothing() -> None:
    fleet = Fleet(2)
    choice = fleet.choose(0, "user-1")
    assert choice.sticky is False
    assert choice.ticket.endswith("@n0")
    assert fleet.choose(0).sticky is None
    assert not fleet.replica(0).units.given


def test_an_owner_that_remembers_no_units_is_not_asked_to_choose() -> None:
    """As while the setting is rolled out: an option that may be another one next is not sticky."""
    fleet = Fleet(2, sticky_seconds=600.0)
    unit = fleet.unit_of(1)
    fleet.take(1, {"button": bandit("button", BUTTON)})
    choice = fleet.choose(0, unit)
    assert (choice.sticky, choice.ticket.partition("@")[2]) == (False, "n0")
    assert not fleet.replica(1).units.given


def test_a_call_that_comes_twice_opens_one_ticket() -> None:
    fleet = Fleet(2, sticky_seconds=600.0)
    unit = fleet.unit_of(1)
    calls: list[bytes] = []
    begin = fleet.node(0).calls.begin

    def recorded(destination: str, plain: bytes, now: float, seconds: float, then: Then) -> None:
        calls.append(plain)
        begin(destination, plain, now, seconds, then)

    fleet.node(0).calls.begin = recorded  # type: ignore[method-assign]
    choice = fleet.choose(0, unit)
    made = fleet.replica(1).tickets.next_number
    answers: list[bytes | None] = []
    begin("n1", calls[0], fleet.now, 2.0, answers.append)
    fleet.shells[0].settle()
    fleet.step()
    assert choice.ticket.encode() in (answers[0] or b"")
    assert fleet.replica(1).tickets.next_number == made


def test_rendezvous_hashing_spreads_units_and_moves_only_those_of_who_comes_or_goes() -> None:
    owners, units = Owners(number), [bytes([k % 256, k // 256] * 8) for k in range(3000)]
    names = [name_of(k) for k in range(6)]
    owners.take(names)
    before = {unit: owners.find(unit) for unit in units}
    for name in names:
        assert 400 < sum(owner == name for owner in before.values()) < 600
    owners.take([*names, name_of(6)])
    after = {unit: owners.find(unit) for unit in units}
    assert all(after[unit] in (before[unit], "n6") for unit in units)


# Silence


def test_a_fleet_that_uses_neither_sends_nothing_for_them() -> None:
    fleet = Fleet(3)
    for agent in range(3):
        fleet.play(agent, "button", 1.0)
    fleet.beats(30)
    kind = encode_routes(fleet.node(0)._stamp(), b"")[3]
    assert kind == ROUTES
    assert not any(data[3] == kind for _, _, data in fleet.posted)
    ticket = fleet.choose(0).ticket
    assert isinstance(fleet.submit(2, ticket), Receipt)
    fleet.beats(WANTED + 30)
    fleet.posted.clear()
    fleet.beats(30)
    assert not any(data[3] == kind for _, _, data in fleet.posted)
