"""Clocks that are set: libfaketime reads from a file how far off an agent's clock is."""

from __future__ import annotations

from pathlib import Path

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))

OFFSETS = (0, 20, 45)
"""Seconds; neighbours believe each other while they are less than a minute apart."""


def obstacle() -> str:
    """Return why clocks cannot be set here; "" if they can."""
    return "" if LIBRARIES else "there is no libfaketime (Debian: apt install faketime)"


def wrap(file: Path) -> tuple[str, ...]:
    """Return what to put before a command whose clock a file sets; monotonic clocks stay."""
    if obstacle():
        return ()
    set_clock(file, 0)
    return (
        "env",
        f"LD_PRELOAD={LIBRARIES[0]}",
        f"FAKETIME_TIMESTAMP_FILE={file}",
        "FAKETIME_DONT_FAKE_MONOTONIC=1",
        "FAKETIME_CACHE_DURATION=1",
    )


def set_clock(file: Path, seconds: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".new")
    aside.write_text(f"+{seconds}\n")
    aside.replace(file)
