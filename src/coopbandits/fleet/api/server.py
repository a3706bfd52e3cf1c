"""Serves a site, such as an agent's API, in a running event loop: its socket and its connections.

The number of connections is bounded, and so is the time of each. Where all are in use, the one that
has waited longest for its client makes room, one that never made a request first. So idle ones,
however many, keep no client out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import stat
from collections.abc import Collection, Iterator
from email.utils import formatdate
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, show_place
from coopbandits.fleet.api.app import PUBLIC, Api, Drain
from coopbandits.fleet.api.messages import Answer
from coopbandits.fleet.api.protocol import Connection
from coopbandits.fleet.api.site import Callers, Scoped, Site
from coopbandits.fleet.config import ApiLimits
from coopbandits.fleet.identity.files import require_writable
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.ratelimit import RateLimitedLog
from coopbandits.fleet.transport.sockets import Listener

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
        What is served.
    place : Address or Path
        Where to listen; a path is a Unix socket, and port 0 picks a free port.
    tls : ssl.SSLContext, optional
        Serves HTTPS; a context that requires certificates admits only clients that have one.
    limits : ApiLimits, optional
        Limits on clients.

    Attributes
    ----------
    background : Task
        Runs as long as requests are served; if it ends, timeouts are no longer enforced.
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

    @property
    def protected(self) -> bool:
        """Whether clients must authenticate."""
        return self.api.needs_token or _is_certain(self.tls)

    async def start(self) -> None:
        """Listen; returns once requests are answered.

        Raises
        ------
        InputError
            The address cannot be used, or would be open to everybody.
        """
        made = await listen(self._wanted, protected=self.protected)
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

    def renew(
        self, token: str | None, tls: ssl.SSLContext | None, scoped: Scoped = MappingProxyType({})
    ) -> None:
        """Require other tokens from now on, and show another certificate to new connections."""
        self.api.set_tokens(token, scoped)
        self.tls = self._connections.tls = tls

    async def stop(self) -> None:
        """Finish open requests and close, within a few seconds."""
        if self._listener is None:
            return
        # Before closing: afterwards the path may be another process's.
        release(self._bound, self._file)
        self._listener.close()
        self._listener = None
        self.background.cancel()
        await asyncio.wait([self.background])
        await self._connections.close(GRACE)


def _is_certain(tls: ssl.SSLContext | None) -> bool:
    """Return whether all clients must show a certificate."""
    return tls is not None and tls.verify_mode == ssl.CERT_REQUIRED


class ApiServer(Server):
    """An agent's HTTP API on a socket: an `Api` with the parameters of `Server`.

    Where neither token, certificate nor the permissions of a Unix socket say who calls, `drain` is
    not offered.
    """

    def __init__(
        self,
        service: Service,
        place: Address | Path,
        *,
        token: str | None = None,
        scoped: Scoped = MappingProxyType({}),
        tls: ssl.SSLContext | None = None,
        public: Collection[str] = PUBLIC,
        limits: ApiLimits | None = None,
        drain: Drain | None = None,
    ) -> None:
        proven = token is not None or bool(scoped) or _is_certain(tls) or isinstance(place, Path)
        callers = Callers(place, limits, any_host=tls is not None)
        api = Api(
            service,
            token,
            public,
            scoped=scoped,
            callers=callers,
            limits=limits,
            drain=drain if proven else None,
        )
        super().__init__(api, place, tls=tls, limits=limits)


log = logging.getLogger(__name__)


class Connections:
    """Accepted connections within their limits."""

    def __init__(self, api: Site, limits: ApiLimits, tls: ssl.SSLContext | None) -> None:
        self.api, self.limits, self.tls = api, limits, tls
        self.date = formatdate(usegmt=True).encode()
        self._open: dict[Connection, asyncio.Task[Any]] = {}
        self._left = asyncio.Event()
        self._refusals = RateLimitedLog(log, "refused requests")
        self._cuts = RateLimitedLog(log, "cut connections")

    def __len__(self) -> int:
        return len(self._open)

    def take(self, sock: socket.socket, _: Any) -> None:
        """Serve an accepted socket, or close it if there is no room."""
        if len(self._open) >= self.limits.max_connections and not self._make_room():
            sock.close()
            return
        if sock.family != socket.AF_UNIX:  # without this, 40 ms are lost
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made = Connection(self, asyncio.get_running_loop())
        self._open[made] = asyncio.create_task(self._enter(made, sock))

    async def _enter(self, made: Connection, sock: socket.socket) -> None:
        patience = self.limits.header_timeout if self.tls else None
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: made, sock, ssl=self.tls, ssl_handshake_timeout=patience
            )
        except BaseException as error:
            self.forget(made)
            sock.close()
            if not isinstance(error, OSError):  # such as a handshake that failed
                raise

    def sweep(self, now: float) -> None:
        """Cut those that take too long, and renew the header Date."""
        self.date = formatdate(usegmt=True).encode()
        for made in [made for made in self._open if made.is_late(now)]:
            self._cut(made, made.phase)

    async def close(self, grace: float) -> None:
        """Finish open requests and close; cut those that take longer."""
        for made, entering in list(self._open.items()):
            if made.transport is None:
                entering.cancel()
            else:
                made.leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._wait_until_left()
        for made in list(self._open):
            if made.transport is not None:
                made.transport.abort()
        await self._wait_until_left()

    async def _wait_until_left(self) -> None:
        while self._open:
            self._left.clear()
            await self._left.wait()

    def _make_room(self) -> bool:
        waiting = [made for made in self._open if not made.busy]
        if not waiting:
            self.api.meter.cuts["no room"] += 1
            return False
        self._cut(min(waiting, key=lambda made: (made.served > 0, made.since)), "room")
        return True

    def _cut(self, made: Connection, reason: str) -> None:
        self.api.meter.cuts[reason] += 1
        if reason != "idle":
            now = asyncio.get_running_loop().time()
            self._cuts.warning(now, LogEvent("cut a connection of the API", reason=reason))
        entering = self._open.pop(made)
        if made.transport is not None:
            made.transport.abort()
        else:
            entering.cancel()

    def forget(self, made: Connection) -> None:
        self._open.pop(made, None)
        if not self._open:
            self._left.set()

    def note_refusal(self, answer: Answer) -> None:
        """Count and log the refusal of what was not a request within the limits."""
        self.api.meter.requests["other", answer.status] += 1
        now = asyncio.get_running_loop().time()
        self._refusals.warning(now, LogEvent("refused a request", reason=answer.body.decode()))


UNIX_MODE = 0o660


async def listen(place: Address | Path, *, protected: bool) -> socket.socket:
    """Return a listening socket.

    Parameters
    ----------
    place : Address or Path
        Where to listen; port 0 picks a free port.
    protected : bool
        Whether clients must authenticate. If not, only this machine may connect.

    Raises
    ------
    InputError
        The place is taken, cannot be used, or would be open to everybody.
    """
    with _in_words(place):
        if isinstance(place, Path):
            return _listen_unix(place)
        return await _listen_tcp(place, protected=protected)


async def rehearse(place: Address | Path, *, protected: bool, made: Collection[Path] = ()) -> None:
    """Raise the InputError of `listen`, without making the file of a Unix socket.

    The folders in `made` exist by the time of `listen`.
    """
    with _in_words(place):
        if isinstance(place, Path):
            if place in made:
                raise _no_socket(place)
            _is_stale(place)
            if place.parent not in made:
                require_writable(place.parent)
        else:
            (await _listen_tcp(place, protected=protected)).close()


@contextlib.contextmanager
def _in_words(place: Address | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot listen on {show_place(place)}: {error.strerror}; choose another address"
        ) from error


def file_at(place: Address | Path) -> tuple[int, int] | None:
    """Return which file a Unix socket has, by device and inode; None where there is none."""
    if not isinstance(place, Path):
        return None
    try:
        found = place.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def release(place: Address | Path, file: tuple[int, int] | None) -> None:
    """Remove the file of a Unix socket, unless another process has put its own there since."""
    if isinstance(place, Path) and file is not None and file_at(place) == file:
        place.unlink(missing_ok=True)


async def _listen_tcp(place: Address, *, protected: bool) -> socket.socket:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    family, _, _, _, target = found[0]
    if not protected and not Address(*target[:2]).is_loopback:
        raise InputError(
            f"the API at {place} would be open to everybody; set a token, or listen on "
            "127.0.0.1 or a Unix socket"
        )
    # asyncio sets TCP_NODELAY only on sockets that name their protocol; without it, 40 ms are lost.
    with _closed_on_failure(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(target)
        made.listen(socket.SOMAXCONN)
    return made


def _listen_unix(path: Path) -> socket.socket:
    if _is_stale(path):
        path.unlink(missing_ok=True)
    with _closed_on_failure(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as made:
        made.bind(str(path))
        path.chmod(UNIX_MODE)  # before `listen`, so before anybody can connect
        made.listen(socket.SOMAXCONN)
    return made


@contextlib.contextmanager
def _closed_on_failure(made: socket.socket) -> Iterator[socket.socket]:
    try:
        yield made
    except OSError:
        made.close()
        raise


def _no_socket(path: Path) -> InputError:
    return InputError(f"{path} exists and is not a socket; choose another path or remove it")


def _is_stale(path: Path) -> bool:
    """Return whether there is the socket of a process that has ended; reject any other file."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise _no_socket(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.settimeout(1.0)
            try:
                caller.connect(str(path))
            except ConnectionRefusedError:
                return True
        raise InputError(f"another process listens on {path}; stop it or choose another path")
    return False
