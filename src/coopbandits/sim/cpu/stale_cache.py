"""Remove cached kernels whose sources have changed.

numba looks at the file of the kernel alone, not at those of the functions it is made of, so after
an edit of such a leaf it would go on running the old one without a word.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from coopbandits.core import draws, index
from coopbandits.problems import rewards

CACHE = Path(__file__).parent / "__pycache__"
STAMP = CACHE / "kernel-sources.sha256"


def remove() -> None:
    """Remove the cache beside this file unless it was made from the present sources."""
    with contextlib.suppress(OSError):  # an installation that cannot be written has no cache here
        present = digest()
        if STAMP.exists() and STAMP.read_text() == present:
            return
        for index in CACHE.glob("*.nbi"):
            index.unlink(missing_ok=True)
        CACHE.mkdir(exist_ok=True)
        STAMP.write_text(present)


def digest() -> str:
    """Return a digest of all that kernels are compiled from."""
    files = [Path(str(module.__file__)) for module in (draws, rewards)]
    for folder in (Path(str(index.__file__)).parent, Path(__file__).parent):
        files += sorted(folder.glob("*.py"))
    total = hashlib.sha256()
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest()
