"""`coopbandits graph`, `animate` and `bounds`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from coopbandits import theory
from coopbandits.cli.options import real, whole
from coopbandits.cli.screen import PAPER_MEANS, GraphOption
from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError
from coopbandits.core.policies import DDUCB
from coopbandits.core.registry import parse_policy
from coopbandits.network import GraphReport, Network, describe
from coopbandits.problems import GaussianBandit, parse_means
from coopbandits.results.statistics import columns

app = typer.Typer()

PARTS = (0.5, 0.9, 1.0)
"""Parts of the agents of which `animate` says when they know the news."""


@app.command("graph")
def graph_command(
    spec: Annotated[str, typer.Argument(help="cycle:100, grid:10x10, complete:8, …, or a file")],
    weights: Annotated[str, typer.Option(help="max-degree, metropolis, edge or auto")] = "auto",
    arms: Annotated[int, whole("number of arms K")] = 17,
    horizon: Annotated[int, whole("rounds T, for the warnings")] = 10_000,
    plot: Annotated[Path | None, typer.Option(help="draw it, too: graph.svg, .png, .pdf")] = None,
) -> None:
    """Print what a graph means for gossip: λ, gap, diameter, C, messages and values per stage."""
    network = Network.from_spec(spec, weights=weights)
    if plot is not None:
        network.plot(title=spec, path=plot)
    report = describe(network, num_arms=arms, horizon=horizon)
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


@app.command("animate")
def animate_command(
    spec: Annotated[str, typer.Argument(help="cycle:20, grid:5x6, …, or a file")],
    out: Annotated[Path, typer.Option(help="a page, news.html, or a film, news.gif")] = Path(
        "news.html"
    ),
    source: Annotated[int, whole("number of the agent that has the news")] = 0,
    aggregation: Annotated[
        list[str] | None,
        typer.Option(help="what to compare, such as pull-mixing; may be repeated"),
    ] = None,
    rounds: Annotated[int | None, whole("how long; until accelerated mixing is done")] = None,
    weights: Annotated[str, typer.Option(help="max-degree, metropolis, edge or auto")] = "auto",
) -> None:
    """Show how the news of one agent spreads: plain and accelerated mixing, a tree, a flood."""
    network = Network.from_spec(spec, weights=weights)
    shown = network.animate(source, aggregations=aggregation, rounds=rounds, path=out)
    heads = [("", *(f"{part:.0%}" for part in PARTS))]
    names = zip(shown.names, shown.informed, strict=True)
    rows = [(name, *(_when(informed, part) for part in PARTS)) for name, informed in names]
    typer.echo(f"rounds until so many of {network.num_agents} agents know it, for good\n")
    typer.echo("\n".join(line.rstrip() for line in columns(heads + rows)))
    typer.echo(f"\nwritten: {out}")


def _when(informed: NDArray[np.float64], part: float) -> str:
    """Return the round from which on a part of the agents knows it."""
    short = np.flatnonzero(informed < part)
    first = int(short[-1]) + 1 if short.size else 0
    return f"{first}" if first < len(informed) else "–"


@app.command("bounds")
def bounds_command(
    graph: GraphOption,
    policy: Annotated[
        str | None, typer.Option(help="DDUCB with its settings; as analysed unless given")
    ] = None,
    means: Annotated[str, typer.Option(help="means of Gaussian arms")] = PAPER_MEANS,
    sigma: Annotated[float, real("their standard deviation")] = 1.0,
    horizon: Annotated[int, whole("rounds T")] = 10_000,
    gamma: Annotated[float, real("γ of coop-UCB's bound")] = 2.0,
    weights: Annotated[str, typer.Option(help="max-degree, metropolis, edge or auto")] = "auto",
    changes: Annotated[
        int | None, whole("how often the best arm changes: how fast to forget then")
    ] = None,
) -> None:
    """Print the regret bounds that theory proves, and where they are vacuous."""
    if changes is not None:
        require_count("changes", changes)
    problem = GaussianBandit(parse_means(means), sigma)
    network = Network.from_spec(graph, weights=weights)
    chosen = parse_policy(policy) if policy else theory.as_analysed(DDUCB())
    rows = theory.table(problem, network, chosen, horizon, gamma=gamma)
    lines: list[tuple[str, ...]] = [("bound", "regret", "kind", "")]
    lines += [(row.name, _bound(row), row.kind, _remark(row)) for row in rows]
    typer.echo(f"{graph}, {chosen.spelling}, T = {horizon}\n")
    for line in columns(lines, left=(0, 2, 3)):
        typer.echo(line.rstrip())
    if changes is not None:
        typer.echo(f"\nhow fast to forget, if the best arm changes {changes} times\n")
        for line in columns(_memories(problem, network, horizon, changes), left=(0, 3)):
            typer.echo(line.rstrip())


def _memories(
    problem: GaussianBandit, network: Network, horizon: int, changes: int
) -> list[tuple[str, ...]]:
    """Return which discount and window suit which policies, or why none does."""
    stage = theory.stage_rounds(problem, network, DDUCB())
    lines: list[tuple[str, ...]] = [("policies", "discount", "window", "")]
    for name, agents, delay, sampling in (
        ("UCB, each agent alone", 1, 0, False),
        ("Thompson sampling, each agent alone", 1, 0, True),
        ("UCB on a tree or a flood", network.num_agents, network.diameter, False),
        ("Thompson sampling on a tree or a flood", network.num_agents, network.diameter, True),
        ("DDUCB", network.num_agents, stage, False),
    ):
        try:
            found = theory.memory(
                horizon, changes, num_agents=agents, delay=delay, sigma=problem.sigma,
                sampling=sampling,
            )  # fmt: skip
        except InputError as error:
            lines.append((name, "–", "–", str(error)))
        else:
            lines.append((name, f"{found.discount:.6g}", str(found.window), ""))
    return lines


def _bound(row: theory.BoundRow) -> str:
    return "–" if row.value is None else f"{row.value:.6g}"


def _remark(row: theory.BoundRow) -> str:
    if row.refusal is not None:
        return row.refusal
    return "vacuous at this horizon" if row.vacuous else ""
