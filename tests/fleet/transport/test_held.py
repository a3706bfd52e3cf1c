"""Links that are read at ticks: what arrives wakes nobody, and nothing is lost, late or endless."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from coopbandits.fleet.transport import connection
from coopbandits.fleet.transport.sockets import Timing
from coopbandits.fleet.transport.tcp import TcpTransport
from coopbandits.testing.checks.transport import Witness

from .nodes import Factory, places, until

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
