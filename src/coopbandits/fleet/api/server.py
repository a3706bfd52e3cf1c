"""Serves an API in a running event loop, by uvicorn without its signals, logs and processes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from coopbandits.fleet.address import Address, show_place
from coopbandits.fleet.api.app import Api
from coopbandits.fleet.api.sockets import listen, release

if TYPE_CHECKING:
    from coopbandits.fleet.service import Service

KEEP_ALIVE = 60
GRACE = 1


class ApiServer:
    """An agent's HTTP API on a socket.

    Parameters
    ----------
    service : Service
        The agent.
    place : Address or Path
        Where to listen, a path being that of a Unix socket; port 0 takes a free one.
    token : str, optional
        What every request has to show.
    tls : ssl.SSLContext, optional
        Serves HTTPS; one that requires certificates lets in only those who hold one.
    public : collection of str
        Paths that need no token.
    """

    def __init__(
        self,
        service: Service,
        place: Address | Path,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        public: Collection[str] = (),
    ) -> None:
        self.api = Api(service, token, public)
        self.tls = tls
        self._wanted = self._bound = place
        self._server: uvicorn.Server | None = None

    @property
    def address(self) -> str:
        """Where it listens; once started, with the port that it got."""
        return show_place(self._bound)

    async def start(self) -> None:
        """Listen; returns once requests are answered.

        Raises
        ------
        InputError
            The address cannot be had, or would let in everybody.
        """
        certain = self.tls is not None and self.tls.verify_mode == ssl.CERT_REQUIRED
        made = await listen(self._wanted, protected=self.api.token is not None or certain)
        if isinstance(self._wanted, Address):
            self._bound = Address(*made.getsockname()[:2])
        self._server, self._socket = _embedded(self.api, self.tls), made
        await self._server.startup([made])
        self._ticking = asyncio.create_task(self._server.main_loop())

    async def stop(self) -> None:
        """Answer what was asked, close, and return; within some seconds at most."""
        if self._server is None:
            return
        release(self._bound)  # while it is ours: once closed, the next process may take its place
        self._ticking.cancel()
        await asyncio.wait([self._ticking])
        cutting = asyncio.get_running_loop().call_later(GRACE, _cut_off, self._server)
        await self._server.shutdown([self._socket])
        cutting.cancel()
        self._server = None


def _embedded(api: Api, tls: ssl.SSLContext | None) -> uvicorn.Server:
    """Return a server that is started and stopped by hand, and so captures no signals."""
    config = uvicorn.Config(
        api,
        http="httptools",
        ws="none",
        loop="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE + 1,
    )
    config.load()
    config.ssl = tls
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server


def _cut_off(server: uvicorn.Server) -> None:
    """Close on those who do not finish what they send, or do not read what they asked for."""
    for connection in list(server.server_state.connections):
        connection.transport.abort()
