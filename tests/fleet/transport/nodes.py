"""Transports of real sockets, for tests: addresses that stay free, and certificates."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.tls import Credentials, ThrowawayCredentials
from coopbandits.fleet.transport.sockets import Timing
from coopbandits.fleet.transport.tcp import TcpTransport
from coopbandits.testing.checks.transport import Witness

NODES = ("alpha", "beta", "gamma")
PATIENCE = 90.0
QUICK = Timing(handshake=2.0, first_pause=0.01, longest_pause=0.1)


@contextlib.contextmanager
def places(*nodes: str) -> Iterator[dict[str, Address]]:
    """Yield a loopback address per node, bound so that nobody gets it, but not listening."""
    with contextlib.ExitStack() as stack:
        found: dict[str, Address] = {}
        for node in nodes:
            holder = stack.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))
            found[node] = Address(*holder.getsockname())
        yield found


def credentials(folder: Path | None, node: str) -> Credentials:
    """Return an agent's credentials in a folder; throw-away ones without."""
    if folder is None:
        return ThrowawayCredentials(node, "test")
    return Credentials(node, folder / "ca.pem", folder / f"{node}.pem", folder / f"{node}-key.pem")


class Factory:
    """Makes transports of agents at known addresses."""

    def __init__(
        self,
        at: Mapping[str, Address],
        folder: Path | None,
        timing: Timing = QUICK,
        kind: type[TcpTransport] = TcpTransport,
    ) -> None:
        self.at, self.folder, self.timing, self.kind = at, folder, timing, kind

    def __call__(self, node: str, neighbors: tuple[str, ...]) -> TcpTransport:
        proof = credentials(self.folder, node)
        known = {peer: self.at[peer] for peer in neighbors}
        return self.kind(node, self.at[node], known, proof, timing=self.timing)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def agent(
    node: str,
    folder: Path | None,
    neighbors: dict[str, Address],
    timing: Timing = QUICK,
) -> AsyncIterator[tuple[TcpTransport, Witness]]:
    proof = credentials(folder, node)
    transport = TcpTransport(node, Address("127.0.0.1", 0), neighbors, proof, timing=timing)
    witness = Witness(node)
    await transport.start(witness)
    try:
        yield transport, witness
    finally:
        await transport.stop()
        assert not witness.wrong
