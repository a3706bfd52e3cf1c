"""`coopbandits doctor`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from coopbandits.cli import checkup
from coopbandits.finding import BROKEN, Finding
from coopbandits.loading import part

app = typer.Typer()

WIDTH = 23
"""Columns of the names of what is looked at."""


@app.command("doctor")
def doctor_command(
    node: Annotated[
        Path | None,
        typer.Argument(help="an agent's TOML file: look at its machine and neighbours instead"),
    ] = None,
) -> None:
    """Check this installation, or an agent's machine; say what does not work and what mends it."""
    found = checkup.findings() if node is None else part("fleet.process.checkup").findings(node)
    raise typer.Exit(int(_tell(found) > 0))


def _tell(findings: Iterable[Finding]) -> int:
    """Print all findings; return how many things are broken."""
    broken = 0
    for finding in findings:
        broken += finding.state == BROKEN
        typer.echo(f"{finding.what:{WIDTH}}  {finding.state:6}  {_plain(finding.found)}")
        if finding.mend:
            typer.echo(f"{'':{WIDTH}}  {'':6}  mend: {_plain(finding.mend)}")
    all_well = "all that is needed works"
    typer.echo(f"\n{broken} broken; mend the first one first" if broken else f"\n{all_well}")
    return broken


def _plain(text: str) -> str:
    """Leave out what the terminal cannot print: a doctor must not fail at that."""
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)
