"""Several connections at a time, and what becomes of them between calls."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import uvloop

from coopbandits.core.errors import InputError
from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.client import AsyncClient, Client, UnreachableError
from coopbandits.fleet.client.blocking import FairSemaphore
from coopbandits.fleet.config import ApiLimits

from ..api.running import running
from ..api.stand_in import StandIn
from .driving import Make, answer, scripted, silent

HEALTHY = answer("200 OK", b'{"id": "x"}')
PATIENCE = 90.0


class Slow:
    """A server that takes its time for every answer, and counts connections and requests."""

    def __init__(self, seconds: float, after: bytes = b"", hang_up: bool = False) -> None:
        self.seconds, self.after, self.hang_up = seconds, after, hang_up
        self.requests = self.opened = self.open = self.most = 0
        self.closed = threading.Event()

    @contextmanager
    def serving(self) -> Iterator[str]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=self._accept, args=[listening])
            thread.start()
            host, port = listening.getsockname()
            try:
                yield f"{host}:{port}"
            finally:
                listening.shutdown(socket.SHUT_RDWR)
                thread.join()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                link, _ = listening.accept()
            except OSError:
                return
            self.opened += 1
            threading.Thread(target=self._serve, args=[link], daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        self.open += 1
        self.most = max(self.most, self.open)
        with link:
            while link.recv(65536):
                self.requests += 1
                self.take_time()
                link.sendall(HEALTHY)
                if self.hang_up or self.after:
                    link.sendall(self.after)
                    break
        self.open -= 1
        self.closed.set()

    def take_time(self) -> None:
        time.sleep(self.seconds)


class AllAtOnce(Slow):
    """A server that answers nobody before so many wait for their answers."""

    def __init__(self, count: int) -> None:
        super().__init__(0.0)
        self.barrier = threading.Barrier(count)

    def take_time(self) -> None:
        self.barrier.wait(PATIENCE)


def test_eight_are_on_their_way_at_once(make: Make) -> None:
    with AllAtOnce(8).serving() as address, make(address, timeout=PATIENCE) as client:
        for _ in range(2):
            assert client.together("health", 8) == [{"id": "x"}] * 8


def test_there_are_never_more_connections_than_told(make: Make) -> None:
    server = Slow(0.01)
    with (
        server.serving() as address,
        make(address, timeout=PATIENCE, connections=3) as client,
    ):
        answers = client.together("health", 12)
    assert answers == [{"id": "x"}] * 12
    assert server.most == server.opened == 3


@pytest.mark.parametrize("connections", [1, 8])
def test_the_timeout_is_for_the_whole_call_waiting_in_line_included(
    make: Make, connections: int
) -> None:
    """Twenty calls of a second each over few connections: as before, one second for all."""
    with silent() as address, make(address, timeout=1.0, connections=connections) as client:
        began = time.monotonic()
        errors = client.together("choose", 20)
        took = time.monotonic() - began
    assert all(isinstance(error, UnreachableError) for error in errors)
    assert 1.0 <= took < 15.0  # not twenty


def test_who_waited_in_vain_is_told_for_what() -> None:
    with silent() as address, Client(address, timeout=0.1, connections=1) as client:
        assert client._sockets.turns.enter(1.0)
        with pytest.raises(UnreachableError, match="1 at most"):
            client.choose()


def test_a_server_that_dribbles_does_not_stretch_the_timeout(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        ended, dribbled = threading.Event(), HEALTHY[:-1] * 3
        whole = 0.05 * len(dribbled)

        def dribble() -> None:
            link, _ = listening.accept()
            with link:
                for byte in dribbled:
                    try:
                        link.sendall(bytes([byte]))
                    except OSError:
                        break
                    if ended.wait(0.05):
                        break

        thread = threading.Thread(target=dribble)
        thread.start()
        began = time.monotonic()
        with make(f"{host}:{port}", timeout=0.5) as client:
            with pytest.raises(UnreachableError, match="timed out"):
                client.health()
            assert time.monotonic() - began < whole / 2
        ended.set()
        thread.join()


def test_an_idle_connection_that_the_server_closed_is_noticed_before_it_is_used(
    make: Make,
) -> None:
    server = Slow(0.0, hang_up=True)
    with server.serving() as address, make(address) as client:
        for count in (1, 2, 3):
            assert client.health() == {"id": "x"}
            assert server.closed.wait(PATIENCE)
            server.closed.clear()
            assert server.requests == count


def test_bytes_that_nobody_asked_for_are_no_answer(make: Make) -> None:
    """Proxies say 408 on connections that are idle for too long."""
    stray = answer("200 OK", b'{"id": "not an answer"}')
    server = Slow(0.0, after=stray)
    with server.serving() as address, make(address) as client:
        for _ in range(3):
            assert client.health() == {"id": "x"}
            assert server.closed.wait(PATIENCE)
            server.closed.clear()


def test_an_idle_connection_that_is_given_up_just_then_costs_no_error(make: Make) -> None:
    listening, thread = scripted(answer("408 Request Timeout", b"<html>"), HEALTHY)
    host, port = listening.getsockname()
    with listening, make(f"{host}:{port}") as client:
        assert client.health() == {"id": "x"}
        thread.join()


def test_who_waits_longest_is_next() -> None:
    """Threads that come back at once do not pass those that wait."""
    line, order = FairSemaphore(1), list[int]()
    assert line.enter(1.0)

    def wait(number: int) -> None:
        assert line.enter(PATIENCE)
        order.append(number)
        line.leave()

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=wait, args=[number]))
        threads[-1].start()
        deadline = time.monotonic() + PATIENCE
        while len(line._waiting) <= number:
            assert time.monotonic() < deadline
            time.sleep(0.001)
    assert not line.enter(0.01), "nobody passes"
    line.leave()
    assert line.enter(PATIENCE)
    assert order == [0, 1, 2, 3, 4]
    line.leave()
    for thread in threads:
        thread.join()
    assert line.enter(0.01), "the place is free again"


def test_connections_that_the_agent_gave_up_cost_no_error(make: Make) -> None:
    limits = ApiLimits(idle_timeout=2.0)  # a busy machine may not send within less
    with running(StandIn(), limits=limits) as server, make(server.address) as client:
        client.together("choose", 8)
        deadline = time.monotonic() + PATIENCE
        while server._connections._open:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        answers = client.together("choose", 8)
    assert len({choice.ticket for choice in answers}) == 8


def test_a_restarted_agent_is_found_by_all_connections(make: Make, tmp_path: object) -> None:
    address = f"unix:{tmp_path}/api.sock"
    with make(address, timeout=PATIENCE) as client:
        for _ in range(3):
            with running(StandIn(), address):
                answers = client.together("choose", 16)
                assert len({choice.ticket for choice in answers}) == 16


class InterruptionError(Exception):
    """What a signal handler raises."""


def test_an_interrupted_call_leaves_its_place_and_no_connection() -> None:
    def interrupt(*_: object) -> None:
        raise InterruptionError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with silent() as address, Client(address, connections=1, timeout=PATIENCE) as client:
            for _ in range(2):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                with pytest.raises(InterruptionError):
                    client.choose()
                assert not client._sockets.pool.all
            assert client._sockets.turns.enter(0.01)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(InterruptionError):
                client.choose()  # waits in line
            client._sockets.turns.leave()
            assert client._sockets.turns.enter(0.01)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_client_may_be_closed_while_others_use_it() -> None:
    server, ended = Slow(0.002), threading.Event()
    with server.serving() as address, Client(address, timeout=PATIENCE) as client:

        def close() -> None:
            while not ended.wait(0.001):
                client.close()

        closing = threading.Thread(target=close)
        closing.start()
        try:
            calls = [call for _ in range(20) for call in client_calls(client)]
        finally:
            ended.set()
            closing.join()
        assert calls == [{"id": "x"}] * 160


def client_calls(client: Client) -> list[object]:
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda _: client.health(), range(8)))


def test_on_uvloop(server: ApiServer) -> None:
    async def pull() -> None:
        async with AsyncClient(server.address) as client:
            choices = await asyncio.gather(*(client.choose() for _ in range(20)))
            rewards = [number / 20 for number in range(20)]
            handed = zip(choices, rewards, strict=True)
            receipts = await asyncio.gather(*(client.observe(c.ticket, r) for c, r in handed))
            expected = [(c.ticket, c.arm, r, False) for c, r in zip(choices, rewards, strict=True)]
            assert receipts == expected

    uvloop.run(pull())


def test_a_closed_client_leaves_no_connection(make: Make) -> None:
    server = Slow(0.01)
    with server.serving() as address:
        with make(address) as client:
            client.together("health", 8)
            assert server.open > 1
        deadline = time.monotonic() + PATIENCE
        while server.open:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_clients_of_bandits_share_connections_also_after_one_was_closed() -> None:
    server = Slow(0.0)
    with server.serving() as address, Client(address, timeout=PATIENCE) as client:
        with client.bandit("button") as button:
            assert button.health() == client.health() == {"id": "x"}
        assert server.opened == 1
        for _ in range(20):
            assert button.health() == client.health() == client.bandit("banner").health()
        assert server.opened == 2


def test_asynchronous_clients_of_bandits_share_connections_from_the_first_call_on() -> None:
    server = Slow(0.001)

    async def ask(address: str) -> None:
        client = AsyncClient(address, timeout=PATIENCE, connections=1)
        early = [client, client.bandit("button"), client.bandit("banner")]
        for opened in (1, 2):
            each = [*early, client.bandit("page")]
            await asyncio.gather(*(asker.health() for _ in range(5) for asker in each))
            assert (server.opened, server.most) == (opened, 1)
            async with client.bandit("button"):
                pass  # closes the connection
            deadline = time.monotonic() + PATIENCE
            while server.open:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)

    with server.serving() as address:
        asyncio.run(ask(address))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"timeout": 0}, r"timeout.* 0\b"),
        ({"timeout": float("nan")}, "timeout.* nan"),
        ({"timeout": "2"}, "timeout.* '2'"),
        ({"timeout": None}, "timeout.* None"),
        ({"connections": 0}, r"connections.* 0\b"),
        ({"connections": 2.0}, r"connections.* 2\.0"),
        ({"default": ""}, "default.* ''"),
        ({"default": 3}, r"default.* 3\b"),
        ({"token": "a\r\nhost: b"}, "token"),
        ({"token": "clé"}, "token"),
    ],
)
def test_settings_are_checked(
    server: ApiServer, make: Make, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        make(server.address, **settings)
    if "token" in settings:
        assert str(settings["token"]) not in str(caught.value)
