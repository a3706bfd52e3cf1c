"""Clients after a fork, as of gunicorn with `--preload`: nothing is shared with the parent."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.client import AsyncClient, Client

from ..api.certificates import contexts
from ..api.running import running
from ..api.stand_in import StandIn
from .driving import answer

PATIENCE = 90.0
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def fork(work: Callable[[], None]) -> int:
    """Run a function in a child; return its id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(int(PATIENCE))  # a child that hangs is killed
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def ended_well(*children: int) -> None:
    statuses = [os.waitpid(child, 0)[1] for child in children]
    assert statuses == [0] * len(children)


def pull(client: Client, share: int, count: int = 50) -> None:
    """Pull, with rewards that nobody else hands in."""
    for number in range(count):
        choice, reward = client.choose(), (1 + number) / (1000 + share)
        receipt = client.observe(choice.ticket, reward)
        assert receipt == (choice.ticket, choice.arm, reward, False)


def sockets_of(pid: int) -> set[str]:
    paths = Path(f"/proc/{pid}/fd").iterdir()
    links = [str(path.readlink()) for path in paths if path.is_symlink()]
    return {link for link in links if link.startswith("socket:")}


@contextmanager
def busy(client: Client, threads: int = 4) -> Iterator[list[BaseException]]:
    """Pull from several threads until the block ends; yields their errors."""
    ended, errors = threading.Event(), list[BaseException]()

    def work(share: int) -> None:
        try:
            while not ended.is_set():
                pull(client, share, 5)
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=[share]) for share in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield errors
    finally:
        ended.set()
        for worker in workers:
            worker.join()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_children_forked_in_the_middle_of_calls_get_their_own_receipts(
    tmp_path: Path, secure: bool
) -> None:
    wanting, holding = contexts(tmp_path) if secure else (None, None)
    with running(StandIn(), tls=wanting) as server:
        client = Client(server.address, tls=holding, timeout=PATIENCE, connections=3)
        with client, busy(client) as errors:
            children = []
            for share in range(10, 13):
                children.append(fork(lambda share=share: pull(client, share)))  # type: ignore[misc]  # bound now
                pull(client, 20, 2)
            ended_well(*children)
        assert not errors


def test_a_fork_while_all_connections_are_in_use_takes_no_turn_along() -> None:
    """The parent's calls hang, and so would a child that waits for their turns."""
    healthy = answer("200 OK", b'{"id": "x"}')
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = Client("{}:{}".format(*listening.getsockname()), connections=1, timeout=PATIENCE)
        asked = threading.Thread(target=client.health)
        asked.start()
        first, _ = listening.accept()
        with first:
            assert first.recv(65536)
            child = fork(lambda: _is_healthy(client))
            second, _ = listening.accept()
            with second:
                assert second.recv(65536)
                second.sendall(healthy)
                ended_well(child)
            first.sendall(healthy)
            asked.join()
        client.close()


def _is_healthy(client: Client) -> None:
    assert client.health() == {"id": "x"}


def test_a_child_closes_its_copies_of_the_connections() -> None:
    with running(StandIn()) as server, Client(server.address) as client:
        client.choose()
        (link,) = client._sockets.pool.all
        number = os.fstat(link._socket.fileno()).st_ino

        def look() -> None:
            assert f"socket:[{number}]" not in sockets_of(os.getpid())

        assert f"socket:[{number}]" in sockets_of(os.getpid())
        ended_well(fork(look))
        before = set(server._connections._open)
        client.choose()
        assert set(server._connections._open) == before, "the parent keeps its connection"


def test_a_child_of_a_child(server: ApiServer) -> None:
    with Client(server.address) as client:
        pull(client, 1, 2)

        def again() -> None:
            pull(client, 2, 2)
            ended_well(fork(lambda: pull(client, 3, 2)))
            pull(client, 4, 2)

        ended_well(fork(again))
        pull(client, 5, 2)


def test_a_child_does_not_inherit_that_the_agent_is_away(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/api.sock"
    client = Client(address, timeout=0.05, default="blue")
    assert all(client.choose().is_default for _ in range(4))
    with running(StandIn(), address):
        ended_well(fork(lambda: pull(client, 1, 2)))


def test_a_fork_while_a_default_is_counted_takes_no_lock_along() -> None:
    client = Client("127.0.0.1:1", timeout=0.05, default="blue")

    def work() -> None:
        assert client.choose().is_default

    with client._calls.transport.counting:
        child = fork(work)
    ended_well(child)


def test_an_async_client_may_be_used_on_both_sides_of_a_fork(server: ApiServer) -> None:
    client = AsyncClient(server.address)

    async def pulls(share: int) -> None:
        for number in range(20):
            choice, reward = await client.choose(), (1 + number) / (1000 + share)
            receipt = await client.observe(choice.ticket, reward)
            assert receipt == (choice.ticket, choice.arm, reward, False)

    async def in_child() -> None:
        await asyncio.gather(pulls(2), pulls(3))
        await client.close()

    with asyncio.Runner() as runner:
        runner.run(pulls(1))
        children = [fork(lambda: asyncio.run(in_child())) for _ in range(3)]
        runner.run(pulls(4))
        ended_well(*children)
        runner.run(pulls(5))
        assert len(client.transport.pool.all) == 1, "the parent keeps its connection"
        runner.run(client.close())


def test_a_probe_of_the_parent_is_no_child_s_burden() -> None:
    """A fork while the parent's probe is under way: the child makes its own."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listening:
        client = Client("{}:{}".format(*listening.getsockname()), timeout=0.2, default="blue")
        began = time.monotonic()
        while not any(thread.name == "coopbandits-probe" for thread in threading.enumerate()):
            assert client.choose().is_default
            assert time.monotonic() < began + PATIENCE

        def look() -> None:
            assert client._sockets.breaker.begin_probe()

        ended_well(fork(look))
