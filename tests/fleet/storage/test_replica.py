"""The replica: every change goes through the journal, and comes back exactly."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits.core import InputError
from coopbandits.fleet.service import ExpiredTicketError, OtherRewardError, UnavailableError
from coopbandits.fleet.storage.disk import DiskError, DoubtError, MemoryDisk
from coopbandits.fleet.storage.journal import COMPACT_GROWTH
from coopbandits.fleet.storage.records import Observed
from coopbandits.fleet.storage.replica import Replica
from tests.torture.schedule import ROUNDS_PER_SECOND
from tests.torture.world import World

from ..bandits import only

ARMS = ("a", "b", "c")


def world(policy: str = "flood-ts", limit: int = 10_000, **told: Any) -> World:
    bandit = only(policy, ARMS, reward_range=(0.0, 2.0), **told)
    return World(bandit, nx.cycle_graph(3), max_open_tickets=limit)


def replica_of(made: World, agent: int = 0) -> Replica:
    return made.replica(agent)


def remembered(replica: Replica) -> dict[str, Any]:
    state = replica.export()
    return state | {"incarnation": 0, "tickets": state["tickets"] | {"starts": []}}


class Full(MemoryDisk):
    """A disk that is full from some moment on."""

    full = False

    def append(self, data: bytes) -> None:
        if self.full:
            raise DoubtError("no space")
        super().append(data)

    def prepare(self, data: bytes) -> None:
        if self.full:
            raise DiskError("no space")
        super().prepare(data)


@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts:family=bernoulli", "gossip-ts"])
def test_a_restart_changes_nothing_but_the_incarnation(policy: str) -> None:
    made = world(policy)
    for step in range(40):
        made.pull(step % 3, step, 0.5)
        replica_of(made).choose(step, None, made.now)
        made.step()
    before = remembered(replica_of(made))
    first = replica_of(made).incarnation
    made.crash(0)
    made.restart(0)
    assert remembered(replica_of(made)) == before
    assert replica_of(made).incarnation > first


def test_tickets_do_not_follow_from_what_neighbours_are_sent() -> None:
    """Marks and tenures are made of the word that an agent is opened with, and of the identity."""
    made = world("ledger-ts")
    for agent in range(3):
        replica = replica_of(made, agent)
        number, _ = replica.choose(7, None, made.now)
        ticket = int(replica.tickets.name(number).partition("-")[0], 16)
        opened = replica.agent.machine.state.me.nonce  # type: ignore[attr-defined]  # of a ledger
        assert ticket not in (opened, replica.journal.origin["word"], 0)
        assert ticket ^ replica.journal.origin["word"] != opened


def test_an_agent_that_starts_asks_its_neighbours_first() -> None:
    """Its journal may be older than what it has told; here it is not, and nothing is dropped."""
    made = world("ledger-ts")
    for step in range(20):
        made.pull(step % 3, step, 0.5)
        made.step()
    marks = replica_of(made).agent.export_state()["aggregation"]["marks"]
    assert all(marks)
    made.crash(0)
    made.restart(0)
    state = replica_of(made).agent.export_state()["aggregation"]
    assert (state["opened"], state["marks"]) == (replica_of(made).rounds, marks)
    for _ in range(20):
        made.step()
    state = replica_of(made).agent.export_state()["aggregation"]
    assert (state["opened"], state["marks"]) == (-1, marks)


def test_rewards_reach_the_agent_on_its_own_scale() -> None:
    made = world()
    made.pull(0, 1, 1.5)
    replica = replica_of(made)
    assert replica.own_sums.sum() == 1.5
    assert replica.agent.share().sums.sum() == 0.75


@pytest.mark.parametrize("reward", [2.5, -0.1, float("nan"), float("inf")])
def test_an_impossible_reward_leaves_its_ticket_open(reward: float) -> None:
    replica = replica_of(world())
    number, _ = replica.choose(1, None, 0.0)
    with pytest.raises(InputError, match="reward"):
        replica.observe(number, reward)
    assert replica.observe(number, 1.0)[1] is False
    assert replica.observe(number, 1.0)[1] is True
    with pytest.raises(OtherRewardError):
        replica.observe(number, 1.1)
    assert replica.own_counts.sum() == 1


def test_open_tickets_spread_a_burst_over_the_arms() -> None:
    replica = replica_of(world("flood-ucb"))
    assert sorted(replica.choose(0, None, 0.0)[1] for _ in range(3)) == [0, 1, 2]


def test_expired_tickets_are_no_longer_open_pulls() -> None:
    replica = replica_of(world())
    for now in (0.0, 10.0, 20.0):
        replica.choose(1, None, now)
    assert replica.agent.open_pulls.sum() == 3
    assert replica.expire(3610.0) == 2
    assert replica.agent.open_pulls.sum() == 1


@pytest.mark.parametrize("policy", ["flood-ts", "gossip-ts", "dducb", "tree-ts:family=bernoulli"])
def test_abandoned_tickets_are_no_longer_open_pulls(policy: str) -> None:
    more: dict[str, Any] = {"num_agents": 3, "lambda_bound": 0.9} if policy == "dducb" else {}
    made = world(policy, limit=4, **more)
    replica = replica_of(made)
    arms = [replica.choose(step, None, made.now)[1] for step in range(10)]
    assert list(replica.tickets.open) == [7, 8, 9, 10]
    assert replica.agent.open_pulls.tolist() == [arms[6:].count(arm) for arm in range(3)]
    with pytest.raises(ExpiredTicketError, match="was abandoned"):
        replica.observe(6, 1.0)
    assert replica.observe(7, 1.0) == (arms[6], False)
    assert (replica.rewards, replica.expired_tickets, replica.tickets.num_abandoned) == (1, 0, 6)
    assert replica.expire(made.now + 3600.0) == 3
    assert replica.agent.open_pulls.sum() == 0
    assert (replica.expired_tickets, replica.tickets.num_abandoned) == (3, 6)


@pytest.mark.parametrize("limit", [1, 2, 5, 8])
@pytest.mark.parametrize("policy", ["flood-ts", "gossip-ts"])
def test_a_restart_with_another_limit_keeps_every_ticket(policy: str, limit: int) -> None:
    """What was abandoned follows from the events; rewards behind it replay with any limit."""
    made = world(policy, limit=5)
    for step in range(30):
        replica = replica_of(made)
        number, _ = replica.choose(step, None, made.now)
        replica.observe(number - step % 5, 0.5)  # as late as can be, from time to time
        replica.choose(step, None, made.now)
        made.step()
    before = remembered(replica_of(made))
    assert before["tickets"]["num_abandoned"] > 10
    made.crash(0)
    made.max_open_tickets = limit
    for _ in range(2):  # from events, then from a snapshot
        made.restart(0)
        after = remembered(replica_of(made))
        for table in ("settled", "abandoned"):  # a lower limit remembers fewer, a higher one more
            known, found = (list(each["tickets"].pop(table)) for each in (before, after))
            both = min(len(known), len(found))
            assert found[-both:] == known[-both:]
            assert both >= min(limit, 5)
            before["tickets"][table] = found
        assert after["tickets"].items() <= before["tickets"].items()
        assert {**after, "tickets": {}} == {**before, "tickets": {}}
        made.crash(0)
    made.restart(0)
    replica = replica_of(made)
    opened = list(replica.tickets.open)
    number, _ = replica.choose(1, None, made.now)
    assert list(replica.tickets.open) == [*opened, number][-limit:]
    assert replica.agent.open_pulls.sum() == len(replica.tickets.open)


def test_a_journal_is_as_short_with_tickets_that_are_abandoned() -> None:
    """Nothing is written of a ticket that is abandoned but a number in the event of the next."""
    sizes = []
    for limit in (10_000, 10):
        made = world(limit=limit)
        for step in range(1000):
            replica_of(made).choose(step, None, made.now)
        made.shells[0].settle()
        sizes.append(len(made.disks[0].data))
    assert sizes[1] <= 1.3 * sizes[0]


def fill_up() -> tuple[World, Full, int]:
    """Return an agent whose disk is full since a reward was handed in, and its ticket.

    Another ticket is open.
    """
    made = world()
    made.disks[0] = disk = Full(made.disks[0].read() or b"")
    made.restart(0)
    number, _ = replica_of(made).choose(1, None, made.now)
    replica_of(made).choose(1, None, made.now)
    made.shells[0].settle()
    disk.full = True
    assert replica_of(made).observe(number, 1.0)[1] is False
    made.shells[0].settle()
    return made, disk, number


def acknowledged(made: World) -> bool:
    """Return whether a caller would get an answer."""
    told: list[UnavailableError | None] = []
    made.shells[0].wait(told.append)
    return told == [None]


def test_a_full_disk_refuses_and_changes_nothing_until_a_snapshot_has_what_took_effect() -> None:
    made, disk, number = fill_up()
    replica = replica_of(made)
    before = remembered(replica)
    for attempt in (
        lambda: replica.choose(1, None, made.now),
        lambda: replica.observe(number + 1, 1.0),
        lambda: replica.expire(1e18),
        lambda: replica.end_round({}),
        lambda: replica.speak(),
        lambda: replica.purge([next(iter(replica.arms))]),
    ):
        with pytest.raises(DiskError, match="no space"):
            attempt()
        made.shells[0].settle()
        assert remembered(replica) == before
    assert not acknowledged(made)
    disk.full = False
    made.shells[0].beat()
    assert acknowledged(made)
    assert replica.observe(number, 1.0)[1] is True, "it counts once"
    after = remembered(replica)
    made.crash(0)
    made.restart(0)
    assert remembered(replica_of(made)) == after
    assert replica_of(made).own_counts.sum() == 1


def test_a_reward_that_was_not_acknowledged_counts_once_when_it_is_handed_in_after_a_crash() -> (
    None
):
    made, disk, number = fill_up()
    assert not acknowledged(made)
    disk.full = False
    made.crash(0)
    made.restart(0)
    for duplicate in (False, True):
        assert replica_of(made).observe(number, 1.0)[1] is duplicate
    assert acknowledged(made)
    assert replica_of(made).own_counts.sum() == 1


class Counting(MemoryDisk):
    """A disk that counts its writes."""

    writes = 0

    def append(self, data: bytes) -> None:
        self.writes += 1
        super().append(data)


@pytest.mark.parametrize("policy", ["dec-ts", "tree-ts", "flood-ts"])
def test_a_round_is_one_write(policy: str) -> None:
    told = {"num_agents": 3} if policy == "dec-ts" else {}
    made = world(policy, signatures_per_second=ROUNDS_PER_SECOND, **told)
    made.disks[0] = disk = Counting()
    made.restart(0)
    for _ in range(3):
        made.step()
    rounds, writes = replica_of(made).rounds, disk.writes
    for step in range(10):
        made.pull(1, step, 0.5)  # a flood without news ends no round
        made.step()
    assert disk.writes - writes == replica_of(made).rounds - rounds == 10


def test_a_common_round_that_was_not_on_disk_yet_is_ended_again() -> None:
    made = world("dec-ts", num_agents=3)
    for step in range(5):
        made.pull(step % 3, step, 0.5)
        made.step()
    replica, disk = replica_of(made), made.disks[0]
    rounds, before, written = replica.rounds, remembered(replica), disk.read()
    assert not replica.spoken
    made.crash(0)
    made.restart(0)
    assert (replica_of(made).rounds, replica_of(made).spoken) == (rounds - 1, True)
    made.connect()
    made.deliver()
    assert remembered(replica_of(made)) == before
    assert disk.read() != written, "a new snapshot"


def test_a_disk_that_is_full_for_a_while_loses_no_common_round() -> None:
    made = world("dec-ts", num_agents=3)
    made.disks[0] = disk = Full(made.disks[0].read() or b"")
    made.restart(0)
    for step in range(5):
        made.pull(step % 3, step, 0.5)
        made.step()
    disk.full = True
    made.step(2.0)
    assert made.node(0).trouble == "no space"
    disk.full = False
    for _ in range(5):
        made.step(2.0)
    before = remembered(replica_of(made))
    replica_of(made).choose(1, None, made.now)  # whatever comes next takes the last round along
    made.shells[0].settle()
    made.crash(0)
    made.restart(0)
    assert remembered(replica_of(made))["rounds"] == before["rounds"]
    assert remembered(replica_of(made))["agent"]["aggregation"] == before["agent"]["aggregation"]
    np.testing.assert_allclose(made.shares()[len(ARMS) :], made.acknowledged[len(ARMS) :])


def test_bad_messages_are_found_among_good_ones() -> None:
    made = world("tree-ts")
    for _ in range(3):
        made.step()
    replica = replica_of(made)
    good = replica_of(made, 1).agent.outgoing(0)
    assert good is not None
    inbox = {1: good, 2: good[:-1]}
    before = remembered(replica)
    with pytest.raises(InputError):
        replica.end_round(inbox)
    assert remembered(replica) == before
    assert replica.refused(inbox) == [2]
    replica.end_round({1: good})
    made.shells[0].settle()
    after = remembered(replica)
    made.crash(0)
    made.restart(0)
    assert remembered(replica_of(made)) == after, "what was refused is refused again"


def test_a_bad_message_after_late_rewards_changes_nothing() -> None:
    made = world("dec-ts", num_agents=3)
    for _ in range(3):
        made.step()
    replica = replica_of(made)
    if not replica.spoken:
        replica.speak()
    made.pull(0, 5, 1.0)
    before = remembered(replica)
    with pytest.raises(InputError):
        replica.end_round({1: np.ones(2), 2: np.ones(6)})
    assert remembered(replica) == before
    replica.end_round({1: np.ones(6), 2: np.ones(6)})
    assert replica.own_counts.sum() == 1


@pytest.mark.covering(2)
@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "gossip-ts"])
def test_other_neighbours_after_a_restart(policy: str) -> None:
    made = world(policy)
    for step in range(60):
        made.pull(step % 3, step, 1.0)
        made.step()
    made.crash(0)
    made.graph.remove_edge(0, 2)
    made.restart(0, [1])
    replica = replica_of(made)
    assert replica.own_counts.sum() == 20
    assert list(replica.agent.view.neighbor_weights) == [1]
    made.crash(2)
    made.restart(2, [1])
    for _ in range(120):
        made.step()
    if policy != "gossip-ts":
        assert made.totals(0)[3:].sum() == 60
    made.crash(0)
    made.graph.add_edge(0, 2)
    made.restart(0, [1, 2])
    made.crash(2)
    made.restart(2, [0, 1])
    for _ in range(60):
        made.step()
    assert made.node(0).peers["n2"].met


@pytest.mark.parametrize("policy", ["dec-ts", "dducb"])
def test_a_synchronous_policy_keeps_its_neighbours(policy: str) -> None:
    told: dict[str, Any] = {"lambda_bound": 0.9} if policy == "dducb" else {}
    made = world(policy, num_agents=3, **told)
    for _ in range(9):
        made.step()
    made.crash(0)
    with pytest.raises(InputError, match="other neighbours"):
        made.restart(0, [1])


def test_the_journal_is_rewritten_before_it_grows_without_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coopbandits.fleet.storage.journal.COMPACT_BYTES", 10_000)
    made = world()
    sizes = []
    for step in range(2000):
        made.pull(0, step, 1.0)
        replica_of(made).end_round({})
        if step % 10 == 0:
            made.shells[0].beat()
            sizes.append(replica_of(made).journal.size)
            assert sizes[-1] == len(made.disks[0].data)
    assert sum(after < before for before, after in pairwise(sizes)) > 3
    later = sizes[len(sizes) // 2 :]
    assert max(later) < (1 + COMPACT_GROWTH) * min(later) + 20_000


def test_events_that_cannot_have_happened_are_refused_and_the_journal_is_kept() -> None:
    made = world()
    made.pull(0, 1, 1.5)
    replica_of(made).journal.append(
        Observed(77, 1.0), replica_of(made).number
    )  # of a ticket that nobody has
    made.shells[0].settle()
    before = bytes(made.disks[0].data)
    made.crash(0)
    with pytest.raises(InputError, match="KeyError: 77"):
        made.restart(0)
    assert bytes(made.disks[0].data) == before
