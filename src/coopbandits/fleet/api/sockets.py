"""The socket on which an API listens."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, show_place

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
    try:
        if isinstance(place, Path):
            return _listen_unix(place)
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
        family, _, _, _, target = found[0]
        if not protected and not Address(*target[:2]).is_loopback:
            raise InputError(
                f"the API at {place} would be open to everybody; set a token, or listen on "
                "127.0.0.1 or a Unix socket"
            )
        return _listen_tcp(family, target)
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


def _listen_tcp(family: int, target: tuple[Any, ...]) -> socket.socket:
    # asyncio sets TCP_NODELAY only on sockets that name their protocol; without it, 40 ms are lost.
    with _closed_on_failure(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(target)
        made.listen(socket.SOMAXCONN)
    return made


def _listen_unix(path: Path) -> socket.socket:
    _remove_stale(path)
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


def _remove_stale(path: Path) -> None:
    """Remove the socket of a process that has ended."""
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
