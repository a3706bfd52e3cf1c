"""Which device a process takes, where there are several."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

_held: list[int] = []
"""Locked files of this process; the system lifts locks when it ends, however it does."""


def take_device(names: Sequence[str], folder: Path | None = None) -> int:
    """Return the place of the first device that nobody holds, and hold it from now on.

    So workers of a sweep on one machine each take their own, whoever started them. Where all are
    held, processes share them by their numbers. `names` are the same for all processes, whichever
    devices they see.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"coopbandits-{os.getuid()}" / "devices"
    folder.mkdir(parents=True, exist_ok=True)
    for place, name in enumerate(names):
        file = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            continue
        _held.append(file)
        return place
    return os.getpid() % len(names)
