"""Bytes over one socket: cut, joined, damaged, held up and broken off, on every event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from coopbandits.fleet.identity.tls import reason_of
from coopbandits.fleet.transport import connection
from coopbandits.fleet.transport import connection as stream_module
from coopbandits.fleet.transport.connection import RECORD, Stream, secured
from coopbandits.fleet.transport.sockets import Timing
from coopbandits.fleet.transport.tcp import TcpTransport
from coopbandits.testing.checks.transport import Witness, pattern

from .nodes import PATIENCE, Factory, credentials, places, until

Run = Callable[[Any], None]
loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])

REASONS = ("Connection reset by peer", "Broken pipe", "the connection broke")


class Listener:
    """Writes down what a stream tells."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.lost: list[OSError | None] = []

    def data_received(self, data: bytes) -> None:
        assert not self.lost
        self.pieces.append(data)

    def connection_lost(self, error: OSError | None) -> None:
        self.lost.append(error)


class Far:
    """The other end, which sends its records as it likes; TLS is in memory."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.sock, self.incoming, self.outgoing = sock, ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing)
        self.loop = asyncio.get_running_loop()

    async def shake_hands(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
                return await self.put(self.outgoing.read())
            except ssl.SSLWantReadError:
                await self.put(self.outgoing.read())
                self.incoming.write(await self.get())

    def record(self, data: bytes) -> bytes:
        """Return what goes over the wire."""
        self.tls.write(data)
        return self.outgoing.read()

    async def put(self, data: bytes) -> None:
        await asyncio.wait_for(self.loop.sock_sendall(self.sock, data), PATIENCE)

    async def get(self) -> bytes:
        return await asyncio.wait_for(self.loop.sock_recv(self.sock, 1 << 16), PATIENCE)

    async def read(self) -> bytes:
        """Return all until the end, which is announced."""
        text = b""
        while data := await self.get():
            self.incoming.write(data)
        while True:
            try:
                if not (data := self.tls.read(RECORD)):
                    break
            except ssl.SSLZeroReturnError:
                break
            text += data
        return text

    def reset(self) -> None:
        """Break off, as when the process has died with bytes unread."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


@contextlib.asynccontextmanager
async def connected(folder: Path, buffer: int = 0) -> AsyncIterator[tuple[Stream, Listener, Far]]:
    """Yield a stream, what it tells, and the other end of the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as there:
        if buffer:
            there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        there.connect(server.getsockname())
        here, _ = server.accept()
        if buffer:
            here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        here.setblocking(False)
        there.setblocking(False)
        proof = credentials(folder, "alpha")
        far = Far(there, proof.contexts().client)
        secure, _ = await asyncio.gather(secured(here, proof, dialled=False), far.shake_hands())
        listener = Listener()
        stream = Stream(secure, listener)
        yield stream, listener, far
        stream.abort()
        await until(lambda: listener.lost)
        assert len(listener.lost) == 1
        assert secure.fileno() == -1


@loops
def test_what_the_system_does_not_take_at_once_goes_later(run: Run, certificates: Path) -> None:
    async def scenario() -> None:
        async with connected(certificates, buffer=4096) as (stream, listener, far):
            text = pattern(0, 300_000)
            stream.write(text[:200_000])
            waiting = stream.waiting
            assert waiting > 100_000
            stream.write(text[200_000:])  # no faster than what waits already
            assert stream.waiting == waiting + 100_000
            stream.close(PATIENCE)
            assert await far.read() == text
            assert stream.waiting == 0
            far.sock.close()
            await until(lambda: listener.lost)
            assert listener.lost == [None]

    run(scenario())


@loops
def test_bytes_come_one_at_a_time_or_many_records_together(run: Run, certificates: Path) -> None:
    async def scenario() -> None:
        async with connected(certificates) as (_, listener, far):
            far.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in far.record(b"hello"):
                await far.put(bytes([byte]))
                await asyncio.sleep(0)
            await until(lambda: b"".join(listener.pieces) == b"hello")
            assert listener.pieces == [b"hello"]
            text = pattern(0, 50_000)
            records = [far.record(text[at : at + 1000]) for at in range(0, len(text), 1000)]
            await far.put(b"".join(records))
            await until(lambda: sum(map(len, listener.pieces)) == 50_005)
            assert b"".join(listener.pieces) == b"hello" + text
            assert not listener.lost

    run(scenario())


@loops
def test_a_damaged_record_ends_the_stream_with_a_reason(
    run: Run, certificates: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(damage: Callable[[bytes], bytes], reason: str) -> None:
        async with connected(certificates) as (stream, listener, far):
            await far.put(far.record(b"good"))
            await until(lambda: listener.pieces)
            await far.put(damage(far.record(b"bad")) + far.record(b"good again"))
            await until(lambda: listener.lost)
            (error,) = listener.lost
            assert error is not None
            assert reason_of(error) == reason
            assert listener.pieces == [b"good"]
            stream.close(PATIENCE)  # nothing is left to close

    run(
        scenario(
            lambda data: data[:-1] + bytes([data[-1] ^ 1]), "decryption failed or bad record mac"
        )
    )
    run(scenario(lambda data: b"GET / HTTP/1.1\r\n\r\n" + data, "wrong version number"))
    assert not caplog.records


@loops
def test_an_end_that_was_not_announced_is_an_end(run: Run, certificates: Path) -> None:
    async def scenario() -> None:
        async with connected(certificates) as (_, listener, far):
            await far.put(far.record(b"goodbye"))
            far.sock.close()
            await until(lambda: listener.lost)
            (error,) = listener.lost
            assert error is not None
            assert reason_of(error) == "the connection broke"
            assert listener.pieces == [b"goodbye"]

    run(scenario())


@loops
def test_a_connection_that_was_reset_is_found_by_reading_or_writing(
    run: Run, certificates: Path
) -> None:
    async def scenario(*, write: bool) -> None:
        async with connected(certificates) as (stream, listener, far):
            far.reset()
            for _ in range(3 * write):  # nothing is awaited here, so it is the first to find out
                stream.write(b"are you there?")
            assert not listener.lost
            await until(lambda: listener.lost)
            (error,) = listener.lost
            assert error is not None
            assert reason_of(error) in REASONS

    run(scenario(write=False))
    run(scenario(write=True))


@loops
def test_what_came_before_a_reset_is_read(
    run: Run, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop may call only once."""
    monkeypatch.setattr(stream_module, "POLL_SECONDS", 0.02)

    async def scenario() -> None:
        async with connected(certificates) as (_, listener, far):
            text = pattern(0, 5 * RECORD)
            far.sock.sendall(far.record(text))
            far.reset()
            await until(lambda: listener.lost)
            assert b"".join(listener.pieces) == text
            assert listener.lost != [None]

    run(scenario())


@loops
def test_closing_takes_nothing_back_though_the_other_end_goes_on_sending(
    run: Run, certificates: Path
) -> None:
    async def scenario() -> None:
        async with connected(certificates) as (stream, listener, far):
            far.sock.sendall(far.record(bytes(10_000)))  # without a turn for the stream to read it
            stream.write(b"enough")
            stream.close(PATIENCE)
            stream.write(b"too late, and no longer secret")
            assert await far.read() == b"enough"
            assert not listener.lost
            await far.put(far.record(bytes(1000)))
            far.sock.close()
            await until(lambda: listener.lost)
            assert listener.lost == [None]
            assert not listener.pieces

    run(scenario())


@loops
def test_closing_does_not_wait_for_ever(run: Run, certificates: Path) -> None:
    async def scenario() -> None:
        async with connected(certificates, buffer=4096) as (stream, listener, _):
            stream.write(bytes(1 << 20))
            stream.close(0.05)
            await until(lambda: listener.lost)
            assert listener.lost == [None]

    run(scenario())


@loops
def test_a_flood_leaves_the_loop_to_others(run: Run, certificates: Path) -> None:
    async def scenario() -> None:
        loop, turns = asyncio.get_running_loop(), 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turn)

        async with connected(certificates) as (_, listener, far):
            flood = asyncio.create_task(far.put(far.record(bytes(1 << 20))))
            turn()
            await until(lambda: sum(map(len, listener.pieces)) == 1 << 20)
            await flood
            assert max(map(len, listener.pieces)) <= RECORD
            assert turns >= len(listener.pieces) >= 64

    run(scenario())


# Links that are read at ticks: what arrives wakes nobody, and nothing is lost, late or endless.


LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


async def linked(factory: Factory) -> tuple[TcpTransport, Witness, TcpTransport, Witness]:
    """Return two transports, the first of which holds its link."""
    alpha, beta = factory("alpha", ("beta",)), factory("beta", ("alpha",))
    at_alpha, at_beta = Witness("alpha"), Witness("beta")
    alpha.hold()
    await alpha.start(at_alpha)
    await beta.start(at_beta)
    await until(lambda: at_alpha.up and at_beta.up)
    return alpha, at_alpha, beta, at_beta


async def reading(transport: TcpTransport, condition: Callable[[], object]) -> None:
    """Read at ticks until something is so."""

    def found() -> object:
        transport.read()
        return condition()

    await until(found)


@LOOPS
def test_a_transport_that_hurries_reads_at_once(
    run: Callable[[Any], None], certificates: Path
) -> None:
    async def scenario() -> None:
        with places("alpha", "beta") as at:
            alpha, at_alpha, beta, _ = await linked(Factory(at, certificates))
            alpha.hurry(True)
            beta.send("alpha", b"soon")
            await until(lambda: at_alpha.heard["beta"] == b"soon")
            alpha.hurry(False)
            beta.send("alpha", b"late")
            await asyncio.sleep(0.1)
            assert at_alpha.heard["beta"] == b"soon"
            await reading(alpha, lambda: at_alpha.heard["beta"] == b"soonlate")
            alpha.hurry(True)
            beta.drop("alpha", "enough")
            await until(lambda: not at_alpha.up)
            await alpha.stop()
            await beta.stop()

    run(scenario())


@LOOPS
def test_nothing_is_told_before_it_is_asked_for(
    run: Callable[[Any], None], certificates: Path
) -> None:
    async def scenario() -> None:
        with places("alpha", "beta") as at:
            alpha, at_alpha, beta, _ = await linked(Factory(at, certificates))
            for number in range(5):
                beta.send("alpha", bytes([number]))
            await asyncio.sleep(0.1)
            assert at_alpha.heard["beta"] == b""
            alpha.read()
            assert at_alpha.heard["beta"] == bytes(range(5))
            alpha.read()
            await beta.stop()
            await reading(alpha, lambda: not at_alpha.up)
            await alpha.stop()

    run(scenario())


@LOOPS
@pytest.mark.parametrize(("turns", "seconds", "records"), [(2, 60.0, 2), (64, 0.0, 1)])
def test_a_lot_at_once_is_read_in_turns(
    run: Callable[[Any], None],
    turns: int,
    seconds: float,
    records: int,
    certificates: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither much nor what takes long keeps others of the process from theirs."""

    async def scenario() -> None:
        with places("alpha", "beta") as at:
            alpha, at_alpha, beta, _ = await linked(Factory(at, certificates))
            beta.send("alpha", bytes(200_000))
            await asyncio.sleep(0.1)
            alpha.read()
            early = len(at_alpha.heard["beta"])
            assert early == records * (1 << 14)
            await until(lambda: len(at_alpha.heard["beta"]) == 200_000)  # without being asked again
            await alpha.stop()
            await beta.stop()

    monkeypatch.setattr(connection, "TURNS", turns)
    monkeypatch.setattr(connection, "SECONDS", seconds)
    run(scenario())


@LOOPS
def test_a_held_link_is_closed_in_order_by_either_end(
    run: Callable[[Any], None], certificates: Path
) -> None:
    async def scenario() -> None:
        with places("alpha", "beta") as at:
            slow = Timing(first_pause=0.5)
            alpha, at_alpha, beta, at_beta = await linked(Factory(at, certificates, slow))
            alpha.send("beta", b"the last")
            alpha.drop("beta", "enough")
            await until(lambda: at_alpha.downs and at_beta.downs)
            assert at_beta.heard["alpha"] == b"the last"
            assert at_beta.downs == [("alpha", "the neighbour closed the link")]
            await until(lambda: len(at_alpha.ups) == len(at_beta.ups) == 2)
            beta.drop("alpha", "enough")
            await reading(alpha, lambda: len(at_alpha.downs) == 2)
            await alpha.stop()
            await beta.stop()
        assert not at_alpha.wrong
        assert not at_beta.wrong

    run(scenario())
