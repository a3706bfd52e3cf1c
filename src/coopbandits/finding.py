"""What `coopbandits doctor` tells of one thing that it has looked at."""

from __future__ import annotations

from typing import NamedTuple

OK, NOTE, BROKEN = "ok", "note", "BROKEN"
"""Works; works without something, or not for long; does not work."""


class Finding(NamedTuple):
    """One line of the table: what was looked at, what was found, and what mends it."""

    what: str
    found: str
    state: str = OK
    mend: str = ""
