"""The desk: names for numbers, answers, errors, and what is measured."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec
import networkx as nx
import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import ClusterConfig
from coopbandits.fleet.service import (
    ExpiredTicketError,
    OtherRewardError,
    TooManyTicketsError,
    UnavailableError,
    UnknownTicketError,
)
from coopbandits.fleet.service.application import Desk, residual
from coopbandits.fleet.service.catalogue import CATALOGUE
from coopbandits.fleet.storage.disk import DiskError

from ..api.running import running
from ..world import PERIOD, World

NAMES = ("red", "green", "blue")
CLUSTER = ClusterConfig(
    "test", 1_790_000_000, NAMES, "flood-ts:family=bernoulli", reward_range=(-1.0, 3.0)
)
SYNCHRONOUS = replace(CLUSTER, policy="dec-ts", num_agents=3, sigma=1.0)


def desk_in(world: World, agent: int = 0) -> Desk:
    """Return the desk of an agent, with words 1, 2, 3, …."""
    return Desk(world.config(agent), world.node(agent), count(1).__next__)


def path_world(cluster: ClusterConfig = CLUSTER) -> World:
    return World(cluster, nx.path_graph(3))


def sample(desk: Desk, name: str, **labels: str) -> float:
    """Return one value of a metric."""
    (metric,) = (metric for metric in desk.metrics() if metric.name == name)
    (value,) = (value for found, value in metric.samples if found == labels)
    return value


def test_a_choice_and_its_reward_go_by_names() -> None:
    desk = desk_in(path_world())
    choice = desk.choose(["blue"])
    assert choice.arm == "blue"
    assert [arm.open for arm in desk.arms()] == [0, 0, 1]
    receipt = desk.observe(choice.ticket, 3)
    assert receipt == (choice.ticket, "blue", 3.0, False)
    assert desk.observe(choice.ticket, 3.0) == receipt._replace(duplicate=True)
    blue = desk.arms()[2]
    assert (blue.arm, blue.mean, blue.pulls, blue.own_pulls) == ("blue", 3.0, 1.0, 1)
    assert (blue.own_reward, blue.open) == (3.0, 0)


def test_nothing_is_known_of_an_arm_that_nobody_tried() -> None:
    assert desk_in(path_world()).arms()[0] == ("red", None, 0.0, None, 0, 0.0, 0)


@pytest.mark.parametrize("reward", [-1.0, 0.0, 3.0])
def test_an_interval_stays_where_rewards_can_be(reward: float) -> None:
    desk = desk_in(path_world())
    for pulls in range(1, 30):
        desk.observe(desk.choose(["red"]).ticket, reward)
        low, high = desk.arms()[0].confidence or (np.nan, np.nan)
        half = 1.959964 * 0.5 * 4.0 / np.sqrt(pulls)  # Hoeffding: sigma is half of the range
        assert low == pytest.approx(max(-1.0, reward - half))
        assert high == pytest.approx(min(3.0, reward + half))


def test_without_a_range_an_interval_is_as_wide_as_it_is() -> None:
    desk = desk_in(path_world(replace(CLUSTER, policy="flood-ts", reward_range=None, sigma=5.0)))
    desk.observe(desk.choose(["red"]).ticket, 40.0)
    assert desk.arms()[0].confidence == pytest.approx((40.0 - 9.79982, 40.0 + 9.79982))


def test_what_others_found_is_in_the_estimate_and_not_in_the_own() -> None:
    world = path_world()
    far = desk_in(world, 2)
    far.observe(far.choose(["green"]).ticket, 1.0)
    for _ in range(6):
        world.step()
    green = desk_in(world).arms()[1]
    assert (green.mean, green.pulls, green.own_pulls, green.own_reward) == (1.0, 1.0, 0, 0.0)


def test_errors_of_an_application_are_sentences_and_change_nothing() -> None:
    world = path_world()
    desk = desk_in(world)
    done, late = desk.choose(), desk.choose()
    desk.observe(done.ticket, 1.0)
    before = desk.arms()
    for ticket, reward, error in (
        (done.ticket, 2.0, OtherRewardError),
        (late.ticket, 3.5, InputError),
        (late.ticket, float("nan"), InputError),
        ("17", 1.0, UnknownTicketError),
        (late.ticket + "7", 1.0, UnknownTicketError),
        (desk_in(world, 1).choose().ticket, 1.0, UnknownTicketError),
    ):
        with pytest.raises(error):
            desk.observe(ticket, reward)
    with pytest.raises(InputError, match=r"unknown arm 'gren'.*green"):
        desk.choose(["gren"])
    with pytest.raises(InputError):
        desk.choose([])
    assert desk.arms() == before
    world.now += 3601.0
    desk.node.beat()
    with pytest.raises(ExpiredTicketError):
        desk.observe(late.ticket, 1.0)
    assert sample(desk, "expired_tickets_total") == 1.0


def test_tickets_run_out_with_a_time_to_wait() -> None:
    world = path_world()
    desk = desk_in(world)
    desk.books.tickets.limit = 2
    desk.choose()
    world.now += 600.0
    desk.choose()
    with pytest.raises(TooManyTicketsError, match="2 tickets are open") as caught:
        desk.choose()
    assert caught.value.retry_after == 3000.0


def test_a_full_disk_takes_nothing_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = path_world()
    desk = desk_in(world)
    choice = desk.choose()

    def full(data: bytes) -> None:
        raise DiskError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(world.disks[0], "append", full)
        with pytest.raises(UnavailableError, match="no space; nothing was chosen"):
            desk.choose()
        with pytest.raises(UnavailableError, match="no space; the reward is not counted"):
            desk.observe(choice.ticket, 1.0)
        assert desk.ready() is None, "a tick has not failed yet"
        world.step()
        assert desk.ready() == "no space"
        assert desk.health()["trouble"] == "no space"
    assert sum(arm.open for arm in desk.arms()) == 1
    assert not desk.observe(choice.ticket, 1.0).duplicate
    world.step(2.0)
    assert desk.ready() is None


def test_health_is_plain_data() -> None:
    world = path_world()
    desk = desk_in(world, 1)
    assert desk.health()["links"] == {"n0": "down: no link yet", "n2": "down: no link yet"}
    for _ in range(5):
        world.step()
    world.cut_link(1, 2)
    desk.observe(desk.choose().ticket, 0.0)
    health = desk.health()
    assert msgspec.json.decode(msgspec.json.encode(health)) == health
    assert (health["id"], health["cluster"], health["mode"]) == ("n1", "test", "robust")
    assert health["policy"] == CLUSTER.policy
    assert health["links"] == {"n0": "up", "n2": "down: cut"}
    assert (health["round"], health["rewards"], health["open_tickets"]) == (5, 1, 0)
    assert health["agents_known"] == 3
    assert health["journal_bytes"] == len(world.disks[1].data)
    assert sum(health["shares"]["5"][3:]) == 1.0


def test_metrics_are_those_of_the_catalogue() -> None:
    world = path_world()
    desk = desk_in(world, 1)
    assert [metric.name for metric in desk.metrics()] == list(CATALOGUE)
    assert sample(desk, "wait_seconds", neighbor="n0") == 0.0
    for _ in range(5):
        world.step()
    world.cut_link(1, 2)
    world.step()
    world.cut.clear()
    for _ in range(3):
        world.step()
    desk.observe(desk.choose().ticket, 0.0)
    desk.choose()
    desk.node.refused("10.0.0.9:4", "no certificate")
    desk.node.received("n0", bytes(100))
    assert sample(desk, "round") == world.node(1).books.rounds
    assert sample(desk, "link_up", neighbor="n0") == 1.0
    assert sample(desk, "reconnects_total", neighbor="n0") == 0.0
    assert sample(desk, "reconnects_total", neighbor="n2") == 1.0
    assert sample(desk, "frames_total", neighbor="n0", kind="sent") > 4.0
    assert sample(desk, "frames_total", neighbor="n0", kind="refused") == 1.0
    assert sample(desk, "refused_frames_total", reason="malformed") == 1.0
    assert sample(desk, "refused_strangers_total") == 1.0
    totals = ("choices_total", "rewards_total", "open_tickets", "expired_tickets_total")
    assert [sample(desk, name) for name in totals] == [2.0, 1.0, 1.0, 0.0]
    assert sample(desk, "journal_bytes") == len(world.disks[1].data)
    assert sample(desk, "round_wait_seconds", neighbor="n0") == 0.0


def test_who_holds_up_a_round_is_seen() -> None:
    world = path_world(SYNCHRONOUS)
    for _ in range(5):
        world.step()
    desk = desk_in(world, 1)
    world.cut_link(1, 2)
    for _ in range(40):
        world.step()
    world.cut.clear()
    world.connect()
    world.deliver()
    assert sample(desk, "round_wait_seconds", neighbor="n2") >= 38 * PERIOD
    assert sample(desk, "round_wait_seconds", neighbor="n0") <= 2 * PERIOD


def test_totals_that_do_not_add_up_are_seen() -> None:
    desk = desk_in(path_world())
    for _ in range(4):
        desk.observe(desk.choose().ticket, 1.0)
    assert residual(desk) == 0.0
    desk.books.own_counts[0] += 1
    assert residual(desk) == pytest.approx(0.2)


@pytest.mark.parametrize("cluster", [SYNCHRONOUS, replace(CLUSTER, policy="gossip-ts")])
def test_where_policies_spread_rewards_nothing_is_to_add_up(cluster: ClusterConfig) -> None:
    world = path_world(cluster)
    desk = desk_in(world)
    desk.observe(desk.choose().ticket, 1.0)
    for _ in range(9):
        world.step()
    assert residual(desk) == 0.0


KEY = "secret"

# A reward may fit the schema, be a number, and still lie outside of the agent's range.
SETTINGS = """
[[operations]]
include-path = "/observe"
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 409, 422]
"""


def test_schemathesis_finds_nothing_in_the_api_of_a_real_agent(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text(SETTINGS)
    with running(desk_in(path_world()), token=KEY) as server:
        done = subprocess.run(
            [str(Path(sys.executable).parent / "st"), "--config-file", "settings.toml", "run",
             f"http://{server.address}/openapi.json", "--header", f"Authorization: Bearer {KEY}",
             "--checks", "all", "--max-examples", "10", "--generation-deterministic",
             "--no-color"],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}" in done.stdout
