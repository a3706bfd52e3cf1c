"""`coopbandits dashboard`: the page over a stored simulation or a running fleet."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from contextlib import suppress
from functools import partial
from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated, NamedTuple

import typer

from coopbandits.cli.options import file, whole
from coopbandits.core.errors import InputError
from coopbandits.dashboard.serving import Shown, serve
from coopbandits.loading import part

app = typer.Typer()


@app.command("dashboard")
def dashboard_command(
    what: Annotated[
        list[str],
        typer.Argument(
            help="a folder that `simulate --keep watch --out` has written; or agents of a fleet: "
            "http://host:port, https://…, unix:path; one is enough if the others can be reached"
        ),
    ],
    token_file: Annotated[Path | None, file("the token of the agents' APIs")] = None,
    ca: Annotated[Path | None, file("who has signed the certificates of their APIs")] = None,
    certificate: Annotated[Path | None, file("certificate to show them")] = None,
    key: Annotated[Path | None, file("its key")] = None,
    port: Annotated[int, whole("port of the page on this machine; 0 for a free one")] = 0,
    browser: Annotated[bool, typer.Option(help="open the page in a browser")] = True,
) -> None:
    """Show a running fleet or a stored simulation in a browser: who prefers what, and how sure."""
    files = Files(token_file, ca, certificate, key)
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(_site(what, files), port, partial(tell_address, browser=browser)))


def tell_address(address: str, *, browser: bool = True) -> None:
    """Print the page's address, and open it where there is a display."""
    typer.echo(f"the page is at {address} (Ctrl-C ends it)")
    if browser and _has_display():
        webbrowser.open(address)


class Files(NamedTuple):
    """What opens the APIs of a fleet."""

    token: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


def _site(what: list[str], files: Files) -> Shown:
    """Return what is served: here is where a source is made of what was given."""
    if not any(Path(each).is_dir() for each in what):
        return _fleet(what, files)
    if len(what) > 1 or files != Files():
        raise InputError("a stored simulation is one folder, and needs no token or certificate")
    run = part("dashboard.stored").StoredRun.load(Path(what[0]))
    site: Shown = part("dashboard.stored").StoredSite(run)
    return site


def _fleet(addresses: list[str], files: Files) -> Shown:
    for address in addresses:
        if ":" not in address:
            raise InputError(
                f"{address!r} is neither a folder nor the address of an agent; give a folder that "
                "coopbandits simulate … --keep watch --out FOLDER has written, or http://host:port"
            )
    watch, targets = part("dashboard.watch"), part("dashboard.targets")
    token = part("fleet.identity.files").read_token(files.token) if files.token else None
    tls = targets.client_context(*files[1:]) if any(files[1:]) else None
    # Who may read the agents with a token is to be asked for one here, too: another one, so that
    # theirs never leaves this process.
    site: Shown = watch.FleetSite(
        watch.Watch(addresses, token, tls), token_urlsafe(24) if token else None
    )
    return site


def _has_display() -> bool:
    return sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
