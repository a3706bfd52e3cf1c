"""`coopbandits models`: the other models of the literature, listed and played."""

from __future__ import annotations

from typing import Annotated

import typer

from coopbandits.cli.lists import lines_of
from coopbandits.cli.options import whole
from coopbandits.literature.models import MODELS, Played, parse_model
from coopbandits.problems import parse_means
from coopbandits.results.statistics import columns

app = typer.Typer()


@app.command("models")
def models_command(
    name: Annotated[
        str | None,
        typer.Argument(help="mc-top-m, pull-or-tell:eagerness=3, …; a list unless given"),
    ] = None,
    means: Annotated[str, typer.Option(help="chances of the arms to pay 1")] = "0.9,0.8,0.5,0.3",
    agents: Annotated[int, whole("agents, or players")] = 2,
    horizon: Annotated[int, whole("rounds T")] = 1000,
    runs: Annotated[int, whole("independent repetitions")] = 5,
    seed: Annotated[int, whole("seed of all of them")] = 0,
) -> None:
    """Play one of the literature's other models; without a name, list them."""
    if name is None:
        shown: list[tuple[str, ...]] = [(form, about) for form, _, about in lines_of(MODELS)]
        typer.echo("\n".join(line.rstrip() for line in columns(shown, left=(0, 1))))
        return
    model = parse_model(name)
    found: list[tuple[str, ...]] = [
        *model.play(Played(parse_means(means), agents, horizon, runs, seed))
    ]
    typer.echo("\n".join([model.spelling, "", *columns(found, left=(0,))]))
