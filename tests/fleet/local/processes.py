"""Which processes there are."""

from __future__ import annotations

from pathlib import Path


def agents_in(folder: Path) -> list[int]:
    """Return the processes that were told something about a folder."""
    return [
        int(process.name)
        for process in Path("/proc").iterdir()
        if process.name.isdigit() and str(folder).encode() in _command(process)
    ]


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it has just ended
        return b""
