"""`coopbandits demo`: a small real system, from start to figure in a minute or two."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from coopbandits.cli.options import folder
from coopbandits.cli.screen import say
from coopbandits.loading import part

app = typer.Typer()


@app.command("demo")
def demo_command(
    seconds: Annotated[str, typer.Option(help="how long: 60s, 1.5min, …")] = "60s",
    out: Annotated[Path, folder("folder for the figure and all measurements")] = Path("out/demo"),
    browser: Annotated[bool, typer.Option(help="open the page in a browser")] = True,
) -> None:
    """Let six real agents learn how to compress files; kill one, change the files, draw it."""
    duration = part("fleet.local.settings").parse_seconds(seconds)
    play, report = part("demo.play"), part("demo.story")
    try:
        outcome = play.play(duration, _tell, _page(browser))
    except part("fleet.local.agents").FleetError as error:
        raise typer.Exit(say(str(error), 1)) from None
    except KeyboardInterrupt:
        raise typer.Exit(say("interrupted: all agents were stopped", 130)) from None
    _tell("\n".join(["", *outcome.sentences]))  # first: a full disk must not hide it
    for path in report.write_report(outcome.story, out):
        _tell(f"written: {path}")
    raise typer.Exit(130 if outcome.interrupted else int(not outcome.holds))


def _page(browser: bool) -> Any:
    """Return what shows the agents beside them."""
    told = partial(part("cli.dashboard").tell_address, browser=browser)
    return partial(part("dashboard.watch").shown_beside, told)


def _tell(text: str) -> None:
    typer.echo(text)
    sys.stdout.flush()  # a pipe would hold lines back until the end
