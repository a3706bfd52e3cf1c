"""A progress bar that appears only when there is something to wait for."""

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
        """Begin to draw."""
        self.bar.start()

    def advance(self, amount: int) -> None:
        """Count work done."""
        self.bar.advance(self.task, amount)

    def stop(self) -> None:
        """Erase the line."""
        self.bar.stop()


class NotebookBar:
    """A bar below a notebook's cell, in plain HTML: no widgets are needed."""

    def __init__(self, total: int, label: str) -> None:
        self.total, self.label = max(total, 1), label
        self.done, self.drawn_at, self.began = 0, 0.0, time.monotonic()
        self.handle: Any = None

    def start(self) -> None:
        """Open a place below the cell."""
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
        """Empty the place."""
        self._draw("")

    def html(self) -> str:
        """Return the bar as it stands."""
        share = min(1.0, self.done / self.total)
        left = (time.monotonic() - self.began) * (1.0 - share) / share if share else None
        wait = "" if left is None else f", about {duration(left)} left"
        return (
            f"{escape(self.label)} <progress value='{share:.4f}' max='1'></progress> "
            f"{100 * share:.0f} %{wait}"
        )

    def _draw(self, text: str) -> None:
        self.handle.update(_shown().HTML(text))


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
    """Count work done; draw a bar after a second, on a terminal or in a notebook.

    Parameters
    ----------
    total : int
        How much work there is.
    show : bool or None
        Always, never, or (None) once it has taken longer than a second and somebody watches.
    label : str
        Text before the bar.
    """

    def __init__(self, total: int, show: bool | None, label: str = "simulating") -> None:
        console, notebook = Console(stderr=True), in_notebook()
        self.wanted = notebook or console.is_terminal if show is None else show
        bar: Screen = NotebookBar(total, label) if notebook else TerminalBar(total, label, console)
        self.bar, self.started = bar, False
        self.show_at = time.monotonic() + (0.0 if show else PATIENCE)

    def __enter__(self) -> Progress:
        return self

    def advance(self, amount: int) -> None:
        """Report work done."""
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
