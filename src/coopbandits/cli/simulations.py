"""`coopbandits simulate` and `coopbandits run`."""

from __future__ import annotations

import re
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from coopbandits.cli.options import folder, real, whole
from coopbandits.cli.screen import PAPER_MEANS, GraphOption, name_failures, names_for, say
from coopbandits.core.errors import InputError
from coopbandits.core.registry import parse_policy
from coopbandits.network import Network, parse_faults
from coopbandits.plots import figure_bytes, load_meanwhile
from coopbandits.plots.writing import write_files
from coopbandits.problems import GaussianBandit, Problem, changed, parse_means, parse_problem
from coopbandits.results import Result
from coopbandits.results.storage import DATA_FILE, check_folder
from coopbandits.sim import (
    SimulationInterrupted,
    SweepInterrupted,
    compare,
    parse_clocks,
    read_experiment,
    sweep,
)
from coopbandits.sim.engine import NAMES
from coopbandits.sim.setup import PRECISIONS, Setup, read_stop, recorded_rounds
from coopbandits.sim.simulate import plan, play
from coopbandits.sim.sweep import dask_executor

LONGEST_NAME = 120
"""Bytes of a group's name that become the name of its folder."""

app = typer.Typer()


@app.command("simulate")
def simulate_command(
    graph: GraphOption,
    policy: Annotated[
        list[str],
        typer.Option(
            help="dducb, dducb:eta=3, my_module:MyPolicy, …; repeat",
            autocompletion=names_for("policies"),
        ),
    ],
    out: Annotated[Path, folder("folder for result, figure and report")],
    context: typer.Context,
    means: Annotated[str, typer.Option(help="means of Gaussian arms")] = PAPER_MEANS,
    sigma: Annotated[float, real("their standard deviation")] = 1.0,
    problem: Annotated[
        str | None,
        typer.Option(
            help="bernoulli:0.5,0.4x5, my_module:MyProblem, …; instead of --means",
            autocompletion=names_for("problems"),
        ),
    ] = None,
    drift: Annotated[
        str | None, typer.Option(help="switch_every=2000, steps=500:0.2,0.9, …: rewards change")
    ] = None,
    sites: Annotated[
        str | None, typer.Option(help="spread=0.1, groups=0.9,0.1/0.1,0.9, …: agents' means differ")
    ] = None,
    subsets: Annotated[
        str | None, typer.Option(help="0,1/1,2, …: arms that agents in turn may play")
    ] = None,
    horizon: Annotated[int, whole("rounds T")] = 10_000,
    runs: Annotated[int, whole("independent repetitions")] = 10,
    seed: Annotated[int, whole("seed of all of them")] = 0,
    weights: Annotated[str, typer.Option(help="max-degree, metropolis, edge or auto")] = "auto",
    engine: Annotated[str, typer.Option(help=", ".join(NAMES))] = "auto",
    precision: Annotated[str, typer.Option(help="float64; float32 on a GPU")] = PRECISIONS[0],
    shuffle_arms: Annotated[
        bool, typer.Option("--shuffle-arms", help="shuffle the arms in every run")
    ] = False,
    faults: Annotated[
        str,
        typer.Option(
            help="loss=0.3, churn=200..50, …; commas between several",
            autocompletion=names_for("faults"),
        ),
    ] = "none",
    clocks: Annotated[
        str, typer.Option(help="poisson, regular:ratio=5, …: no common rounds")
    ] = "none",
    stop: Annotated[
        str | None,
        typer.Option(help="0.95, or 0.95,within=0.1: tell when agents could have stopped"),
    ] = None,
    keep: Annotated[
        str,
        typer.Option(
            help="keep more: agents, curves or arms of all runs; watch, for `coopbandits dashboard`"
        ),
    ] = "",
    figures: Annotated[bool, typer.Option(help="draw figures and report")] = True,
) -> None:
    """Simulate policies on the same tapes; print the table, write result, figure and report."""
    arms = _problem(problem, context) or GaussianBandit(parse_means(means), sigma)
    for name, text in (("drift", drift), ("sites", sites), ("subsets", subsets)):
        arms = arms if text is None else changed(arms, name, text)
    network = Network.from_spec(graph, weights=weights)
    policies = [parse_policy(text) for text in policy]
    setup = Setup(
        arms, network, horizon, recorded_rounds(horizon), runs, seed, keep,
        shuffle_arms=shuffle_arms, faults=parse_faults(faults), clocks=parse_clocks(clocks),
        stop=read_stop(stop), precision=precision,
    )  # fmt: skip
    check_folder(out, plan(setup, policies))
    if figures:
        load_meanwhile()
    try:
        result = play(setup, policies, engine)
    except SimulationInterrupted as stop:
        part = out / f"partial-{stop.kept}-runs"
        kept = _deliver(stop.result, part, figures) if stop.result else "nothing was written"
        raise typer.Exit(say(f"{stop}; {kept}", 130)) from None
    typer.echo(_deliver(result, out, figures))


def _problem(text: str | None, context: typer.Context) -> Problem | None:
    if text is None:
        return None
    for name in ("means", "sigma"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise InputError(
                f"--{name} and --problem were both given; give one of them, such as "
                "--problem gaussian:means=1,0.8x16,sigma=2"
            )
    return parse_problem(text)


@app.command("run")
def run_command(
    experiment: Annotated[Path, typer.Argument(help="a TOML file; see the page on sweeps")],
    out: Annotated[Path, folder("folder of the ledger, figures and reports")],
    override: Annotated[list[str] | None, typer.Option("--set", help="key=value")] = None,
    workers: Annotated[int | None, whole("local processes; one per core")] = None,
    dask: Annotated[str | None, typer.Option(help="address of a Dask scheduler")] = None,
    retry: Annotated[bool, typer.Option(help="play cells again that were set aside")] = False,
    pool_seeds: Annotated[
        bool, typer.Option("--pool-seeds", help="one row of summary.csv for all seeds together")
    ] = False,
) -> None:
    """Play an experiment file; survives crashes and interruptions, re-run to resume."""
    cells = read_experiment(experiment, override or [])
    try:
        with dask_executor(dask) if dask else nullcontext() as executor:
            done = sweep(cells, out, executor, workers=workers, retry=retry)
    except SweepInterrupted as stop:
        raise typer.Exit(say(str(stop), 130)) from None
    # Before the figures, which take longer and may fail.
    table = done.to_csv(out / "summary.csv", pool_seeds=pool_seeds) if done.results else None
    for name, result in compare(done.results).items():
        typer.echo(f"\n{name}")
        folder = out / _folder_name(name)
        typer.echo(result.summary())
        drawn = _draw(result, folder)
        result.plot_traffic(path=folder / "traffic.svg")
        typer.echo(f"written to {folder}: {drawn}, traffic.svg")
    if table:
        typer.echo(f"\nall cells in one table: {table}")
    name_failures(done)


def _folder_name(name: str) -> str:
    """Return the name of a group as a folder can have it: file systems take 255 bytes at most."""
    plain = re.sub(r"[^\w.=-]+", "-", name)
    if len(plain.encode()) <= LONGEST_NAME:
        return plain
    begin = plain.encode()[:LONGEST_NAME].decode(errors="ignore")  # no half of a character
    return f"{begin}-{sha256(name.encode(errors='backslashreplace')).hexdigest()[:8]}"


def _deliver(result: Result, out: Path, figures: bool) -> str:
    """Print and save a result; return a line that names its files."""
    try:
        result.save(out)  # first: whoever reads the summary may stop reading, as `head` does
    finally:
        typer.echo(result.summary())
    drawn = f", {_draw(result, out)}" if figures else ""
    keep, size = result.meta["settings"]["keep"], (out / DATA_FILE).stat().st_size
    shown = f"{size / 1e6:.1f} MB" if size > 1e6 else f"{size / 1e3:.0f} kB"
    kept = f" ({shown} with {keep})" if keep else ""
    look = f"; to watch it: coopbandits dashboard {out}" if keep == "watch" else ""
    return f"written to {out}: result.nc{kept}, meta.json{drawn}{look}"


def _draw(result: Result, out: Path) -> str:
    """Write figures and report; return their names."""
    figure = result.plot()
    drawn = figure_bytes(figure, "svg")
    figure.set_layout_engine("none")  # it is laid out
    write_files({out / "regret.svg": drawn, out / "regret.png": figure_bytes(figure, "png")})
    result.report(out / "report.html", drawn=drawn)
    return "regret.svg, regret.png, report.html"
