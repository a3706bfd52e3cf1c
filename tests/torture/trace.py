"""What happened, as a hash over canonical bytes, and as lines if somebody wants to read them."""

from __future__ import annotations

import struct
from hashlib import blake2b

from tests.torture.schedule import SECOND

KINDS = (
    "start", "dies", "refused", "tick", "down", "arrives", "chose", "rewards", "heals", "trouble",
    "well", "chose for", "elsewhere",
)  # fmt: skip
CODES = {kind: code for code, kind in enumerate(KINDS)}
PACKED = struct.Struct("<QBqqq")


class Trace:
    """Notes events: all of them in a hash, and as lines where `keep` is set.

    Whole numbers only: a float may be written differently elsewhere.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self.lines: list[str] | None = [] if keep else None
        self._noted: list[bytes] = []

    def note(self, time: int, kind: str, a: int = -1, b: int = -1, c: int = -1) -> None:
        """Note an event."""
        self._noted.append(PACKED.pack(time, CODES[kind], a, b, c))
        if self.lines is not None:
            told = " ".join(str(value) for value in (a, b, c) if value != -1)
            self.lines.append(f"{time / SECOND:10.6f}  {kind:<9} {told}")

    @property
    def digest(self) -> str:
        """The hash of everything noted so far."""
        return blake2b(b"".join(self._noted), digest_size=16).hexdigest()
