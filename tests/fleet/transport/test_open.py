"""Links that are opened by calls, over real sockets: certificates decide who is who."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar

import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.config import consistency
from coopbandits.fleet.config.values import Seeds, read_value
from coopbandits.fleet.transport import ITSELF, Arrival
from coopbandits.fleet.transport import tcp as transports
from coopbandits.fleet.transport.tcp import OpenTransport
from coopbandits.testing.checks.transport import Witness

from .nodes import QUICK, credentials, until
from .test_security import client, heard_by_caller


def played(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Let a test run in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@contextlib.asynccontextmanager
async def agent(node: str, folder: Path) -> AsyncIterator[tuple[OpenTransport, Witness]]:
    proof = credentials(folder, node)
    transport = OpenTransport(node, Address("127.0.0.1", 0), proof, timing=QUICK)
    witness = Witness(node)
    await transport.start(witness)
    try:
        yield transport, witness
    finally:
        await transport.stop()
        assert not witness.wrong


async def call(transport: OpenTransport, peer: str, address: Address, cause: object = "x") -> str:
    """Call somebody; return why it failed, or "" once there is a link."""
    failures: list[str] = []
    transport.call(peer, address, cause, failures.append)
    await until(lambda: failures or any(link.cause is cause for link in transport._links.values()))
    return failures[0] if failures else ""


@played
async def test_who_answers_at_an_address_is_known_by_its_certificate(certificates: Path) -> None:
    async with agent("alpha", certificates) as (one, here), agent("beta", certificates) as other:
        two, there = other
        cause = object()
        assert await call(one, "", two.address, cause) == ""
        await until(lambda: here.up and there.up)
        assert here.up == {"beta"}
        assert there.up == {"alpha"}
        assert one.arrival_of("beta").cause is cause
        assert two.arrival_of("alpha") == Arrival(None, "127.0.0.1", frozenset({"alpha"}))
        assert one.send("beta", b"hello")
        await until(lambda: there.heard["alpha"] == b"hello")
        two.drop("alpha", "enough")
        await until(lambda: not here.up and not there.up)
        await asyncio.sleep(0.3)
        assert not here.up, "nobody dials by itself"


@played
async def test_an_address_that_was_told_is_a_hint(certificates: Path) -> None:
    async with agent("alpha", certificates) as (one, here), agent("beta", certificates) as other:
        address = other[0].address
        reason = await call(one, "gamma", address)
        assert reason == f"it answers at {address}, where gamma should be"
        assert not here.up
        assert await call(one, "gamma", Address("127.0.0.1", 1)) == "nobody answers"


@played
async def test_certificates_of_others_open_no_link(
    certificates: Path, other_certificates: Path
) -> None:
    async with (
        agent("alpha", certificates) as (one, here),
        agent("beta", other_certificates) as (two, there),
    ):
        assert "certificate" in await call(one, "", two.address)
        assert await call(two, "", one.address)
        assert not here.up
        assert not there.up


@played
async def test_an_agent_that_calls_itself_is_told_so(certificates: Path) -> None:
    async with agent("alpha", certificates) as (one, here):
        assert await call(one, "", one.address) == ITSELF
        assert not here.up


@pytest.mark.parametrize("names", [("beta", "alpha"), ("", "")])
@played
async def test_of_two_calls_at_once_one_is_left(names: tuple[str, str], certificates: Path) -> None:
    async with (
        agent("alpha", certificates) as (one, here),
        agent("beta", certificates) as (two, there),
    ):
        one.call(names[0], two.address, "one", lambda _: None)
        two.call(names[1], one.address, "two", lambda _: None)
        await asyncio.sleep(QUICK.proven)
        assert here.up == {"beta"}
        assert there.up == {"alpha"}
        assert await call(one, "", two.address, "again") == "'beta' is linked already"
        assert await call(two, "", one.address, "again") == "'alpha' is linked already"
        assert one.send("beta", b"hello")
        await until(lambda: there.heard["alpha"] == b"hello")


@played
async def test_names_are_looked_up(certificates: Path) -> None:
    found: list[list[Address]] = []
    async with agent("alpha", certificates) as (one, _):
        one.look_up([Address("localhost", 7400), Address("10.0.0.1", 7)], found.append)
        await until(lambda: found)
    assert Address("10.0.0.1", 7) in found[0]
    assert {each.host for each in found[0]} <= {"127.0.0.1", "::1", "10.0.0.1"}
    assert len(found[0]) >= 2


@played
async def test_a_name_that_is_not_in_the_certificate_is_refused(certificates: Path) -> None:
    async with (
        agent("alpha", certificates) as (one, here),
        agent("beta", certificates) as (two, there),
    ):
        reason = "it says that it is 'gamma', which its certificate does not have"
        two.node = "gamma"  # its certificate says beta
        assert "hung up" in await call(two, "", one.address)
        await until(lambda: here.refusals)
        assert here.refusals == [("beta", reason)]
        assert await call(one, "", two.address) == reason
        assert not here.up
        assert not there.up


@pytest.mark.parametrize("said", [b"\x00", b"\x04beta and more"])
@played
async def test_a_caller_that_says_no_name_is_refused(said: bytes, certificates: Path) -> None:
    async with agent("alpha", certificates) as (one, here):
        heard = await heard_by_caller(one.address, client(certificates, "beta"), said)
        assert heard in (b"", b"\x05alpha")
        await until(lambda: here.refusals)
        assert here.refusals == [("beta", "it sent something else than its name")]
        assert not here.up


# SRV records, asked of a real name server on this machine over UDP and TCP.


NAME = "_coopbandits._tcp.example.org"
RECORDS = ("20 0 7402 127.0.0.2.", "10 5 7401 localhost.", "10 5 0 localhost.", "0 0 1 .")


class NameServer(asyncio.DatagramProtocol):
    """Answers questions for one name; over UDP with a note that the answer is too long."""

    def __init__(self, *, cuts: bool) -> None:
        self.cuts, self.asked = cuts, 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(self.answer(data, cut=self.cuts), addr)

    def answer(self, data: bytes, *, cut: bool = False) -> bytes:
        from dns import flags, message, rcode, rrset

        self.asked += 1
        question = message.from_wire(data)
        told = message.make_response(question)
        if cut:
            told.flags |= flags.TC
        elif str(question.question[0].name) == f"{NAME}.":
            told.answer.append(
                rrset.from_text(question.question[0].name, 60, "IN", "SRV", *RECORDS)
            )
        else:
            told.set_rcode(rcode.NXDOMAIN)
        content: bytes = told.to_wire()
        return content

    async def over_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(2), "big")
        told = self.answer(await reader.readexactly(size))
        writer.write(len(told).to_bytes(2, "big") + told)
        writer.close()
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def name_server(
    monkeypatch: pytest.MonkeyPatch, *, cuts: bool = False
) -> AsyncIterator[NameServer]:
    loop, server = asyncio.get_running_loop(), NameServer(cuts=cuts)
    tcp = await asyncio.start_server(server.over_tcp, "127.0.0.1", 0)
    port = tcp.sockets[0].getsockname()[1]
    udp, _ = await loop.create_datagram_endpoint(lambda: server, ("127.0.0.1", port))

    def resolver() -> Any:
        from dns.asyncresolver import Resolver

        found = Resolver(configure=False)
        found.nameservers, found.port, found.lifetime = ["127.0.0.1"], port, 5.0
        return found

    monkeypatch.setattr(transports, "make_resolver", resolver)
    try:
        yield server
    finally:
        udp.close()
        tcp.close()
        await tcp.wait_closed()


@pytest.mark.parametrize("cuts", [False, True])
def test_all_records_of_a_service_are_found(cuts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dns", reason="the extra srv is not installed")

    async def ask() -> None:
        async with name_server(monkeypatch, cuts=cuts) as server:
            assert await transports.find_service(NAME) == [
                Address("localhost", 7401),
                Address("127.0.0.2", 7402),
            ]
            assert server.asked == 1 + cuts
            found = await transports._addresses(Address(NAME, 0))
            assert Address("127.0.0.1", 7401) in found
            assert found[-1] == Address("127.0.0.2", 7402)
            with pytest.raises(OSError, match="does not exist"):
                await transports.find_service("_other._tcp.example.org")

    asyncio.run(ask())


def test_what_the_name_of_a_service_is() -> None:
    found = read_value("seeds", [NAME, "shop:7400"], Seeds)
    assert found == (Address(NAME, 0), Address("shop", 7400))
    assert str(Address(NAME, 0)) == NAME
    for wrong in (f"{NAME}:7400", "_coopbandits.example.org", "_a._udp.example.org", "_a._tcp"):
        with pytest.raises(Exception, match="port"):
            read_value("seeds", [wrong], Seeds)


def test_a_missing_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Config:
        auto, neighbors, tls = True, (), object()
        bandits: ClassVar[dict[str, object]] = {}
        seeds = (Address(NAME, 0),)

    monkeypatch.setattr(consistency, "find_spec", lambda name: None if name == "dns" else 1)
    (sentence,) = consistency._discovery(Config())  # type: ignore[arg-type]  # it is refused
    assert "pip install 'coopbandits[srv]'" in sentence
