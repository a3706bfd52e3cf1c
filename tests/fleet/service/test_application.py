"""The service: names for numbers, answers, errors, and what is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TypeVar, cast

import msgspec
import networkx as nx
import numpy as np
import pytest

from coopbandits.core import CooperativeAgent, recommend
from coopbandits.core.aggregate.ledger_sums import YOUNG, LedgerSumsMachine
from coopbandits.core.aggregate.spanning_tree import BOND, CHILD
from coopbandits.core.aggregate.tree_sums import sum_branches
from coopbandits.core.errors import InputError
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.service import (
    CONFIDENCE,
    ExpiredTicketError,
    OtherRewardError,
    UnavailableError,
    UnknownTicketError,
)
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.service.metrics import CATALOGUE, residual
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.version import __version__
from tests.torture.world import PERIOD, World

from ..bandits import only

T = TypeVar("T")

NAMES = ("red", "green", "blue")
BANDIT = only("flood-ts:family=bernoulli", NAMES, epoch=1_790_000_000, reward_range=(-1.0, 3.0))
SYNCHRONOUS = replace(BANDIT, policy="dec-ts", num_agents=3, sigma=1.0)


def service_in(world: World, agent: int = 0) -> ServedAgent:
    """Return the service of an agent, with words 1, 2, 3, …."""
    return world.service(agent, count(1).__next__)


def answered(service: ServedAgent, call: Callable[[], T]) -> T:
    """Return what an application is answered, or raise why it is not."""
    found, errors = call(), list[UnavailableError | None]()
    service.stored(errors.append)
    (error,) = errors
    if error is not None:
        raise error
    return found


def path_world(bandit: BanditConfig = BANDIT) -> World:
    return World(bandit, nx.path_graph(3))


def sample(service: ServedAgent, name: str, **labels: str) -> float:
    """Return one value of a metric."""
    (metric,) = (metric for metric in service.metrics() if metric.name == name)
    (value,) = (value for found, value in metric.samples if found == labels)
    return value


def test_a_choice_and_its_reward_go_by_names() -> None:
    service = service_in(path_world())
    choice = service.bandit("only").choose(["blue"])
    assert choice.arm == "blue"
    assert [arm.open for arm in service.bandit("only").arms()] == [0, 0, 1]
    receipt = service.bandit("only").observe(choice.ticket, 3)
    assert receipt == (choice.ticket, "blue", 3.0, False)
    assert service.bandit("only").observe(choice.ticket, 3.0) == receipt._replace(duplicate=True)
    blue = service.bandit("only").arms()[2]
    assert (blue.arm, blue.mean, blue.pulls, blue.own_pulls) == ("blue", 3.0, 1.0, 1)
    assert (blue.own_reward, blue.open) == (3.0, 0)


def reward(service: ServedAgent, arm: str, paid: float, times: int = 1) -> None:
    for _ in range(times):
        service.bandit("only").observe(service.bandit("only").choose([arm]).ticket, paid)


def test_an_agent_says_which_option_won_and_how_sure_that_is() -> None:
    service = service_in(path_world())
    assert service.bandit("only").recommendation().sentence == "No reward is known of yet."
    reward(service, "blue", 2.0)
    early = service.bandit("only").recommendation()
    assert (early.arm, early.lead, early.certain) == ("blue", None, False)
    assert "of some option no reward is known" in early.sentence
    reward(service, "red", -1.0)
    reward(service, "green", -1.0)
    early = service.bandit("only").recommendation()
    assert early.lead is not None
    assert early.lead < 0.0
    assert "too early to tell" in early.sentence
    for arm, paid in (("blue", 3.0), ("red", -1.0), ("green", -1.0)):
        reward(service, arm, paid, 150)
    found = service.bandit("only").recommendation(0.99)
    assert (found.arm, found.certain, found.confidence) == ("blue", True, 0.99)
    assert found.lead is not None
    assert 1.0 < found.lead < 4.0  # in rewards, which go from −1 to 3
    assert found.sentence.startswith("blue is best: with 99 % confidence after 453 rewards")
    with pytest.raises(InputError, match="0 and 1"):
        service.bandit("only").recommendation(1.5)


def test_an_agent_that_mixes_averages_says_so() -> None:
    service = service_in(path_world(SYNCHRONOUS))
    reward(service, "red", 1.0)
    found = service.bandit("only").recommendation()
    assert (found.arm, found.lead, found.certain) == ("red", None, False)
    assert "running-consensus" in found.sentence


def test_an_agent_on_a_tree_claims_nothing() -> None:
    """Neither in its recommendation nor by the intervals that the page computes with."""
    service = service_in(path_world(replace(BANDIT, policy="tree-ts")))
    assert service.bandit("only").recommendation().sentence == "No reward is known of yet."
    for arm, paid in (("blue", 3.0), ("red", -1.0), ("green", -1.0)):
        reward(service, arm, paid, 150)
    found = service.bandit("only").recommendation()
    assert (found.arm, found.lead, found.pulls, found.certain) == ("blue", None, 450.0, False)
    assert "tree-sums" in found.sentence
    assert [(arm.mean, arm.confidence) for arm in service.bandit("only").arms()] == [
        (-1.0, None), (-1.0, None), (3.0, None),
    ]  # fmt: skip


def test_an_agent_of_a_ledger_claims_by_what_is_certain() -> None:
    world = path_world(replace(BANDIT, policy="ledger-ts"))
    service = service_in(world)
    for arm, paid in (("blue", 3.0), ("red", -1.0), ("green", -1.0)):
        reward(service, arm, paid, 150)
    agent = cast("CooperativeAgent", world.replica(0).agent)
    assert isinstance(agent.machine, LedgerSumsMachine)
    s = agent.machine.state
    s.payloads[:] = s.own  # a neighbour tells of the own pulls again
    s.controls[:, BOND] = CHILD
    sum_branches(s)
    assert agent.estimate().counts.sum() == 900.0
    found = service.bandit("only").recommendation()
    assert (found.arm, found.pulls, found.certain) == ("blue", 450.0, True)
    half = 1.959964 * 0.5 * 4.0 / np.sqrt(150.0)
    assert service.bandit("only").arms()[0].confidence == pytest.approx((-1.0, -1.0 + half))


def test_clients_and_agents_ask_for_the_same_confidence() -> None:
    assert CONFIDENCE == recommend.CONFIDENCE


def test_nothing_is_known_of_an_arm_that_nobody_tried() -> None:
    assert service_in(path_world()).bandit("only").arms()[0] == ("red", None, 0.0, None, 0, 0.0, 0)


@pytest.mark.parametrize("reward", [-1.0, 0.0, 3.0])
def test_an_interval_stays_where_rewards_can_be(reward: float) -> None:
    service = service_in(path_world())
    for pulls in range(1, 30):
        service.bandit("only").observe(service.bandit("only").choose(["red"]).ticket, reward)
        low, high = service.bandit("only").arms()[0].confidence or (np.nan, np.nan)
        half = 1.959964 * 0.5 * 4.0 / np.sqrt(pulls)  # Hoeffding: sigma is half of the range
        assert low == pytest.approx(max(-1.0, reward - half))
        assert high == pytest.approx(min(3.0, reward + half))


def test_without_a_range_an_interval_is_as_wide_as_it_is() -> None:
    service = service_in(
        path_world(replace(BANDIT, policy="flood-ts", reward_range=None, sigma=5.0))
    )
    service.bandit("only").observe(service.bandit("only").choose(["red"]).ticket, 40.0)
    assert service.bandit("only").arms()[0].confidence == pytest.approx(
        (40.0 - 9.79982, 40.0 + 9.79982)
    )


def test_what_others_found_is_in_the_estimate_and_not_in_the_own() -> None:
    world = path_world()
    far = service_in(world, 2)
    far.bandit("only").observe(far.bandit("only").choose(["green"]).ticket, 1.0)
    for _ in range(20):
        world.step()
    green = service_in(world).bandit("only").arms()[1]
    assert (green.mean, green.pulls, green.own_pulls, green.own_reward) == (1.0, 1.0, 0, 0.0)


def test_errors_of_an_application_are_sentences_and_change_nothing() -> None:
    world = path_world()
    service = service_in(world)
    done, late = service.bandit("only").choose(), service.bandit("only").choose()
    service.bandit("only").observe(done.ticket, 1.0)
    before = service.bandit("only").arms()
    for ticket, reward, error in (
        (done.ticket, 2.0, OtherRewardError),
        (late.ticket, 3.5, InputError),
        (late.ticket, float("nan"), InputError),
        ("17", 1.0, UnknownTicketError),
        (late.ticket + "7", 1.0, UnknownTicketError),
        (service_in(world, 1).bandit("only").choose().ticket, 1.0, UnknownTicketError),
    ):
        with pytest.raises(error):
            service.bandit("only").observe(ticket, reward)
    with pytest.raises(InputError, match=r"'gren'.*green"):
        service.bandit("only").choose(["gren"])
    for allowed in ([], "green", ["green", "green"]):
        with pytest.raises(InputError, match=r"^allowed "):
            service.bandit("only").choose(allowed)
    assert service.bandit("only").arms() == before
    world.now += 3601.0
    service.node.beat(world.now)
    with pytest.raises(ExpiredTicketError):
        service.bandit("only").observe(late.ticket, 1.0)
    assert sample(service, "expired_tickets_total") == 1.0


def test_a_reward_that_is_late_is_not_counted_even_before_the_next_beat() -> None:
    world = path_world()
    service = service_in(world)
    late = service.bandit("only").choose()
    world.now += 1800.0
    early = service.bandit("only").choose()
    world.now += 1800.0
    with pytest.raises(ExpiredTicketError):
        service.bandit("only").observe(late.ticket, 1.0)
    assert sample(service, "expired_tickets_total") == 1.0
    assert not service.bandit("only").observe(early.ticket, 1.0).duplicate
    world.now += 7200.0
    assert service.bandit("only").observe(early.ticket, 1.0).duplicate, (
        "what was counted stays known"
    )


def limited(limit: int) -> tuple[World, ServedAgent]:
    """Return an agent with a limit of open tickets, and its world."""
    world = World(BANDIT, nx.path_graph(3), max_open_tickets=limit)
    return world, service_in(world)


def test_choices_without_rewards_do_not_block() -> None:
    world, service = limited(20)
    tickets = [service.bandit("only").choose().ticket for _ in range(100)]
    health = service.health()
    assert health["version"] == __version__
    assert (health["open_tickets"], health["abandoned_tickets"]) == (20, 80)
    bandit = health["bandits"]["only"]
    assert (bandit["open_tickets"], bandit["max_open_tickets"]) == (20, 20)
    assert bandit["abandoned_tickets"] == 80
    for ticket in tickets[60:80]:
        with pytest.raises(ExpiredTicketError, match=r"abandoned .*max_open_tickets.*\b20\b"):
            service.bandit("only").observe(ticket, 1.0)
    for ticket in tickets[80:]:
        assert not service.bandit("only").observe(ticket, 1.0).duplicate
    world.now += 3601.0
    service.bandit("only").choose()
    assert sample(service, "abandoned_tickets_total") == 80.0
    assert sample(service, "abandoned_rewards_total") == 20.0
    assert sample(service, "expired_tickets_total") == 0.0
    assert (sample(service, "open_tickets"), sample(service, "max_open_tickets")) == (1.0, 20.0)
    state = service.state()
    assert (state.open_tickets, state.expired_tickets) == (1, 0)
    assert sum(arm.open for arm in service.bandit("only").arms()) == 1


def test_abandoned_tickets_stay_counted_after_a_restart() -> None:
    world, service = limited(3)
    tickets = [answered(service, service.bandit("only").choose).ticket for _ in range(5)]
    for _ in range(2):  # from events, then from a snapshot
        world.crash(0)
        world.restart(0)
        service = service_in(world)
        assert sample(service, "abandoned_tickets_total") == 2.0
        with pytest.raises(ExpiredTicketError, match="was abandoned"):
            service.bandit("only").observe(tickets[1], 1.0)
    assert not service.bandit("only").observe(tickets[2], 1.0).duplicate


def test_the_log_warns_before_tickets_are_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    _, service = limited(20)
    tickets = [service.bandit("only").choose().ticket for _ in range(60)]

    def warned() -> list[dict[str, object]]:
        told = [record.msg for record in caplog.records]
        found: list[dict[str, object]] = [
            {**each.fields} for each in told if isinstance(each, LogEvent)
        ]
        caplog.clear()
        return found

    def fields(opened: int) -> dict[str, object]:
        percent = {10: 50, 18: 90}[opened]
        return {
            "bandit": "only", "percent": percent, "open_tickets": opened, "max_open_tickets": 20,
        }  # fmt: skip

    assert "bandit=only percent=50 open_tickets=10 max_open_tickets=20" in caplog.text
    assert "bandit=only percent=90 open_tickets=18 max_open_tickets=20" in caplog.text
    assert warned() == [fields(10), fields(18)]
    for ticket in tickets[40:55]:  # 5 are left, a quarter
        service.bandit("only").observe(ticket, 1.0)
    tickets += [service.bandit("only").choose().ticket for _ in range(14)]
    assert warned() == [], "they did not fall below a quarter"
    for ticket in tickets[55:]:
        service.bandit("only").observe(ticket, 1.0)
    for _ in range(17):
        service.bandit("only").choose()
    assert warned() == [fields(10)]


def test_a_full_disk_takes_nothing_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = path_world()
    service = service_in(world)
    choice = answered(service, service.bandit("only").choose)

    def full(data: bytes) -> None:
        raise DiskError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(world.disks[0], "append", full)
        patch.setattr(world.disks[0], "prepare", full)
        with pytest.raises(UnavailableError, match="a reward counts once"):
            answered(service, lambda: service.bandit("only").observe(choice.ticket, 1.0))
        with pytest.raises(UnavailableError, match="nothing was chosen"):
            service.bandit("only").choose()
        with pytest.raises(UnavailableError, match="not counted"):
            service.bandit("only").observe(choice.ticket, 1.0)
        assert service.ready() == "no space"
        world.step()
        assert service.ready() == "no space"
        assert service.health()["trouble"] == "no space"
    world.step()
    assert service.ready() is None
    assert service.bandit("only").observe(choice.ticket, 1.0).duplicate, "the snapshot has it"
    world.crash(0)
    world.restart(0)
    assert world.replica(0).rewards == 1


def test_health_is_plain_data() -> None:
    world = path_world()
    service = service_in(world, 1)
    assert service.health()["links"] == {"n0": "down: no link yet", "n2": "down: no link yet"}
    for _ in range(5):
        world.step()
    world.cut_link(1, 2)
    service.bandit("only").observe(service.bandit("only").choose().ticket, 0.0)
    health = service.health()
    assert msgspec.json.decode(msgspec.json.encode(health)) == health
    assert (health["id"], health["cluster"]) == ("n1", "shop")
    assert health["links"] == {"n0": "up", "n2": "down: cut"}
    assert (health["round"], health["rewards"], health["open_tickets"]) == (5, 1, 0)
    assert health["journal_bytes"] == len(world.disks[1].data)
    bandit = health["bandits"]["only"]
    assert (bandit["policy"], bandit["mode"]) == (BANDIT.policy, "robust")
    assert (bandit["round"], bandit["rewards"], bandit["open_tickets"]) == (5, 1, 0)
    assert bandit["agents_known"] == 3
    assert sum(bandit["shares"]["5"][3:]) == 1.0


def moving(service: ServedAgent) -> dict[str, float] | None:
    found: dict[str, float] | None = service.health()["bandits"]["only"]["moving"]
    return found


def test_health_tells_where_pulls_are_that_agents_hand_on() -> None:
    assert moving(service_in(path_world())) is None
    world = path_world(replace(BANDIT, policy="ledger-ts:family=bernoulli"))
    service = service_in(world, 1)
    service.bandit("only").observe(service.bandit("only").choose().ticket, 0.0)
    assert moving(service) == {"held": 1.0, "underway": 0.0, "collected": 0.0}
    for _ in range(YOUNG + 10):
        world.step()
    assert moving(service) == {"held": 0.0, "underway": 0.0, "collected": 1.0}


def test_metrics_are_those_of_the_catalogue() -> None:
    world = path_world()
    service = service_in(world, 1)
    assert [metric.name for metric in service.metrics()] == list(CATALOGUE)
    assert sample(service, "wait_seconds", neighbor="n0") == 0.0
    for _ in range(5):
        world.step()
    world.cut_link(1, 2)
    world.step()
    world.cut.clear()
    service.bandit("only").observe(service.bandit("only").choose().ticket, 0.0)
    for _ in range(3):
        world.step()
    service.bandit("only").choose()
    service.node.refused("10.0.0.9:4", "no certificate", world.now)
    assert sample(service, "link_up", neighbor="n0") == 1.0
    world.shells[1].received("n0", bytes(100))
    world.deliver()
    assert sample(service, "round") == world.replica(1).rounds
    assert sample(service, "link_up", neighbor="n0") == 0.0
    assert sample(service, "reconnects_total", neighbor="n0") == 0.0
    assert sample(service, "reconnects_total", neighbor="n2") == 1.0
    assert sample(service, "frames_total", neighbor="n0", kind="sent") > 4.0
    assert sample(service, "frames_total", neighbor="n0", kind="refused") == 1.0
    assert sample(service, "refused_frames_total", reason="malformed") == 1.0
    assert sample(service, "refused_strangers_total") == 1.0
    totals = ("choices_total", "rewards_total", "open_tickets", "expired_tickets_total")
    assert [sample(service, name) for name in totals] == [2.0, 1.0, 1.0, 0.0]
    assert sample(service, "journal_bytes") == len(world.disks[1].data)
    assert sample(service, "round_wait_seconds", neighbor="n0") == 0.0


def test_who_holds_up_a_round_is_seen() -> None:
    world = path_world(SYNCHRONOUS)
    for _ in range(5):
        world.step()
    service = service_in(world, 1)
    world.cut_link(1, 2)
    for _ in range(40):
        world.step()
    world.cut.clear()
    world.connect()
    world.deliver()
    assert sample(service, "round_wait_seconds", neighbor="n2") >= 38 * PERIOD
    assert sample(service, "round_wait_seconds", neighbor="n0") <= 2 * PERIOD


def test_totals_that_do_not_add_up_are_seen() -> None:
    service = service_in(path_world())
    for _ in range(4):
        service.bandit("only").observe(service.bandit("only").choose().ticket, 1.0)
    assert residual(service.bandit("only")) == 0.0
    service.bandit("only").replica.own_counts[0] += 1
    assert residual(service.bandit("only")) == pytest.approx(0.2)


@pytest.mark.parametrize("bandit", [SYNCHRONOUS, replace(BANDIT, policy="gossip-ts")])
def test_where_policies_spread_rewards_nothing_is_to_add_up(bandit: BanditConfig) -> None:
    world = path_world(bandit)
    service = service_in(world)
    service.bandit("only").observe(service.bandit("only").choose().ticket, 1.0)
    for _ in range(9):
        world.step()
    assert residual(service.bandit("only")) == 0.0
