"""What commands share: options, and messages on standard error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from coopbandits.sim import Sweep

PAPER_MEANS = "1,0.8x16"


def names_for(kind: str) -> Callable[[str], list[str]]:
    """Return what completes the beginning of a name in a shell, such as one of the policies."""

    def complete(incomplete: str) -> list[str]:
        from coopbandits.cli.lists import registry_of  # imported late: only a shell asks

        return [name for name in registry_of(kind).names() if name.startswith(incomplete)]

    return complete


GraphOption = Annotated[
    str,
    typer.Option(
        "--graph", help="cycle:100, grid:10x10, …, or a file", autocompletion=names_for("graphs")
    ),
]


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
