"""`coopbandits reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coopbandits.cli.options import folder, whole
from coopbandits.cli.screen import say
from coopbandits.experiments import paper
from coopbandits.sim.engine import AUTO, NAMES

app = typer.Typer()


@app.command("reproduce")
def reproduce_command(
    out: Annotated[Path, folder("folder for results, figures and report")],
    figure: Annotated[
        list[str] | None,
        typer.Option(help="cycle-100, cycle-200, grid-100 or grid-225; repeat for more"),
    ] = None,
    runs: Annotated[int, whole("independent repetitions")] = 10,
    seed: Annotated[int, whole("seed of all of them")] = 0,
    check: Annotated[bool, typer.Option("--check", help="compare with known numbers")] = False,
    audit: Annotated[bool, typer.Option("--audit", help="measure the paper's errors")] = False,
    engine: Annotated[str, typer.Option(help=", ".join(NAMES))] = AUTO,
    threads: Annotated[int | None, whole("threads; all cores unless given")] = None,
) -> None:
    """Play the paper's figures, judge its claims, write a report; re-run to resume."""
    try:
        found = paper.reproduce(
            out, figure or (), runs, seed, check=check, audit=audit, engine=engine, threads=threads
        )
        typer.echo(paper.screen_text(found))
        typer.echo(f"\nwritten to {out}: {', '.join(paper.write_report(found, out))}")
    except KeyboardInterrupt as stop:
        said = str(stop) or f"interrupted: finished cells are in {out}; re-run to resume"
        raise typer.Exit(say(said, 130)) from None
    if not found.agrees:
        raise typer.Exit(1)
