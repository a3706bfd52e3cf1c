"""The socket on which an API listens."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address

UNIX_MODE = 0o660


async def listen(address: Address, *, protected: bool) -> socket.socket:
    """Return a listening socket.

    Parameters
    ----------
    address : Address
        Where; port 0 takes a free one.
    protected : bool
        Whether callers have to prove who they are. If not, only this machine may call.

    Raises
    ------
    InputError
        The place is taken, cannot be had, or would be open to everybody.
    """
    try:
        if address.path:
            return _listen_unix(Path(address.path))
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, _, _, _, place = found[0]
        if not protected and not ip_address(place[0]).is_loopback:
            raise InputError(
                f"the API at {address} would be open to everybody; set a token, or listen on "
                "127.0.0.1 or a Unix socket"
            )
        return _listen_tcp(family, place)
    except OSError as error:
        raise InputError(
            f"cannot listen on {address}: {error.strerror}; choose another address"
        ) from error


def release(address: Address) -> None:
    """Remove the file of a Unix socket."""
    if address.path:
        Path(address.path).unlink(missing_ok=True)


def _listen_tcp(family: int, place: tuple[Any, ...]) -> socket.socket:
    # asyncio sends without delay only on sockets that name their protocol, and a delay is 40 ms.
    with _closed_on_failure(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(socket.SOMAXCONN)
    return made


def _listen_unix(path: Path) -> socket.socket:
    _remove_stale(path)
    with _closed_on_failure(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as made:
        made.bind(str(path))
        path.chmod(UNIX_MODE)  # before anybody can connect, which takes `listen`
        made.listen(socket.SOMAXCONN)
    return made


@contextlib.contextmanager
def _closed_on_failure(made: socket.socket) -> Iterator[socket.socket]:
    try:
        yield made
    except OSError:
        made.close()
        raise


def _remove_stale(path: Path) -> None:
    """Remove the socket of a process that is no more."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise InputError(f"{path} exists and is no socket; choose another path or remove it")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.settimeout(1.0)
            try:
                caller.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
                return
        raise InputError(f"another process listens on {path}; stop it or choose another path")
