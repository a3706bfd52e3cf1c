"""Remove cached kernels whose sources have changed.

numba's cache looks only at the file of the kernel, not at those of the functions it calls, so after
an edit of such a function it would silently go on running the old code.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from coopbandits import core
from coopbandits.network.faults import schedule
from coopbandits.problems import rewards, tables

STAMP = "kernel-sources.sha256"


def remove(cache: Path) -> None:
    """Remove the kernels in a cache folder unless they were compiled from the present sources."""
    stamp, present = cache / STAMP, digest()
    with contextlib.suppress(OSError):  # a folder that is not writable holds no kernels of ours
        if stamp.exists() and stamp.read_text() == present:
            return
        for kernel in cache.glob("*.nbi"):
            kernel.unlink(missing_ok=True)
        cache.mkdir(parents=True, exist_ok=True)
        stamp.write_text(present)


def digest() -> str:
    """Return a digest of all sources that kernels are compiled from."""
    files = [Path(str(module.__file__)) for module in (rewards, tables, schedule)]
    for folder in (Path(str(core.__file__)).parent, Path(__file__).parents[1]):
        files += sorted(folder.rglob("*.py"))
    total = hashlib.sha256()
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest()
