"""Serves a site, such as an agent's API, in a running event loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from coopbandits.fleet.address import Address, show_place
from coopbandits.fleet.api.app import PUBLIC, Api, Drain
from coopbandits.fleet.api.callers import Callers
from coopbandits.fleet.api.connections import Connections
from coopbandits.fleet.api.site import Site
from coopbandits.fleet.api.sockets import file_at, listen, release
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.transport.listener import Listener

if TYPE_CHECKING:
    from coopbandits.fleet.service import Service

GRACE = 1.0
"""Seconds for open requests when the API stops."""

SWEEP_SECONDS = 0.5
"""How often connections are looked at that take too long."""


class Server:
    """A site on a socket.

    Parameters
    ----------
    site : Site
        Answers requests.
    place : Address or Path
        Where to listen; a path is a Unix socket, and port 0 picks a free port.
    tls : ssl.SSLContext, optional
        Serves HTTPS; a context that requires certificates admits only clients that have one.
    limits : ApiLimits, optional
        What is taken of clients.

    Attributes
    ----------
    background : Task
        Runs as long as requests are served; if it ends, time-outs are no longer kept.
    """

    def __init__(
        self,
        site: Site,
        place: Address | Path,
        *,
        tls: ssl.SSLContext | None = None,
        limits: ApiLimits | None = None,
    ) -> None:
        self.api, self.tls, self.limits = site, tls, limits or ApiLimits()
        self._wanted = self._bound = place
        self._listener: Listener | None = None
        self._file: tuple[int, int] | None = None  # of a Unix socket

    @property
    def address(self) -> str:
        """The address; once started, with the actual port."""
        return show_place(self._bound)

    async def start(self) -> None:
        """Listen; returns once requests are answered.

        Raises
        ------
        InputError
            The address cannot be used, or would be open to everybody.
        """
        protected = self.api.token is not None or _is_certain(self.tls)
        made = await listen(self._wanted, protected=protected)
        self._file = file_at(self._wanted)
        if isinstance(self._wanted, Address):
            self._bound = Address(*made.getsockname()[:2])
        self._connections = Connections(self.api, self.limits, self.tls)
        self._listener = Listener(self._connections.take)
        self._listener.attend([made])
        self.background = asyncio.create_task(self._attend())

    async def _attend(self) -> None:
        while True:
            self._connections.sweep(asyncio.get_running_loop().time())
            self.api.beat()
            await asyncio.sleep(SWEEP_SECONDS)

    def renew(self, token: str | None, tls: ssl.SSLContext | None) -> None:
        """Require another token from now on, and show another certificate to new connections."""
        self.api.token = token.encode() if token else None
        self.tls = self._connections.tls = tls

    async def stop(self) -> None:
        """Finish open requests and close, within a few seconds."""
        if self._listener is None:
            return
        release(
            self._bound, self._file
        )  # before closing: afterwards the path may be another process's
        self._listener.close()
        self._listener = None
        self.background.cancel()
        await asyncio.wait([self.background])
        await self._connections.close(GRACE)


def _is_certain(tls: ssl.SSLContext | None) -> bool:
    """Return whether all clients have shown a certificate."""
    return tls is not None and tls.verify_mode == ssl.CERT_REQUIRED


class ApiServer(Server):
    """An agent's HTTP API on a socket.

    Parameters
    ----------
    service : Service
        The agent.
    place : Address or Path
        Where to listen; a path is a Unix socket, and port 0 picks a free port.
    token : str, optional
        Required of every request.
    tls : ssl.SSLContext, optional
        Serves HTTPS; a context that requires certificates admits only clients that have one.
    public : collection of str
        Paths that need no token.
    limits : ApiLimits, optional
        What is taken of clients.
    drain : callable, optional
        Stops the agent in order; only those may ask for it who have proved something.
    """

    def __init__(
        self,
        service: Service,
        place: Address | Path,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        public: Collection[str] = PUBLIC,
        limits: ApiLimits | None = None,
        drain: Drain | None = None,
    ) -> None:
        proven = token is not None or _is_certain(tls) or isinstance(place, Path)
        callers = Callers(place, limits, any_host=tls is not None)
        api = Api(
            service, token, public, callers=callers, limits=limits, drain=drain if proven else None
        )
        super().__init__(api, place, tls=tls, limits=limits)
