"""An event loop whose clock jumps: what waits for nothing but time takes none."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class JumpingSelector(selectors.SelectSelector):
    """Instead of waiting for the time to pass, lets it have passed."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = JumpingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


def run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(work)
