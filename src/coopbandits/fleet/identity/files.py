"""Files of operators and agents: replaced as a whole, read again when they change, kept secret.

Operators run commands as root, and agents run as users of their own. So a file that a command
replaces keeps its owner, group and mode: the agent must still be able to read it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from coopbandits.core.errors import InputError

MIN_TOKEN = 16
"""Length of the shortest token accepted, in characters."""


def file_version(path: Path) -> tuple[int, int, int] | None:
    """Return a value that changes when a file is replaced or written; None if it is missing."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_secret(path: Path, remedy: str = "give a file that this user can read") -> bytes:
    """Return the content of a file that must not be world-readable."""
    try:
        content, mode = path.read_bytes(), path.stat().st_mode
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; {remedy}") from error
    if mode & stat.S_IROTH:
        raise InputError(f"{path} is world-readable; forbid it with: chmod o-r {path}")
    return content


def read_token(path: Path) -> str:
    """Return the token in a file; it must not be world-readable."""
    token = read_secret(path).decode("utf-8", errors="replace").strip()
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"token file {path} holds {len(token)} characters; it must be one word of at least "
            f"{MIN_TOKEN} ASCII characters, such as what `openssl rand -hex 32` prints"
        )
    return token


def give(file: int, owner: os.stat_result) -> None:
    """Give an open file to the owner and group of another, as far as this process may."""
    made = os.fstat(file)
    if (made.st_uid, made.st_gid) == (owner.st_uid, owner.st_gid):
        return
    for user in (owner.st_uid, -1):  # if the user cannot be changed, at least the group
        with contextlib.suppress(OSError):
            os.fchown(file, user, owner.st_gid)
            return


def require_writable(folder: Path) -> None:
    """Raise the OSError of making a file in a folder, without making one."""
    if not stat.S_ISDIR(folder.stat().st_mode):
        raise system_error(errno.ENOTDIR)
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        raise system_error(errno.EROFS)
    if not os.access(
        folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
    ):
        raise system_error(errno.EACCES)


def system_error(number: int) -> OSError:
    """Return the error that a system call raises."""
    return OSError(number, os.strerror(number))


def link_target(path: Path) -> Path:
    """Return the file behind a symbolic link: replacing that one keeps the link."""
    return Path(os.path.realpath(path))  # `resolve` raises where links form a circle


def write_file(path: Path, content: bytes, *, secret: bool = False) -> None:
    """Write a file atomically: it has the new content or, after any failure, is unchanged.

    Owner and mode are those of the replaced file. A secret file is never readable by others, not
    even briefly.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            old = path.stat()
        except FileNotFoundError:
            old = None
        temporary.touch(0o600 if secret or old else 0o644, exist_ok=False)
        with temporary.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
            if old is not None:
                give(out.fileno(), old)
                os.fchmod(out.fileno(), 0o600 if secret else stat.S_IMODE(old.st_mode))
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}; make room there, let this user write there, "
            "or choose another place"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
