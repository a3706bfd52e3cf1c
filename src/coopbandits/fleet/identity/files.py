"""Files that are replaced as a whole, and whose they are.

Operators run commands as root, and agents run as users of their own: what a command replaces must
stay readable to whom it belonged.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from coopbandits.core.errors import InputError


def give(file: int, owner: os.stat_result) -> None:
    """Give an open file to the owner and the group of another, as far as this process may."""
    made = os.fstat(file)
    if (made.st_uid, made.st_gid) == (owner.st_uid, owner.st_gid):
        return
    for user in (owner.st_uid, -1):  # with the user, or at least the group
        with contextlib.suppress(OSError):
            os.fchown(file, user, owner.st_gid)
            return


def behind(path: Path) -> Path:
    """Return the file that a link stands for: whoever replaces that leaves the link as it is."""
    return Path(os.path.realpath(path))  # `resolve` ends in a traceback where links go in a circle


def write_file(
    path: Path, content: bytes, *, secret: bool = False, like: Path | None = None
) -> None:
    """Write a file all or nothing; see `prepared_file`."""
    with prepared_file(path, content, secret=secret, like=like):
        pass


@contextlib.contextmanager
def prepared_file(
    path: Path, content: bytes, *, secret: bool = False, like: Path | None = None
) -> Iterator[None]:
    """Write a file beside its place, and move it there once the block has ended well.

    So nothing but a rename is left to fail after the block. Owner and mode are those of the file
    `like`, by default the one that is replaced. A secret file is never readable by others, not even
    briefly.

    Raises
    ------
    InputError
        It cannot be written; there is what was there before.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with _told(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            model = _found(like or path)
            temporary.touch(0o600 if secret or model else 0o644, exist_ok=False)
            with temporary.open("wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
                if model is not None:
                    give(out.fileno(), model)
                    os.fchmod(out.fileno(), 0o600 if secret else stat.S_IMODE(model.st_mode))
        yield
        with _told(path):
            temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _found(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}; make room there, let this user write there, "
            "or choose another place"
        ) from None
