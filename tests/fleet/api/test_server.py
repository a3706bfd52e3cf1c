from __future__ import annotations

import asyncio
import http.client
import logging
import signal
import socket
import stat
import time
from pathlib import Path
from typing import Any

import pytest
import uvloop

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, parse_address
from coopbandits.fleet.api import ApiServer

from .certificates import contexts
from .running import ask, running
from .stand_in import StandIn

ANYWHERE = Address("127.0.0.1", 0)


def test_the_address_has_the_port_that_it_got() -> None:
    assert ApiServer(StandIn(), ANYWHERE).address == "127.0.0.1:0"
    with running(StandIn()) as server:
        assert parse_address(server.address).port > 0
        assert ask(server, "GET", "/ready").status == 200


def test_over_ipv6() -> None:
    with running(StandIn(), "[::1]:0") as server:
        assert server.address.startswith("[::1]:")
        assert ask(server, "GET", "/ready").status == 200


def test_answers_are_sent_without_delay() -> None:
    async def serve() -> int:
        server = ApiServer(StandIn(), ANYWHERE)
        await server.start()
        await asyncio.to_thread(ask, server, "GET", "/ready")
        caller = await asyncio.to_thread(socket.create_connection, parse_address(server.address))
        await asyncio.sleep(0.05)
        (connection,) = server._connections._open
        assert connection.transport is not None
        accepted = connection.transport.get_extra_info("socket")
        delay = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        caller.close()
        await server.stop()
        return int(delay)

    assert asyncio.run(serve()) == 1


def test_over_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with running(StandIn(), f"unix:{path}") as server:
        assert server.address == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert ask(server, "POST", "/choose").status == 200
    assert not path.exists()


def test_the_socket_of_a_dead_process_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with running(StandIn(), f"unix:{path}") as server:
        assert ask(server, "GET", "/ready").status == 200


def start_and_stop(server: ApiServer) -> None:
    async def both() -> None:
        await server.start()
        await server.stop()

    asyncio.run(both())


def test_the_socket_of_a_live_process_is_not(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with running(StandIn(), f"unix:{path}") as server:
        with pytest.raises(InputError, match="listens"):
            start_and_stop(ApiServer(StandIn(), path))
        assert ask(server, "GET", "/ready").status == 200


def test_a_stop_leaves_the_socket_that_another_process_has_put_there(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with running(StandIn(), f"unix:{path}"):
        path.rename(tmp_path / "first.sock")  # keeps its inode from being given again
        second = socket.socket(socket.AF_UNIX)
        second.bind(str(path))
    assert path.exists()
    second.close()


def test_another_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt"):
        start_and_stop(ApiServer(StandIn(), path))
    assert path.read_text() == "mine"


def test_a_missing_folder_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        start_and_stop(ApiServer(StandIn(), tmp_path / "no/api.sock"))


def test_a_port_in_use_is_a_sentence() -> None:
    with running(StandIn()) as server, pytest.raises(InputError, match="Address already in use"):
        start_and_stop(ApiServer(StandIn(), parse_address(server.address)))


def test_without_token_only_this_machine_may_call(tmp_path: Path) -> None:
    anonymous, _ = contexts(tmp_path)
    anonymous.verify_mode = anonymous.verify_mode.CERT_OPTIONAL
    for tls in (None, anonymous):
        with pytest.raises(InputError, match="token"):
            start_and_stop(ApiServer(StandIn(), Address("0.0.0.0", 0), tls=tls))  # noqa: S104  refused
    with running(StandIn(), "0.0.0.0:0", token="x" * 32) as server:
        assert ask(server, "GET", "/health").status == 401


def test_certificates_let_in_their_holders_alone(tmp_path: Path) -> None:
    wanting, holding = contexts(tmp_path)
    with running(StandIn(), "0.0.0.0:0", tls=wanting) as server:
        port = parse_address(server.address).port
        caller = http.client.HTTPSConnection("127.0.0.1", port, context=holding, timeout=5)
        caller.request("GET", "/ready")
        assert caller.getresponse().status == 200
        caller.close()
        stranger = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with pytest.raises((OSError, http.client.HTTPException)):
            stranger.request("GET", "/ready")
            stranger.getresponse()
        stranger.close()


def test_it_starts_again_after_a_stop(tmp_path: Path) -> None:
    server = ApiServer(StandIn(), tmp_path / "api.sock")
    for _ in range(2):
        start_and_stop(server)
    asyncio.run(server.stop())


def test_a_stop_waits_for_nobody_who_dawdles(caplog: pytest.LogCaptureFixture) -> None:
    """One client is idle, one has sent half its request, one half its body."""
    with running(StandIn()) as server:
        place = parse_address(server.address)
        idle, half, slow = (socket.create_connection(place, timeout=5) for _ in range(3))
        half.sendall(b"POST /choose HT")
        slow.sendall(
            b"POST /choose HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ncontent-length: 9\r\n\r\n{"
        )
        ask(server, "GET", "/ready")  # by now all three have been accepted
        began = time.monotonic()
    assert time.monotonic() - began < 30
    for caller in (idle, half, slow):
        with caller:
            assert _rest(caller) == b""
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def _rest(caller: socket.socket) -> bytes:
    try:
        return caller.recv(1000)
    except ConnectionResetError:
        return b""


def test_signals_and_logs_stay_as_they_are() -> None:
    def state() -> list[Any]:
        loggers = [logging.getLogger(name) for name in ("", "asyncio", "coopbandits")]
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        return [handlers, [(log.level, list(log.handlers), log.propagate) for log in loggers]]

    async def serve() -> None:
        server = ApiServer(StandIn(), ANYWHERE)
        before = state()
        await server.start()
        assert state() == before
        await server.stop()
        assert state() == before

    asyncio.run(serve())


def test_it_serves_on_uvloop(tmp_path: Path) -> None:
    async def serve() -> int:
        server = ApiServer(StandIn(), tmp_path / "api.sock")
        await server.start()
        answer = await asyncio.to_thread(ask, server, "POST", "/choose")
        await server.stop()
        return answer.status

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(serve()) == 200
