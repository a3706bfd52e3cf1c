"""`coopbandits leaderboard` and `coopbandits gallery`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coopbandits.cli.options import folder, whole
from coopbandits.cli.screen import name_failures, say
from coopbandits.core.errors import InputError
from coopbandits.experiments import gallery, leaderboard
from coopbandits.experiments import matrix as matrix_board
from coopbandits.experiments.matrix.plan import RUNS
from coopbandits.experiments.suite import Plan, make_plan
from coopbandits.results.statistics import columns
from coopbandits.sim import Sweep, SweepInterrupted
from coopbandits.sim.engine import AUTO, NAMES

app = typer.Typer()


@app.command("leaderboard")
def leaderboard_command(
    out: Annotated[Path, folder("folder of the ledger, table, figure and page")],
    runs: Annotated[
        int | None, whole(f"independent repetitions; 20, or {RUNS} of a matrix")
    ] = None,
    seed: Annotated[int, whole("seed of all of them")] = 0,
    scenario: Annotated[
        list[str] | None,
        typer.Option(help="one of the suite, or PROBLEM@GRAPH; repeat for more; all if left out"),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="dducb, tree-sums*kl-ucb, module:Name, …; repeat for more; all ours if left out"
        ),
    ] = None,
    horizon: Annotated[int | None, whole("rounds T, instead of each scenario's own")] = None,
    workers: Annotated[int | None, whole("local processes; one per core")] = None,
    engine: Annotated[str, typer.Option(help=", ".join(NAMES))] = AUTO,
    retry: Annotated[bool, typer.Option(help="play cells again that were set aside")] = False,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="every aggregation × every index, not named policies")
    ] = False,
) -> None:
    """Score every policy in every scenario of the suite; re-run to resume."""
    if matrix and policy:
        raise InputError(f"a matrix is of all pairs of parts; leave out --policy {policy[0]}")
    if matrix:
        pairs = matrix_board.make_matrix(
            scenario or (), RUNS if runs is None else runs, seed, horizon
        )
        typer.echo(matrix_board.deliver(pairs, _play(pairs, out, workers, engine, retry), out))
    else:
        plan = make_plan(scenario or (), policy or (), 20 if runs is None else runs, seed, horizon)
        typer.echo(leaderboard.deliver(plan, _play(plan, out, workers, engine, retry), out))


def _play(plan: Plan, out: Path, workers: int | None, engine: str, retry: bool) -> Sweep:
    try:
        done = leaderboard.play(plan, out, workers=workers, engine=engine, retry=retry)
    except SweepInterrupted as stop:
        raise typer.Exit(say(str(stop), 130)) from None
    name_failures(done)
    return done


@app.command("gallery")
def gallery_command(
    name: Annotated[
        str | None, typer.Argument(help="which experiment; a list unless given")
    ] = None,
    out: Annotated[Path | None, folder("folder of the ledger, CSV and figure")] = None,
    runs: Annotated[int, whole("independent repetitions of every point")] = 10,
    seed: Annotated[int, whole("seed of all of them")] = 0,
    workers: Annotated[int | None, whole("local processes; one per core")] = None,
    engine: Annotated[str, typer.Option(help=", ".join(NAMES))] = AUTO,
    retry: Annotated[bool, typer.Option(help="play points again that were set aside")] = False,
) -> None:
    """Play one of the further experiments, re-run to resume; without a name, list them."""
    if name is None:
        rows: list[tuple[str, ...]] = [(key, e.question) for key, e in gallery.ENTRIES.items()]
        typer.echo("\n".join(line.rstrip() for line in columns(rows, left=(0, 1))))
        return
    if name in gallery.ENTRIES and out is None:
        raise InputError(f"gallery {name} has no folder to write to; add --out FOLDER")
    try:
        outcome = gallery.run_gallery(
            name, runs, seed, out or "", workers=workers, engine=engine, retry=retry
        )
    except SweepInterrupted as stop:
        raise typer.Exit(say(str(stop), 130)) from None
    typer.echo(f"{outcome}\n\nwritten to {out}: {name}.csv, {name}.svg, {name}.png")
    for text in outcome.failed:
        say(f"set aside: {text}", 1)
    if outcome.failed:
        raise typer.Exit(1)
