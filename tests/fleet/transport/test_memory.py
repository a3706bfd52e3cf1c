"""Links inside one process: cut, healed, and the same every time."""

from __future__ import annotations

import asyncio

import pytest

from coopbandits.core import InputError
from coopbandits.fleet.transport.memory import MemoryNetwork, MemoryTransport
from coopbandits.testing.checks.transport import Witness


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def join(network: MemoryNetwork, node: str, *peers: str) -> tuple[MemoryTransport, Witness]:
    transport, witness = network.transport(node, peers), Witness(node)
    await transport.start(witness)
    return transport, witness


def test_a_cut_link_stays_down_until_it_is_healed() -> None:
    async def scenario() -> None:
        network = MemoryNetwork(pause=0.0)
        (alpha, at_alpha), (beta, at_beta) = [
            await join(network, *pair) for pair in (("alpha", "beta"), ("beta", "alpha"))
        ]
        await settle()
        assert alpha.send("beta", b"lost on the way")
        network.cut("alpha", "beta")
        assert not alpha.send("beta", b"too late")
        await settle()
        assert at_alpha.downs == [("beta", "the link was cut")]
        assert at_beta.downs == [("alpha", "the link was cut")]
        assert at_beta.heard == {"alpha": b""}
        await beta.stop()
        _, at_beta = await join(network, "beta", "alpha")
        await settle()
        assert at_beta.ups == []
        network.heal("beta", "alpha")
        await settle()
        assert at_alpha.ups == ["beta", "beta"]
        assert alpha.send("beta", b"at last")
        await settle()
        assert at_beta.heard == {"alpha": b"at last"}
        assert not at_alpha.wrong + at_beta.wrong

    asyncio.run(scenario())


def test_what_was_sent_before_a_drop_arrives() -> None:
    async def scenario() -> None:
        network = MemoryNetwork()
        alpha, _ = await join(network, "alpha", "beta")
        _, at_beta = await join(network, "beta", "alpha")
        await settle()
        alpha.send("beta", b"another cluster")
        alpha.drop("beta", "another cluster")
        assert not alpha.send("beta", b"too late")
        await settle()
        assert at_beta.heard["alpha"] == b"another cluster"
        assert at_beta.downs == [("alpha", "another cluster")]

    asyncio.run(scenario())


def test_cutting_what_is_not_there_is_remembered() -> None:
    async def scenario() -> None:
        network = MemoryNetwork()
        network.cut("alpha", "beta")
        _, at_alpha = await join(network, "alpha", "beta")
        await join(network, "beta", "alpha")
        await settle()
        assert at_alpha.events == 0
        network.heal("alpha", "beta")
        await settle()
        assert at_alpha.ups == ["beta"]

    asyncio.run(scenario())


def test_an_agent_is_one_of_its_name_and_not_its_own_neighbour() -> None:
    async def scenario() -> None:
        network = MemoryNetwork()
        await join(network, "alpha", "beta")
        with pytest.raises(InputError, match=r"'alpha'.*running"):
            await join(network, "alpha", "beta")
        with pytest.raises(InputError, match="own neighbour"):
            network.transport("alpha", ("alpha",))

    asyncio.run(scenario())
