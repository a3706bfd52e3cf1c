"""When a run ends: its time is up, or it is interrupted."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Ending(asyncio.Event):
    """An event that is set when no more choices are to be made.

    Attributes
    ----------
    interrupted : bool
        Whether a signal set it early.
    """

    interrupted = False

    async def within(self, seconds: float) -> bool:
        """Wait for it, at most this long; return whether it is set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wait()
        return self.is_set()

    def interrupt(self) -> None:
        """End early."""
        self.interrupted = True
        self.set()
