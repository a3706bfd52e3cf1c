"""Serves the page on this machine: over one source, until interrupted."""

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
    """The page over a source that may have work of its own."""

    async def run(self) -> None:
        """Do this work until cancelled; here there is none."""
        await asyncio.get_running_loop().create_future()


class Served(NamedTuple):
    """A page that is served: its address, and the work behind it."""

    address: str
    work: asyncio.Task[None]


@asynccontextmanager
async def served(site: Shown, port: int = 0) -> AsyncIterator[Served]:
    """Serve a site on this machine until the block ends.

    Where a token is needed, it is in the address, behind a # that no browser sends anywhere.

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


async def serve(site: Shown, port: int, told: Callable[[str], None]) -> None:
    """Serve a site on this machine until cancelled; `told` hears the page's address."""
    async with served(site, port) as page:
        told(page.address)
        await page.work
