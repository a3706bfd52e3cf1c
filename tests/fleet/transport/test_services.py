"""SRV records, asked of a real name server on this machine over UDP and TCP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.config import consistency
from coopbandits.fleet.config import fields as read
from coopbandits.fleet.transport import tcp as transports

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
    assert read.seeds("seeds", [NAME, "shop:7400"]) == (Address(NAME, 0), Address("shop", 7400))
    assert str(Address(NAME, 0)) == NAME
    for wrong in (f"{NAME}:7400", "_coopbandits.example.org", "_a._udp.example.org", "_a._tcp"):
        with pytest.raises(Exception, match="port"):
            read.seeds("seeds", [wrong])


def test_a_missing_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Config:
        auto, neighbors, tls = True, (), object()
        bandits: ClassVar[dict[str, object]] = {}
        seeds = (Address(NAME, 0),)

    monkeypatch.setattr(consistency, "find_spec", lambda name: None if name == "dns" else 1)
    (sentence,) = consistency._members(Config())  # type: ignore[arg-type]  # it is refused
    assert "pip install 'coopbandits[srv]'" in sentence
