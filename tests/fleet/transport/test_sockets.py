"""Sockets: several meanings of an address, and what a socket is set to."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.transport import sockets as listening
from coopbandits.fleet.transport.sockets import (
    Listener,
    Timing,
    chance,
    connect,
    listen,
    resolve,
    tune,
)


def test_an_address_that_this_machine_does_not_have_is_left_out() -> None:
    async def scenario() -> None:
        foreign = await resolve(Address("192.0.2.1", 0))
        with pytest.raises(OSError, match="Cannot assign") as caught:
            listen(foreign)
        assert caught.value.errno == errno.EADDRNOTAVAIL
        (sock,) = listen(foreign + await resolve(Address("127.0.0.1", 0)))
        address = Address(*sock.getsockname())
        with pytest.raises(OSError, match="in use"):
            listen([*await resolve(Address("127.0.0.1", 0)), *await resolve(address)])
        sock.close()

    asyncio.run(scenario())


def test_every_meaning_of_an_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        (listener,) = listen(await resolve(Address("127.0.0.1", 0)))
        good = Address(*listener.getsockname())
        found = await resolve(Address("127.0.0.1", 1)) + await resolve(good)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        (await connect(Address("somewhere", 7400))).close()
        found.pop()
        with pytest.raises(ConnectionRefusedError):
            await connect(Address("somewhere", 7400))
        found.clear()
        with pytest.raises(OSError, match="no address"):
            await connect(Address("somewhere", 7400))
        listener.close()

    asyncio.run(scenario())


def test_a_socket_sends_at_once_and_breaks_soon() -> None:
    with socket.socket() as sock:
        tune(sock, 1.5)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1500


def test_pauses_grow_up_to_the_longest_and_half_is_chance() -> None:
    timing = Timing(first_pause=0.02, longest_pause=5.0)
    assert [timing.pause(n, 1.0) for n in (0, 1, 2, 4)] == [0.02, 0.03, 0.045, 0.10125]
    assert timing.pause(14, 1.0) == timing.pause(10**6, 1.0) == 5.0
    assert timing.pause(2, 0.0) == 0.0225
    assert all(0.0 <= chance() < 1.0 for _ in range(100))


class Exhausted(socket.socket):
    """Has no file descriptors left the first time."""

    asked = 0

    def accept(self) -> tuple[socket.socket, Address]:
        self.asked += 1
        if self.asked == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        if self.asked == 2:
            raise BlockingIOError
        return super().accept()


def test_a_listener_takes_a_break_where_it_cannot_accept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listening, "RETRY_SECONDS", 0.01)

    async def scenario() -> None:
        taken: asyncio.Queue[socket.socket] = asyncio.Queue()
        listener = Listener(lambda sock, _: taken.put_nowait(sock))
        sock = Exhausted()
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        listener.sockets = [sock]
        listener._watch(sock)
        with socket.create_connection(sock.getsockname()):
            (await asyncio.wait_for(taken.get(), 90)).close()
        assert sock.asked == 3
        listener.close()

    asyncio.run(scenario())
    assert 'not accepting connections seconds=0.01 reason="Too many open files"' in caplog.text
