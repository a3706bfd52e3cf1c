"""The command line: argument parsing only.

A command's module is imported when the command is called, so that an agent's process loads nothing
that only simulations need, and `coopbandits --help` loads nothing at all.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from coopbandits.cli.screen import say
from coopbandits.core.errors import InputError

COMMANDS = {
    "reproduce": (
        "paper",
        "Play the paper's figures, judge its claims, write a report; re-run to resume.",
    ),
    "graph": (
        "graphs",
        "Print what a graph means for gossip: λ, gap, diameter, C, messages and values per stage.",
    ),
    "simulate": (
        "simulations",
        "Simulate policies on the same tapes; print the table, write result, figure and report.",
    ),
    "run": (
        "simulations",
        "Play an experiment file; survives crashes and interruptions, re-run to resume.",
    ),
    "leaderboard": (
        "suites",
        "Score every policy in every scenario of the suite; re-run to resume.",
    ),
    "bounds": (
        "graphs",
        "Print the regret bounds that theory proves, and where they are vacuous.",
    ),
    "bench": (
        "suites",
        "Time an agent-round: simulated, in units of one random draw, and of real agents.",
    ),
    "gallery": (
        "suites",
        "Play one of the further experiments, re-run to resume; without a name, list them.",
    ),
    "agent": (
        "fleet",
        "Run one agent beside an application; with --check, explain its configuration.",
    ),
    "fleet": (
        "fleet",
        "Run a local fleet of real agents, inject faults, and prove that no reward is lost.",
    ),
    "torture": (
        "torture",
        "Torture a virtual fleet, and check its promises after every event.",
    ),
    "certs": (
        "fleet",
        "Make the certificates by which agents recognise each other.",
    ),
}
"""Name → module and help text; the text is repeated so that --help imports no module."""


def load(name: str) -> Any:
    """Import a command."""
    module = import_module(f"coopbandits.cli.{COMMANDS[name][0]}")
    return get_group(module.app).commands[name]


class LazyGroup(TyperGroup):
    """Lists commands without importing them; a command is imported when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command named by the first argument."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(str(name)), rest


app = typer.Typer(
    cls=LazyGroup,
    help="Decentralised cooperative bandits: simulate, compare, reproduce.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def commands() -> None:
    """Decentralised cooperative bandits: simulate, compare, reproduce."""


for _name, (_, _help) in COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)


def _see_current_folder() -> None:
    """Let `my_module:MyPolicy` be found there; last in the path, so that it hides no library."""
    with suppress(FileNotFoundError):  # the folder may be gone
        if not sys.flags.safe_path and str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))


def main() -> None:
    """Run the command line; bad input is a sentence, or one per line, and exit status 2."""
    _see_current_folder()
    try:
        app()
    except InputError as error:
        sys.exit(say("\n".join(f"error: {line}" for line in str(error).splitlines()), 2))
