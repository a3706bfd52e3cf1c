"""What an agent tells a page, and its metrics per arm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from coopbandits.fleet.address import Address
from coopbandits.fleet.api.metrics import Meter, render
from coopbandits.fleet.config import NodeConfig, TlsFiles
from coopbandits.fleet.process.main import endpoint_for
from coopbandits.fleet.protocol.frames import NO_ENDPOINT, ApiEndpoint, Hello, Stamp, encode_hello
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.service.watching import LONGEST_LABEL, MOST_LABELS, labels
from coopbandits.page.state import AgentState
from tests.torture.world import World

from ..bandits import only
from ..protocol.test_node import relinked
from .test_application import BANDIT, path_world, sample, service_in


def pulled(service: ServedAgent, arm: str, *rewards: float) -> None:
    for reward in rewards:
        service.observe(service.choose([arm]).ticket, reward)


def test_the_state_says_what_a_page_shows() -> None:
    world = path_world()
    service = service_in(world, 1)
    world.step()
    pulled(service, "red", 1.0, 2.0)
    pulled(service, "blue", 3.0)
    service.choose(["blue"])
    state = service.state()
    red, green, blue = state.arms
    assert (state.id, state.cluster, state.policy) == ("n1", "shop", BANDIT.policy)
    assert (red.choices, red.own_pulls, red.own_reward, red.open) == (2, 2, 3.0, 0)
    assert (blue.choices, blue.own_pulls, blue.open) == (2, 1, 1)
    assert (green.mean, green.low, green.high, green.choices) == (None, None, None, 0)
    assert red.mean == pytest.approx(1.5)
    assert (red.low or 0.0) < 1.5 < (red.high or 0.0)
    assert state.prefers == "blue"
    assert (state.choices, state.rewards, state.open_tickets, state.expired_tickets) == (4, 3, 1, 0)
    assert [(each.name, each.up, each.why) for each in state.neighbors] == [
        ("n0", True, ""), ("n2", True, ""),
    ]  # fmt: skip
    assert all(each.frames > 0 for each in state.neighbors)
    assert [note.kind for note in state.events] == ["started", "link-up", "link-up"]
    assert service.state(state.events[-1].seq).events == []
    assert msgspec.json.decode(msgspec.json.encode(state), type=AgentState) == state


def test_a_fresh_agent_prefers_nothing_and_says_why_it_has_no_links() -> None:
    world = path_world()
    world.shells[0].link_down("n1", "connection refused")
    state = service_in(world).state()
    assert state.prefers is None
    assert [(each.up, each.why) for each in state.neighbors] == [(False, "connection refused")]
    assert state.neighbors[0].api is None


def test_choices_survive_a_restart_and_expired_tickets_stay_counted() -> None:
    world = path_world()
    service = service_in(world)
    pulled(service, "red", 1.0)
    for _ in range(3):
        service.choose(["green"])
    world.now += 4000.0
    world.shells[0].beat()
    assert service.state().expired_tickets == 3
    for _ in range(2):  # from events, then from a snapshot
        world.crash(0)
        world.restart(0)
        state = service_in(world).state()
        assert [arm.choices for arm in state.arms] == [1, 3, 0]


# Where a neighbour's API is: its port comes from its HELLO, its host from this agent's own file.


def stamp(world: World) -> Stamp:
    return Stamp(0, world.cluster.epoch, 0, world.node(1).settings.incarnation)


def api_of_n1(told: ApiEndpoint = NO_ENDPOINT) -> str | None:
    world = path_world()
    world.step()
    relinked(world)
    port, secure = told
    hello = Hello("n1", "shop", BANDIT.cluster.hash, api_port=port, api_secure=secure)
    world.shells[0].received("n1", encode_hello(stamp(world), hello))
    assert world.node(0).peers["n1"].met
    return service_in(world).state().neighbors[0].api


def test_a_neighbour_tells_its_port_and_never_its_host() -> None:
    assert api_of_n1() is None  # as agents of earlier versions say nothing
    assert api_of_n1(ApiEndpoint(8401)) == "http://127.0.0.1:8401"
    assert api_of_n1(ApiEndpoint(8401, api_secure=True)) == "https://127.0.0.1:8401"


@pytest.mark.parametrize("port", [-1, 65536, 2**63, "80", "evil.example:80", None, [8400]])
def test_a_port_that_is_none_is_refused_as_no_greeting(port: object) -> None:
    world = path_world()
    world.step()
    relinked(world)
    fields = msgspec.to_builtins(Hello("n1", "shop", BANDIT.cluster.hash)) | {"api_port": port}
    body = msgspec.msgpack.encode(fields)
    good = encode_hello(stamp(world), Hello("n1", "shop", BANDIT.cluster.hash))
    frame = good[:8] + len(body).to_bytes(4, "little") + good[12:40] + body
    world.shells[0].received("n1", frame)
    assert not world.node(0).peers["n1"].met
    assert world.node(0).peers["n1"].endpoint == NO_ENDPOINT


def test_an_agent_greets_with_its_own_port() -> None:
    world = path_world()
    world.node(0).endpoint_of = lambda _: ApiEndpoint(8400, api_secure=True)
    world.step()
    relinked(world)
    world.step()
    assert world.node(1).peers["n0"].endpoint == ApiEndpoint(8400, api_secure=True)
    assert world.node(2).peers["n1"].endpoint == NO_ENDPOINT


NEAR, FAR = Address("127.0.0.1", 7400), Address("10.0.0.2", 7400)


@pytest.mark.parametrize(
    ("api", "told"),
    [
        (Address("127.0.0.1", 8400), {"near"}),  # others could not reach it
        (Address("10.0.0.1", 8400), {"near", "far"}),
        (Address("0.0.0.0", 8400), {"near", "far"}),  # noqa: S104  read, not bound
        (Path("api.sock"), set()),
    ],
)
def test_neighbours_are_told_of_an_api_that_they_can_reach(
    api: Address | Path, told: set[str]
) -> None:
    config = NodeConfig(BANDIT.cluster, "n0", Path("unused"), {"near": NEAR, "far": FAR}, api=api)
    files = TlsFiles(Path("a"), Path("b"), Path("c"))
    for name, place in config.neighbors.items():
        secure = endpoint_for(replace(config, api_tls=files), place)
        assert endpoint_for(config, place) == (ApiEndpoint(8400) if name in told else NO_ENDPOINT)
        assert secure == (ApiEndpoint(8400, api_secure=True) if name in told else NO_ENDPOINT)
    assert endpoint_for(config, None) == NO_ENDPOINT


# Metrics per arm


def test_every_arm_is_measured() -> None:
    service = service_in(path_world())
    pulled(service, "red", 1.0, -1.0)
    service.choose(["blue"])
    assert sample(service, "arm_choices_total", arm="red") == 2.0
    assert sample(service, "arm_choices_total", arm="blue") == 1.0
    assert sample(service, "arm_rewards_total", arm="red") == 2.0
    assert sample(service, "arm_rewards_total", arm="blue") == 0.0
    assert sample(service, "arm_reward_sum", arm="red") == 0.0
    assert sample(service, "arm_mean", arm="red") == pytest.approx(0.0)
    (means,) = (metric for metric in service.metrics() if metric.name == "arm_mean")
    assert [labels["arm"] for labels, _ in means.samples] == ["red"]  # nothing is known of others


def test_labels_are_bounded_and_the_rest_is_added_up() -> None:
    names = tuple(f"arm {k} {'x' * 200}" for k in range(200))
    service = service_in(path_world(only(BANDIT.policy, names, reward_range=(-1.0, 3.0))))
    pulled(service, names[0], 1.0)
    pulled(service, names[150], 1.0, 2.0)
    pulled(service, names[199], 3.0)
    for metric in service.metrics():
        if metric.name.startswith("arm_"):
            assert len(metric.samples) <= MOST_LABELS + 1
            assert all(len(found["arm"]) <= LONGEST_LABEL for found, _ in metric.samples)
    assert sample(service, "arm_rewards_total", arm="others") == 3.0
    assert sample(service, "arm_reward_sum", arm="others") == 6.0
    assert sample(service, "arm_choices_total", arm="others") == 3.0


def test_prometheus_reads_names_as_they_are() -> None:
    hostile = ('a"b\\', "two\nlines", "<script>", "\u202eevil")
    service = service_in(path_world(only(BANDIT.policy, hostile, reward_range=(-1.0, 3.0))))
    pulled(service, hostile[1], 2.0)
    text = render(service.metrics(), Meter()).decode()
    (family,) = (
        family
        for family in text_string_to_metric_families(text)
        if family.name == "coopbandits_arm_choices"
    )
    assert {each.labels["arm"]: each.value for each in family.samples} == dict(
        zip(hostile, (0.0, 1.0, 0.0, 0.0), strict=True)
    )


def test_labels_tell_arms_apart() -> None:
    alike = ["x" * 150 + "1", "x" * 150 + "2", "others (4)", "others", "others (5)"]
    found = labels(alike)
    assert len(set(found)) == 5
    assert "others" not in found
    assert max(map(len, found)) <= LONGEST_LABEL
