"""`coopbandits doctor`."""

from __future__ import annotations

import sys

import typer

from coopbandits.cli import checkup

app = typer.Typer()

WIDTH = 23
"""Columns of the names of what is looked at."""


@app.command("doctor")
def doctor_command() -> None:
    """Check versions, extras, devices and caches; say what does not work and what mends it."""
    broken = 0
    for finding in checkup.findings():
        broken += finding.state == checkup.BROKEN
        typer.echo(f"{finding.what:{WIDTH}}  {finding.state:6}  {_plain(finding.found)}")
        if finding.mend:
            typer.echo(f"{'':{WIDTH}}  {'':6}  mend: {finding.mend}")
    all_well = "all that is needed works"
    typer.echo(f"\n{broken} broken; mend the first one first" if broken else f"\n{all_well}")
    raise typer.Exit(int(broken > 0))


def _plain(text: str) -> str:
    """Leave out what the terminal cannot print: a doctor must not fail at that."""
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)
