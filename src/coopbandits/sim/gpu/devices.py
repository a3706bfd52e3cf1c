"""Which device a process takes, where there are several."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

_held: list[IO[str]] = []
"""Locks of this process; the system lifts them when it ends, however it does."""


def take_device(names: Sequence[str], folder: Path | None = None) -> int:
    """Return the place of the first device that nobody holds, and hold it from now on.

    So workers of a sweep on one machine each take their own, whoever started them. Where all are
    held, processes share them by their numbers. `names` are the same for all processes, whichever
    devices they see.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"coopbandits-{os.getuid()}" / "devices"
    folder.mkdir(parents=True, exist_ok=True)
    for place, name in enumerate(names):
        lock = (folder / name).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        _held.append(lock)
        return place
    return os.getpid() % len(names)
