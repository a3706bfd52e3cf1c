"""Serves the page over one source on this machine, until interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.api.server import Server
from coopbandits.fleet.api.site import ROOT, Site

HOST = "127.0.0.1"


class Shown(Site):
    """The page over a source that may have background work."""

    async def run(self) -> None:
        """Do the background work until cancelled; by default there is none."""
        await asyncio.get_running_loop().create_future()


class Served(NamedTuple):
    """A served page: its address, and the background work."""

    address: str
    work: asyncio.Task[None]


@asynccontextmanager
async def served(site: Shown, port: int = 0) -> AsyncIterator[Served]:
    """Serve a site on this machine until the block ends.

    A required token is in the fragment of the address, which browsers send to no server.

    Raises
    ------
    InputError
        The port cannot be used.
    """
    if not 0 <= port < 2**16:
        raise InputError(f"the port is {port}; it must be from 0, for a free one, to 65535")
    server = Server(site, Address(HOST, port))
    await server.start()
    work = asyncio.create_task(site.run())
    try:
        proof = f"#token={site.token.decode()}" if site.token else ""
        yield Served(f"http://{server.address}{ROOT}{proof}", work)
    finally:
        work.cancel()
        await asyncio.wait([work])
        await server.stop()


async def serve(site: Shown, port: int, ready: Callable[[str], None]) -> None:
    """Serve a site on this machine until cancelled; `ready` is called with its address."""
    async with served(site, port) as page:
        ready(page.address)
        await page.work
