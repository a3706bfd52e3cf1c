"""A progress bar that appears only when there is something to wait for."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

PATIENCE = 1.0
"""Seconds before a bar is shown."""


def note(text: str) -> None:
    """Print a note to standard error."""
    console = Console(stderr=True)
    console.print(f"note: {text}", style="dim", highlight=False, markup=False, soft_wrap=True)


class Progress:
    """Count work done; draw a bar on a terminal's standard error after a second.

    Parameters
    ----------
    total : int
        How much work there is.
    show : bool or None
        Always, never, or (None) on a terminal once it has taken longer than a second.
    label : str
        Text before the bar.
    """

    def __init__(self, total: int, show: bool | None, label: str = "simulating") -> None:
        console = Console(stderr=True)
        self.wanted = console.is_terminal if show is None else show
        self.bar = Bar(
            TextColumn(label),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=total)
        self.show_at = time.monotonic() + (0.0 if show else PATIENCE)

    def __enter__(self) -> Progress:
        return self

    def advance(self, amount: int) -> None:
        """Report work done."""
        self.bar.advance(self.task, amount)
        if self.wanted and not self.bar.live.is_started and time.monotonic() >= self.show_at:
            self.bar.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar.live.is_started:
            self.bar.stop()
