"""A progress bar that appears only when there is something to wait for; lines in a log."""

from __future__ import annotations

import importlib
import math
import sys
import time
from html import escape
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

PATIENCE = 1.0
"""Seconds before a bar is shown."""
NOTEBOOK_SECONDS = 0.25
"""Between two drawings in a notebook."""
LOG_SECONDS = 60.0
"""Before the first line in a log, and between two."""


def note(text: str) -> None:
    """Print a note to standard error."""
    console = Console(stderr=True)
    console.print(f"note: {text}", style="dim", highlight=False, markup=False, soft_wrap=True)


class Screen(Protocol):
    """Where a bar is drawn."""

    def start(self) -> None:
        """Begin to draw."""

    def advance(self, amount: int) -> None:
        """Count work done; draw it if begun."""

    def stop(self) -> None:
        """Remove the bar."""


class TerminalBar:
    """A bar on a terminal's standard error."""

    def __init__(self, total: int, label: str, console: Console) -> None:
        self.bar = Bar(
            TextColumn(label),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=total)

    def start(self) -> None:
        self.bar.start()

    def advance(self, amount: int) -> None:
        self.bar.advance(self.task, amount)

    def stop(self) -> None:
        self.bar.stop()


class Count:
    """Work done so far."""

    def __init__(self, total: int, label: str) -> None:
        self.total, self.label = max(total, 1), label
        self.done, self.began = 0, time.monotonic()

    @property
    def share(self) -> float:
        return min(1.0, self.done / self.total)

    @property
    def words(self) -> str:
        """The share, and how long the rest will take."""
        share = self.share
        if not share:
            return "0 %"
        left = (time.monotonic() - self.began) * (1.0 - share) / share
        return f"{100 * share:.0f} %, about {duration(left)} left"


class NotebookBar(Count):
    """A bar below a notebook's cell, in plain HTML: no widgets are needed."""

    def __init__(self, total: int, label: str) -> None:
        super().__init__(total, label)
        self.drawn_at = 0.0
        self.handle: Any = None

    def start(self) -> None:
        shown = _shown()
        self.handle = shown.display(shown.HTML(self.html()), display_id=True)

    def advance(self, amount: int) -> None:
        """Count work done; draw it a few times a second at most."""
        self.done += amount
        now = time.monotonic()
        if self.handle is not None and now - self.drawn_at >= NOTEBOOK_SECONDS:
            self.drawn_at = now
            self._draw(self.html())

    def stop(self) -> None:
        self._draw("")

    def html(self) -> str:
        bar = f"<progress value='{self.share:.4f}' max='1'></progress>"
        return f"{escape(self.label)} {bar} {self.words}"

    def _draw(self, text: str) -> None:
        self.handle.update(_shown().HTML(text))


class LogLines(Count):
    """A line on standard error now and then, where that is no terminal."""

    def __init__(self, total: int, label: str) -> None:
        super().__init__(total, label)
        self.next_at = 0.0

    def start(self) -> None:
        self._write(time.monotonic())

    def advance(self, amount: int) -> None:
        """Count work done; write a line if the last one is old."""
        self.done += amount
        now = time.monotonic()
        if self.next_at and now >= self.next_at:
            self._write(now)

    def stop(self) -> None:
        """Leave the lines."""

    def _write(self, now: float) -> None:
        self.next_at = now + LOG_SECONDS
        note(f"{self.label}: {self.words}")


def _shown() -> Any:
    return importlib.import_module("IPython.display")  # there wherever there is a notebook


def duration(seconds: float) -> str:
    """Write a time to wait in its largest unit but one, such as ``3 min 20 s``."""
    whole = math.ceil(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def in_notebook() -> bool:
    """Tell whether a Jupyter kernel runs this code."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


class Progress:
    """Count work done; draw a bar after a second, or write a line a minute into a log.

    Parameters
    ----------
    total : int
        How much work there is.
    show : bool or None
        At once, never, or (None) once it has taken longer than a second, and in a log a minute.
    label : str
        Text before the bar.
    """

    def __init__(self, total: int, show: bool | None, label: str = "simulating") -> None:
        console, patience = Console(stderr=True), PATIENCE
        bar: Screen
        if in_notebook():
            bar = NotebookBar(total, label)
        elif console.is_terminal or show is not None:
            bar = TerminalBar(total, label, console)
        else:
            bar, patience = LogLines(total, label), LOG_SECONDS
        self.bar, self.started, self.wanted = bar, False, show is not False
        self.show_at = time.monotonic() + (0.0 if show else patience)

    def __enter__(self) -> Progress:
        return self

    def advance(self, amount: int) -> None:
        self.bar.advance(amount)
        if self.wanted and not self.started and time.monotonic() >= self.show_at:
            self.started = True
            self.bar.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.started:
            self.bar.stop()
            self.started = False
