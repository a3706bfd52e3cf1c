"""When a play ends: its time is over, or somebody wants it to."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Ending(asyncio.Event):
    """Set when no more choices are to be made.

    Attributes
    ----------
    interrupted : bool
        Whether that was before its time.
    """

    interrupted = False

    async def within(self, seconds: float) -> bool:
        """Wait for it, up to so many seconds; return whether it has come."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wait()
        return self.is_set()

    def interrupt(self) -> None:
        """End before its time."""
        self.interrupted = True
        self.set()
