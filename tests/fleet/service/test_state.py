"""The state that an agent reports to a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.config import NodeConfig, TlsFiles
from coopbandits.fleet.process.main import endpoint_for
from coopbandits.fleet.protocol.frames import NO_ENDPOINT, ApiEndpoint, Hello, Stamp, encode_hello
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.page.state import AgentState
from tests.torture.world import World

from ..protocol.test_node import relinked
from .test_application import BANDIT, path_world, service_in


def pulled(service: ServedAgent, arm: str, *rewards: float) -> None:
    for reward in rewards:
        service.bandit("only").observe(service.bandit("only").choose([arm]).ticket, reward)


def test_the_state_says_what_a_page_shows() -> None:
    world = path_world()
    service = service_in(world, 1)
    world.step()
    pulled(service, "red", 1.0, 2.0)
    pulled(service, "blue", 3.0)
    service.bandit("only").choose(["blue"])
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
        service.bandit("only").choose(["green"])
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
