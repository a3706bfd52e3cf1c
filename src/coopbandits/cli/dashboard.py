"""`coopbandits dashboard`: the page over a stored simulation or a running fleet."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coopbandits.cli.options import whole
from coopbandits.core.errors import InputError
from coopbandits.dashboard.server import StoredSite, serve
from coopbandits.dashboard.stored import StoredRun

if TYPE_CHECKING:
    from coopbandits.fleet.api.pages import PageSite

app = typer.Typer()


@app.command("dashboard")
def dashboard_command(
    what: Annotated[
        list[str], typer.Argument(help="a folder that `simulate --keep watch --out` has written")
    ],
    port: Annotated[int, whole("port of the page on this machine; 0 for a free one")] = 0,
    browser: Annotated[bool, typer.Option(help="open the page in a browser")] = True,
) -> None:
    """Show a stored simulation in a browser: who prefers what, round by round."""

    def told(address: str) -> None:
        typer.echo(f"the page is at {address} (Ctrl-C ends it)")
        if browser and _has_display():
            webbrowser.open(address)

    with suppress(KeyboardInterrupt):
        asyncio.run(serve(_site(what), port, told))


def _site(what: list[str]) -> PageSite:
    """Return what is served: here is where a source is made of what was given."""
    if len(what) == 1 and Path(what[0]).is_dir():
        return StoredSite(StoredRun.load(Path(what[0])))
    raise InputError(
        f"{what[0]!r} is no folder; give one that coopbandits simulate … --keep watch --out FOLDER "
        "has written"
    )


def _has_display() -> bool:
    return sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
