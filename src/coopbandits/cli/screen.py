"""What commands share: options, and messages on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from coopbandits.fleet.extra import part as part

if TYPE_CHECKING:
    from coopbandits.sim import Sweep

PAPER_MEANS = "1,0.8x16"

GraphOption = Annotated[str, typer.Option("--graph", help="cycle:100, grid:10x10, …, or a file")]


def say(text: str, status: int) -> int:
    """Print to standard error; return `status`, for ``raise typer.Exit(say(…))``."""
    from rich.console import Console  # imported late: agents rarely need it

    console = Console(stderr=True)
    console.print(text, style="bold red", highlight=False, markup=False, soft_wrap=True)
    return status


def name_failures(done: Sweep) -> None:
    """Name the cells that were set aside, and end with status 1 if there are any."""
    for cell, error in done.failed:
        say(f"set aside: {cell}: {error}", 1)
    if done.failed:
        raise typer.Exit(1)
