"""Watching a fleet: real servers of stand-in agents that die, return, lie and are slow."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import ssl
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import networkx as nx
import pytest

from coopbandits.core.errors import InputError
from coopbandits.dashboard import watch as watch_module
from coopbandits.dashboard.serving import served
from coopbandits.dashboard.targets import Doorman, Target, client_context, parse_target
from coopbandits.dashboard.watch import (
    MOST_WATCHED,
    UNWATCHED_SECONDS,
    FleetSite,
    Watch,
    require_possible,
    shown_beside,
)
from coopbandits.fleet.address import Address
from coopbandits.fleet.api import ApiServer
from coopbandits.page.state import Note

from .api.certificates import contexts
from .api.running import running
from .api.stand_in import StandIn
from .bandits import Many, both
from .watched import PATIENCE, Agent, agent_of, fleet, lone, neighbor, until, up, watching


def test_from_one_agent_the_whole_fleet_is_found() -> None:
    names = [f"shop-{n}" for n in range(6)]

    async def scenario(watch: Watch) -> None:
        await until(lambda: up(watch) == set(names))

    with fleet(*names) as servers:
        watch = watching([f"http://{servers[2].address}/ui/"], scenario)
    watch.feed.step(time.time())
    assert [name for name, _ in watch.feed.scene.agents] == names
    assert len(watch.feed.scene.links) == 6


def test_agents_may_be_given_twice_and_be_found_too() -> None:
    async def scenario(watch: Watch) -> None:
        await until(lambda: up(watch) == {"a", "b"})
        await asyncio.sleep(0.5)

    with fleet("a", "b") as servers:
        port = servers[0].address.rpartition(":")[2]
        given = [servers[0].address, f"http://localhost:{port}", servers[1].address]
        watch = watching(given, scenario)
    assert set(watch.feed.agents) == {"a", "b"}


def test_an_address_given_by_hand_counts_more_than_what_neighbours_say() -> None:
    async def scenario(watch: Watch) -> None:
        await until(lambda: up(watch) == {"a", "b"})
        await asyncio.sleep(1.5)
        assert up(watch) == {"a", "b"}

    with fleet("a", "b") as servers:
        agent_of(servers[0]).neighbors = [neighbor("b", "http://127.0.0.1:1")]
        watch = watching([each.address for each in servers], scenario)
    assert not watch.feed.events


@pytest.mark.slow  # times what a page shows
def test_an_agent_that_dies_and_returns_is_shown_within_two_seconds() -> None:
    with fleet("a", "b") as servers, ExitStack() as later:
        mortal = Agent("c")
        with running(mortal) as first:
            address = first.address
            agent_of(servers[0]).neighbors.append(neighbor("c", f"http://{address}"))

            async def scenario(watch: Watch) -> None:
                await until(lambda: up(watch) == {"a", "b", "c"})
                await asyncio.to_thread(stop, first)
                began = time.monotonic()
                await until(lambda: "c" not in up(watch))
                assert time.monotonic() - began < 2.0
                await asyncio.sleep(2.0)  # by now it is asked rarely
                mortal.incarnation = 2
                await asyncio.to_thread(later.enter_context, running(mortal, address))
                began = time.monotonic()
                await until(lambda: "c" in up(watch))
                assert time.monotonic() - began < 2.0

            watch = watching([servers[0].address], scenario)
    told = [(event["kind"], event["agent"]) for event in watch.feed.events]
    assert told == [("down", "c"), ("restarted", "c")]
    assert "refused" in watch.feed.events[0]["text"]


def test_an_agent_that_returns_at_another_address_is_found_there() -> None:
    with fleet("a") as servers, ExitStack() as later:
        moving, names = Agent("b"), agent_of(servers[0])
        with running(moving) as first:
            names.neighbors = [neighbor("b", f"http://{first.address}")]

            async def scenario(watch: Watch) -> None:
                await until(lambda: up(watch) == {"a", "b"})
                await asyncio.to_thread(stop, first)
                await until(lambda: "b" not in up(watch))
                second = await asyncio.to_thread(later.enter_context, running(moving))
                assert second.address != first.address
                names.neighbors = [neighbor("b", f"http://{second.address}")]
                await until(lambda: up(watch) == {"a", "b"})

            watching([servers[0].address], scenario)


def stop(server: ApiServer) -> None:
    asyncio.run_coroutine_threadsafe(server.stop(), server.background.get_loop()).result(10)


def test_questions_are_few_and_share_a_connection() -> None:
    async def scenario(watch: Watch) -> None:
        await asyncio.sleep(2.0)
        assert len(servers[0]._connections) == 1

    with fleet("a") as servers:
        watching([servers[0].address], scenario)
        asked = servers[0].api.meter.requests["/ui/state", 200]
    assert 5 <= asked <= 11


def test_events_are_asked_for_once() -> None:
    agent = Agent("a")
    agent.notes = [Note(5, 1.0, "link-up", "link to b is up")]

    async def scenario(watch: Watch) -> None:
        await until(lambda: len(watch.feed.events) == 1)
        agent.notes.append(Note(6, 2.0, "link-down", "link to b is down"))
        await until(lambda: len(watch.feed.events) == 2)
        await asyncio.sleep(0.5)

    with running(agent) as server:
        watch = watching([server.address], scenario)
    assert [event["kind"] for event in watch.feed.events] == ["link-up", "link-down"]


def test_who_is_not_there_is_shown_by_its_address_until_it_comes() -> None:
    with socket.socket() as holder, ExitStack() as later:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{holder.getsockname()[1]}"

        async def scenario(watch: Watch) -> None:
            await until(lambda: len(watch.feed.agents) == 1)
            assert (lone(watch).name, lone(watch).up) == (address, False)
            await asyncio.to_thread(later.enter_context, running(Agent("a"), address))
            await until(lambda: up(watch) == {"a"})

        watch = watching([address], scenario)
    assert list(watch.feed.agents) == ["a"]


def test_a_dead_agent_given_by_address_is_shown_by_the_name_its_neighbours_know() -> None:
    with socket.socket() as holder, fleet("a") as servers:
        holder.bind(("127.0.0.1", 0))  # and never listens
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        agent_of(servers[0]).neighbors = [neighbor("b", f"http://{address}")]

        async def scenario(watch: Watch) -> None:
            await until(lambda: set(watch.feed.agents) == {"a", "b"})
            assert not watch.feed.agents["b"].up

        watching([address, servers[0].address], scenario)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": 7}, "Expected `str`, got `int`"),
        ({"arms": None}, "invalid state"),
        ({"round": 1e300}, "invalid state"),
        ({"id": "b"}, "'b' answers"),
        ({"id": "b" * 64}, "impossible names"),
        ({"now": 1e301}, "impossible numbers"),
        ({"round": 2**60}, "impossible numbers"),
        ({"choices": -1}, "impossible numbers"),
        ({"events": [{"seq": 1, "t": 1e308, "kind": "", "text": ""}]}, "impossible numbers"),
        ({"neighbors": [msgspec.to_builtins(neighbor("b" * 64))]}, "impossible names"),
        ({"neighbors": [msgspec.to_builtins(neighbor("b"))] * 2000}, "impossible names"),
    ],
)
def test_what_is_no_state_of_that_agent_is_not_believed(change: Any, words: str) -> None:
    class Liar(Agent):
        def state(self, since: int = 0) -> Any:
            return msgspec.to_builtins(super().state(since)) | change

    async def scenario(watch: Watch) -> None:
        await until(lambda: "liar" in watch.feed.agents)
        await until(lambda: words in watch.feed.agents["liar"].why)
        assert not watch.feed.agents["liar"].up

    honest, liar = Agent("a"), Liar("liar")
    with running(honest) as server, running(liar) as other:
        honest.neighbors = [neighbor("liar", f"http://{other.address}")]
        watch = watching([server.address], scenario)
    assert watch.feed.agents["liar"].state is None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e301])
def test_numbers_that_are_none_are_refused(number: float) -> None:
    state = Agent("a").state()
    with pytest.raises(InputError, match="impossible numbers"):
        require_possible(replace(state, now=number))
    with pytest.raises(InputError, match="impossible numbers"):
        require_possible(replace(state, arms=[replace(state.arms[0], mean=number)]))
    require_possible(state)


@pytest.mark.parametrize("api", ["", "x", "http://a:1/secret", "ftp://b:1", "http://[::1", "\0"])
def test_what_is_no_address_of_a_neighbour_is_not_asked(api: str) -> None:
    async def scenario(watch: Watch) -> None:
        await until(lambda: up(watch) == {"a"})
        await asyncio.sleep(0.3)

    with fleet("a") as servers:
        agent_of(servers[0]).neighbors = [neighbor("b", api)]
        watch = watching([servers[0].address], scenario)
    assert set(watch.feed.agents) == {"a"}


def test_agents_of_another_cluster_are_not_mixed_in() -> None:
    stranger = StandIn(["left", "right"])

    async def scenario(watch: Watch) -> None:
        await until(lambda: len(watch.feed.agents) == 2)
        await until(lambda: "2 arms" in watch.feed.agents["stand-in"].why)
        assert not watch.feed.agents["stand-in"].up

    with fleet("a") as servers, running(stranger) as other:

        async def late(watch: Watch) -> None:
            await until(lambda: "a" in up(watch))
            agent_of(servers[0]).neighbors = [neighbor("stand-in", f"http://{other.address}")]
            await scenario(watch)

        watching([servers[0].address], late)


def test_the_token_is_shown_and_a_wrong_one_is_told() -> None:
    async def known(watch: Watch) -> None:
        await until(lambda: up(watch) == {"a", "b"})

    async def unknown(watch: Watch) -> None:
        await until(lambda: bool(watch.feed.agents) and "token is needed" in lone(watch).why)

    with fleet("a", "b", token="secret") as servers:
        watching([servers[0].address], known, token="secret")
        watching([servers[0].address], unknown, token="wrong")


def test_over_tls(tmp_path: Path) -> None:
    wanting, holding = contexts(tmp_path)

    async def scenario(watch: Watch) -> None:
        await until(lambda: up(watch) == {"a"})

    with running(Agent("a"), tls=wanting) as server:
        watching([f"https://{server.address}"], scenario, tls=holding)


FAR, NEAR = Address("10.0.0.1", 8400), Address("127.0.0.1", 8400)


@pytest.mark.parametrize(
    ("target", "gets"),
    [
        (Target(Address("10.0.0.1", 1)), True),  # a host that was given
        (Target(Address("10.0.0.2", 8400)), False),  # somebody named it, and nobody proved it
        (Target(Address("10.0.0.2", 8400), secure=True), True),  # TLS proves it
        (Target(NEAR), True),
        (Target(Path("/run/api.sock")), True),
    ],
)
def test_the_token_goes_to_hosts_that_were_given_or_proven(target: Target, gets: bool) -> None:
    doorman = Doorman([Target(FAR)], "secret", None)
    assert doorman.gets_token(target) is gets
    assert (b"Bearer secret" in doorman.client(target)._head) is gets


def test_an_agent_elsewhere_cannot_send_the_watch_to_this_machine() -> None:
    doorman = Doorman([Target(FAR)], "secret", None)
    assert not doorman.may_be_named(Target(NEAR), by=Target(FAR))
    assert doorman.may_be_named(Target(NEAR), by=Target(NEAR))
    assert doorman.may_be_named(Target(Address("10.0.0.2", 1)), by=Target(FAR))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("127.0.0.1:8400", Target(NEAR)),
        ("http://127.0.0.1:8400", Target(NEAR)),
        ("https://[::1]:8400/ui", Target(Address("::1", 8400), secure=True)),
        ("unix:/run/api.sock", Target(Path("/run/api.sock"))),
    ],
)
def test_addresses_are_read_as_they_are_typed(text: str, target: Target) -> None:
    assert parse_target(text) == target
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    "text", ["http://", "http://a:1/arms", "ftp://a:1", "a", "a:1:2", "https://a"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="address"):
        parse_target(text)


def test_somebody_is_to_be_watched() -> None:
    with pytest.raises(InputError, match="address of at least one"):
        Watch([])


def test_files_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(InputError, match=r"ca\.pem"):
        client_context(tmp_path / "ca.pem", None, None)
    with pytest.raises(InputError, match="belong together"):
        client_context(None, tmp_path / "a.pem", None)
    assert client_context(None, None, None).verify_mode == ssl.CERT_REQUIRED


def test_the_page_over_a_fleet_needs_a_token_of_its_own() -> None:
    async def ask(address: str, token: str) -> tuple[int, str]:
        place, _, _ = address.removeprefix("http://").partition("/")
        host, port = place.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        proof = f"authorization: Bearer {token}\r\n" if token else ""
        writer.write(f"GET /ui/events HTTP/1.1\r\nhost: {place}\r\n{proof}\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        status = int(head.split()[1])
        first = await reader.readline() if status == 200 else b""
        writer.close()
        return status, first.decode()

    async def scenario() -> None:
        watch = Watch([servers[0].address], "secret")
        async with served(FleetSite(watch, "another")) as made:
            page, _, token = made.address.partition("#token=")
            assert token == "another"
            assert (await ask(page, ""))[0] == 401
            assert (await ask(page, "secret"))[0] == 401
            await until(lambda: up(watch) == {"a"})
            assert await ask(page, token) == (200, "event: scene\n")

    with fleet("a", token="secret") as servers:
        asyncio.run(scenario())


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_port_that_is_none_is_refused(port: int) -> None:
    async def scenario() -> None:
        async with served(FleetSite(Watch(["127.0.0.1:1"])), port):
            pass

    with pytest.raises(InputError, match=str(port)):
        asyncio.run(scenario())


def test_a_page_beside_agents() -> None:
    found: list[str] = []

    async def scenario() -> None:
        async with shown_beside(found.append, [servers[0].address]):
            await asyncio.sleep(0.1)

    with fleet("a") as servers:
        asyncio.run(scenario())
    assert found[0].startswith("http://127.0.0.1:")
    assert found[0].endswith("/ui/")


def test_a_page_over_a_fleet_shows_the_bandit_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch_module, "LOOK_SECONDS", 0.1)
    world = Many(nx.path_graph(2), declared=both(arms=["red", "green"]))
    for agent, name in ((0, "button"), (0, "banner"), (1, "banner")):
        world.play(agent, name, 1.0)
    world.steps(20)

    async def shown(address: str, query: str) -> dict[str, Any]:
        host, port = address.removeprefix("http://").removesuffix("/ui/").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET /ui/events{query} HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode())
        try:
            while not (line := await reader.readline()).startswith(b"data: "):
                assert not line.startswith(b"HTTP/1.1 4"), line
            found: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
            return found
        finally:
            writer.close()

    async def look(addresses: list[str]) -> None:
        site = FleetSite(Watch(addresses))
        async with served(site) as made, asyncio.timeout(PATIENCE):
            await until(lambda: len(up(site.watch)) == 2)
            first = await shown(made.address, "")
            assert (first["bandits"], first["arms"]) == (["button", "banner"], ["red", "green"])
            other = await shown(made.address, "?bandit=banner")
            assert (other["bandits"], other["arms"]) == (["banner", "button"], ["a", "b", "c"])
            assert len(site._others) == 1
            for number in range(MOST_WATCHED - 1):
                site._watch(f"made-up-{number}")
            with pytest.raises(InputError, match="8 bandits"):
                site._watch("one more")
            for each in site._others.values():
                each.asked -= UNWATCHED_SECONDS + 1.0
            await until(lambda: not site._others)

    with running(world.of(0)) as one, running(world.of(1)) as other:
        asyncio.run(look([one.address, other.address]))
