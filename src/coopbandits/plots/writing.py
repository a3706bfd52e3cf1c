"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from coopbandits.core.errors import InputError


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_files({path: text.encode("utf-8")})


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write some files atomically: all under temporary names first, then the renames."""
    parts = {path: path.with_name(f".{os.getpid()}.{path.name}") for path in contents}
    path = next(iter(contents))
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise IsADirectoryError(None, "there is a folder of that name")
            with parts[path].open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path, part in parts.items():
            part.replace(path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}; make room there or choose another place"
        ) from error
    finally:
        for part in parts.values():
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
