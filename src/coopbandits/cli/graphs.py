"""`coopbandits graph` and `coopbandits bounds`."""

from __future__ import annotations

from typing import Annotated

import typer

from coopbandits import theory
from coopbandits.cli.options import real, whole
from coopbandits.cli.screen import PAPER_MEANS, GraphOption
from coopbandits.core.policies import DDUCB
from coopbandits.core.registry import parse_policy
from coopbandits.network import GraphReport, Network, describe
from coopbandits.problems import GaussianBandit, parse_means
from coopbandits.results.statistics import columns

app = typer.Typer()


@app.command("graph")
def graph_command(
    spec: Annotated[str, typer.Argument(help="cycle:100, grid:10x10, complete:8, …, or a file")],
    weights: Annotated[str, typer.Option(help="max-degree, metropolis, edge or auto")] = "auto",
    arms: Annotated[int, whole("number of arms K")] = 17,
    horizon: Annotated[int, whole("rounds T, for the warnings")] = 10_000,
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
) -> None:
    """Print the regret bounds that theory proves, and where they are vacuous."""
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
