"""Injected faults: seeded draws, and links that are cut."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.local.agents import Place
from coopbandits.fleet.local.faults import Cuts, Dice


def test_dice_fall_by_the_seed() -> None:
    words = [Dice(3, 0).word() for _ in range(2)]
    assert words[0] == words[1]
    dice = Dice(3, 0)
    drawn = [dice.word() for _ in range(50)]
    assert len(set(drawn)) == 50
    assert drawn[0] != Dice(3, 1).word() != Dice(4, 1).word()


def test_everybody_is_picked() -> None:
    dice = Dice(0, 0)
    assert {dice.pick("abcd") for _ in range(60)} == set("abcd")


def test_a_split_has_two_sides() -> None:
    dice, names = Dice(0, 2), ["a", "b", "c"]
    sides = [dice.split(names) for _ in range(60)]
    assert {frozenset(side) for side in sides} == {
        frozenset(side) for side in ("a", "b", "c", "ab", "ac", "bc")
    }
    assert 0 < len(Dice(0, 2).split([str(n) for n in range(64)])) < 64


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
    writer.close()


async def ask(address: Address, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(text)
        return await reader.readexactly(len(text))
    finally:
        writer.close()
        await writer.wait_closed()


async def through_a_cut() -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    there = Address(*server.sockets[0].getsockname()[:2])
    one, other = Place("a00", Path(), there, ""), Place("a01", Path(), Address("127.0.0.1", 0), "")
    async with server, asyncio.timeout(90), Cuts([(one, other)]) as cuts:
        assert list(cuts.detours) == [("a01", "a00")]  # the higher id dials
        relay = cuts.detours["a01", "a00"]
        assert await ask(relay, b"hello") == b"hello"
        reader, writer = await asyncio.open_connection(relay.host, relay.port)
        cuts.cut({"a00", "a01"})  # both on the same side
        assert await ask(relay, b"there") == b"there"
        cuts.cut({"a01"})
        writer.write(b"under way")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ask(relay, b"lost")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(100)
        cuts.restore()
        assert await reader.readexactly(9) == b"under way"
        assert await ask(relay, b"again") == b"again"
        assert cuts.count == 2
        writer.close()
        await writer.wait_closed()


def test_a_link_is_cut_and_mended() -> None:
    asyncio.run(through_a_cut())


async def nobody_there() -> None:
    nowhere = Place("a00", Path(), Address("127.0.0.1", 1), "")
    async with Cuts([(nowhere, Place("a01", Path(), Address("127.0.0.1", 0), ""))]) as cuts:
        address = cuts.detours["a01", "a00"]
        reader, writer = await asyncio.open_connection(address.host, address.port)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await reader.readexactly(1)
        writer.transport.abort()


def test_a_dead_agent_hangs_up() -> None:
    asyncio.run(asyncio.wait_for(nobody_there(), 90))
