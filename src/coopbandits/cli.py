"""The command line: argument parsing only."""

from __future__ import annotations

import json
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from coopbandits import theory
from coopbandits.core.dducb import DDUCB
from coopbandits.core.errors import InputError
from coopbandits.core.registry import parse_policy
from coopbandits.experiments import bench, gallery, leaderboard, paper
from coopbandits.experiments.suite import make_plan
from coopbandits.network import GraphReport, Network, describe
from coopbandits.problems import GaussianBandit, parse_means
from coopbandits.results import Result
from coopbandits.results.statistics import columns
from coopbandits.results.storage import check_folder
from coopbandits.sim import (
    SimulationInterrupted,
    Sweep,
    SweepInterrupted,
    compare,
    read_experiment,
    simulate,
    sweep,
)
from coopbandits.sim.cluster import dask_executor
from coopbandits.sim.progress import Progress
from coopbandits.sim.simulate import plan

PAPER_MEANS = "1,0.8x16"

app = typer.Typer(
    help="Decentralised cooperative bandits: simulate, compare, reproduce.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

GraphOption = Annotated[str, typer.Option("--graph", help="cycle:100, grid:10x10, …, or a file")]


@app.callback()
def commands() -> None:
    """Decentralised cooperative bandits: simulate, compare, reproduce."""


@app.command("reproduce")
def reproduce_command(
    out: Annotated[Path, typer.Option(help="folder for results, figures and report")],
    figure: Annotated[
        list[str] | None,
        typer.Option(help="cycle-100, cycle-200, grid-100 or grid-225; repeat for more"),
    ] = None,
    runs: Annotated[int, typer.Option(help="independent repetitions")] = 10,
    seed: Annotated[int, typer.Option(help="seed of all of them")] = 0,
    check: Annotated[bool, typer.Option("--check", help="compare with known numbers")] = False,
    audit: Annotated[bool, typer.Option("--audit", help="measure the paper's errors")] = False,
    threads: Annotated[int | None, typer.Option(help="threads; all cores unless given")] = None,
) -> None:
    """Play the paper's figures, judge its claims, write a report; a second start does the rest."""
    try:
        found = paper.reproduce(
            out, figure or (), runs, seed, check=check, audit=audit, threads=threads
        )
        typer.echo(paper.screen_text(found))
        typer.echo(f"\nwritten to {out}: {', '.join(paper.write_report(found, out))}")
    except KeyboardInterrupt as stop:
        said = str(stop) or f"interrupted: what was played is in {out}; run it again to do the rest"
        raise typer.Exit(_say(said, 130)) from None
    if not found.agrees:
        raise typer.Exit(1)


@app.command("graph")
def graph_command(
    spec: Annotated[str, typer.Argument(help="cycle:100, grid:10x10, complete:8, …, or a file")],
    weights: Annotated[str, typer.Option(help="max-degree or metropolis")] = "max-degree",
    arms: Annotated[int, typer.Option(help="number of arms K")] = 17,
    horizon: Annotated[int, typer.Option(help="rounds T, for the warnings")] = 10_000,
) -> None:
    """Print what a graph means for gossip: λ, gap, diameter, C, messages and values per stage."""
    report = describe(Network.from_spec(spec, weights=weights), num_arms=arms, horizon=horizon)
    typer.echo("\n".join(columns([("graph", spec), *_graph_rows(report)])))
    for warning in report.warnings:
        typer.echo(f"warning: {warning}")


def _graph_rows(report: GraphReport) -> list[tuple[str, str]]:
    exact = "" if report.diameter_is_exact else "at least "
    return [
        ("agents N", f"{report.num_agents}"),
        ("edges", f"{report.num_edges}"),
        ("degrees", f"{report.min_degree} to {report.max_degree}"),
        ("diameter", f"{exact}{report.diameter}"),
        ("weights", report.weights),
        ("λ", f"{report.lambda2:.8f}"),
        ("gap 1 − λ", f"{report.spectral_gap:.6g}"),
        ("C accelerated", f"{report.rounds_accelerated} rounds"),
        ("C unaccelerated", f"{report.rounds_unaccelerated} rounds"),
        ("messages per stage", f"{report.messages_per_stage:,}"),
        ("values per stage", f"{report.values_per_stage:,}"),
    ]


@app.command("simulate")
def simulate_command(
    graph: GraphOption,
    policy: Annotated[list[str], typer.Option(help="dducb, dducb:eta=3, …; repeat for more")],
    out: Annotated[Path, typer.Option(help="folder for result, figure and report")],
    means: Annotated[str, typer.Option(help="means of Gaussian arms")] = PAPER_MEANS,
    sigma: Annotated[float, typer.Option(help="their standard deviation")] = 1.0,
    horizon: Annotated[int, typer.Option(help="rounds T")] = 10_000,
    runs: Annotated[int, typer.Option(help="independent repetitions")] = 10,
    seed: Annotated[int, typer.Option(help="seed of all of them")] = 0,
    weights: Annotated[str, typer.Option(help="max-degree or metropolis")] = "max-degree",
    engine: Annotated[str, typer.Option(help="auto, cpu or reference")] = "auto",
    shuffle_arms: Annotated[
        bool, typer.Option("--shuffle-arms", help="another order of the arms in every run")
    ] = False,
    faults: Annotated[
        str, typer.Option(help="loss=0.3, churn=200..50, …; commas between several")
    ] = "none",
    clocks: Annotated[
        str, typer.Option(help="poisson, regular:ratio=5, …: no common rounds")
    ] = "none",
) -> None:
    """Simulate policies on the same tapes; print the table, write result, figure and report."""
    problem = GaussianBandit(parse_means(means), sigma)
    network = Network.from_spec(graph, weights=weights)
    policies = [parse_policy(text) for text in policy]
    world = (problem, network, policies, horizon, runs, seed)
    more: Any = {"shuffle_arms": shuffle_arms, "faults": faults, "clocks": clocks}
    check_folder(out, plan(*world, **more))
    try:
        result = simulate(*world, engine, **more)
    except SimulationInterrupted as stop:
        part = out / f"partial-{stop.kept}-runs"
        kept = _deliver(stop.result, part) if stop.result else "nothing was written"
        raise typer.Exit(_say(f"{stop}; {kept}", 130)) from None
    typer.echo(_deliver(result, out))


@app.command("run")
def run_command(
    experiment: Annotated[Path, typer.Argument(help="a TOML file; see the page on sweeps")],
    out: Annotated[Path, typer.Option(help="folder of the ledger, figures and reports")],
    override: Annotated[list[str] | None, typer.Option("--set", help="key=value")] = None,
    workers: Annotated[int | None, typer.Option(help="local processes; one per core")] = None,
    dask: Annotated[str | None, typer.Option(help="address of a Dask scheduler")] = None,
    retry: Annotated[bool, typer.Option(help="play cells again that were set aside")] = False,
) -> None:
    """Play an experiment file, through crashes and interruptions; a second start does the rest."""
    cells = read_experiment(experiment, override or [])
    try:
        with dask_executor(dask) if dask else nullcontext() as executor:
            done = sweep(cells, out, executor, workers=workers, retry=retry)
    except SweepInterrupted as stop:
        raise typer.Exit(_say(str(stop), 130)) from None
    for name, result in compare(done.results).items():
        typer.echo(f"\n{name}")
        folder = out / re.sub(r"[^\w.=-]+", "-", name)
        typer.echo(result.summary())
        typer.echo(f"written to {folder}: {_draw(result, folder)}")
    _name_failures(done)


@app.command("leaderboard")
def leaderboard_command(
    out: Annotated[Path, typer.Option(help="folder of the ledger, table, figure and page")],
    runs: Annotated[int, typer.Option(help="independent repetitions")] = 20,
    seed: Annotated[int, typer.Option(help="seed of all of them")] = 0,
    scenario: Annotated[
        list[str] | None, typer.Option(help="one of the suite; repeat for more; all if left out")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="dducb, …; repeat for more; all if left out")
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="rounds T, instead of each scenario's own")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="local processes; one per core")] = None,
    retry: Annotated[bool, typer.Option(help="play cells again that were set aside")] = False,
) -> None:
    """Score every policy in every scenario of the suite; a second start does the rest."""
    chosen = make_plan(scenario or (), policy or (), runs, seed, horizon)
    try:
        done = leaderboard.play(chosen, out, workers=workers, retry=retry)
    except SweepInterrupted as stop:
        raise typer.Exit(_say(str(stop), 130)) from None
    _name_failures(done)
    typer.echo(leaderboard.deliver(chosen, done, out))


def _name_failures(done: Sweep) -> None:
    """Name the cells that were set aside, and end with status 1 if there are any."""
    for cell, error in done.failed:
        _say(f"set aside: {cell}: {error}", 1)
    if done.failed:
        raise typer.Exit(1)


@app.command("bounds")
def bounds_command(
    graph: GraphOption,
    policy: Annotated[
        str | None, typer.Option(help="DDUCB with its settings; as analysed unless given")
    ] = None,
    means: Annotated[str, typer.Option(help="means of Gaussian arms")] = PAPER_MEANS,
    sigma: Annotated[float, typer.Option(help="their standard deviation")] = 1.0,
    horizon: Annotated[int, typer.Option(help="rounds T")] = 10_000,
    gamma: Annotated[float, typer.Option(help="γ of coop-UCB's bound")] = 2.0,
    weights: Annotated[str, typer.Option(help="max-degree or metropolis")] = "max-degree",
) -> None:
    """Print the regret that theory promises, and where that promise is empty."""
    problem = GaussianBandit(parse_means(means), sigma)
    network = Network.from_spec(graph, weights=weights)
    chosen = parse_policy(policy) if policy else theory.as_analysed(DDUCB())
    rows = theory.table(problem, network, chosen, horizon, gamma=gamma)
    lines: list[tuple[str, ...]] = [("bound", "regret", "kind", "")]
    lines += [(row.name, _bound(row), row.kind, _remark(row)) for row in rows]
    typer.echo(f"{graph}, {chosen.spelling}, T = {horizon}\n")
    for line in columns(lines, left=(0, 2, 3)):
        typer.echo(line.rstrip())


def _bound(row: theory.BoundRow) -> str:
    return "–" if row.value is None else f"{row.value:.6g}"


def _remark(row: theory.BoundRow) -> str:
    if row.refusal is not None:
        return row.refusal
    return "vacuous at this horizon" if row.vacuous else ""


@app.command("bench")
def bench_command(
    as_json: Annotated[bool, typer.Option("--json", help="print all numbers as JSON")] = False,
) -> None:
    """Print the cost of an agent-round over the cost of one random draw."""
    timings = []
    with Progress(len(bench.CASES) + 1, None, "timing") as bar:
        for timing in bench.run_bench():
            timings.append(timing)
            bar.advance(1)
        speed_up = bench.time_threads()
    if as_json:
        typer.echo(json.dumps(bench.as_json(timings, speed_up), indent=2))
    else:
        typer.echo(bench.table(timings, speed_up))


@app.command("gallery")
def gallery_command(
    name: Annotated[
        str | None, typer.Argument(help="which experiment; a list unless given")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder of the ledger, CSV and figure")] = None,
    runs: Annotated[int, typer.Option(help="independent repetitions of every point")] = 10,
    seed: Annotated[int, typer.Option(help="seed of all of them")] = 0,
    workers: Annotated[int | None, typer.Option(help="local processes; one per core")] = None,
    retry: Annotated[bool, typer.Option(help="play points again that were set aside")] = False,
) -> None:
    """Play one of the further experiments, through interruptions; without a name, list them."""
    if name is None:
        rows: list[tuple[str, ...]] = [(key, e.question) for key, e in gallery.ENTRIES.items()]
        typer.echo("\n".join(line.rstrip() for line in columns(rows, left=(0, 1))))
        return
    if name in gallery.ENTRIES and out is None:
        raise InputError(f"gallery {name} has no folder to write to; add --out FOLDER")
    try:
        outcome = gallery.run_gallery(name, runs, seed, out or "", workers=workers, retry=retry)
    except SweepInterrupted as stop:
        raise typer.Exit(_say(str(stop), 130)) from None
    typer.echo(f"{outcome}\n\nwritten to {out}: {name}.csv, {name}.svg, {name}.png")
    for text in outcome.failed:
        _say(f"set aside: {text}", 1)
    if outcome.failed:
        raise typer.Exit(1)


def _deliver(result: Result, out: Path) -> str:
    """Show and save a result; return where it went."""
    typer.echo(result.summary())
    result.save(out)
    return f"written to {out}: result.nc, meta.json, {_draw(result, out)}"


def _draw(result: Result, out: Path) -> str:
    """Write figures and report; return their names."""
    for ending in ("svg", "png"):
        result.plot(path=out / f"regret.{ending}")
    result.report(out / "report.html")
    return "regret.svg, regret.png, report.html"


def _say(text: str, status: int) -> int:
    console = Console(stderr=True)
    console.print(text, style="bold red", highlight=False, markup=False, soft_wrap=True)
    return status


def main() -> None:
    """Run the command line; bad input is one sentence and exit status 2."""
    try:
        app()
    except InputError as error:
        sys.exit(_say(f"error: {error}", 2))
