"""The command line: argument parsing only.

A command's module is imported when the command is called, so that an agent's process loads nothing
that only simulations need, and `coopbandits --help` loads nothing at all.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from coopbandits.cli.options import BadValueError
from coopbandits.cli.screen import say
from coopbandits.loading import can_simulate, part, remedy
from coopbandits.version import __version__

PRINTING = ("typer", "click", "rich")
"""The libraries that write to standard output."""

SIMULATING = {
    "animate", "bounds", "clocks", "demo", "evaluate", "faults", "gallery", "graph", "graphs",
    "leaderboard", "models", "reproduce", "run", "simulate",
}  # fmt: skip
"""Commands that an installation for agents alone lacks libraries for."""

LISTED = ("policies", "aggregations", "indices", "problems", "graphs", "faults", "clocks")

COMMANDS = {
    "reproduce": (
        "paper",
        "Play the paper's figures, judge its claims, write a report; re-run to resume.",
    ),
    "graph": (
        "graphs",
        "Print what a graph means for gossip: λ, gap, diameter, C, messages and values per stage.",
    ),
    "animate": (
        "graphs",
        "Show how the news of one agent spreads: plain and accelerated mixing, a tree, a flood.",
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
    "evaluate": (
        "evaluate",
        "Estimate from a log of decisions what other policies would be paid.",
    ),
    "bounds": (
        "graphs",
        "Print the regret bounds that theory proves, and where they are vacuous.",
    ),
    "gallery": (
        "suites",
        "Play one of the further experiments, re-run to resume; without a name, list them.",
    ),
    "models": (
        "models",
        "Play one of the literature's other models; without a name, list them.",
    ),
    "agent": (
        "fleet",
        "Run one agent beside an application; with --check, explain its configuration.",
    ),
    "fleet": (
        "fleet",
        "Back up, restore, drain and export agents; or run a local fleet of them, with faults.",
    ),
    "demo": (
        "demo",
        "Let six real agents learn how to compress files; kill one, change the files, draw it.",
    ),
    "dashboard": (
        "dashboard",
        "Show a running fleet or a stored simulation in a browser: who prefers what, and how sure.",
    ),
    "certs": (
        "fleet",
        "Make the certificates by which agents recognise each other.",
    ),
    "cluster": (
        "cluster",
        "Sign the document by which a running fleet is changed, and hand it over.",
    ),
    **{kind: ("lists", f"List all {kind} that can be named, one line each.") for kind in LISTED},
    "doctor": (
        "doctor",
        "Check this installation, or an agent's machine; say what does not work and what mends it.",
    ),
}
"""Name → module and help text; the text is repeated so that --help imports no module."""


def load(name: str) -> Any:
    """Import a command."""
    module = part(f"cli.{COMMANDS[name][0]}")
    return get_group(module.app).commands[name]


class LazyGroup(TyperGroup):
    """Lists commands without importing them; a command is imported when it is called."""

    def invoke(self, ctx: Any) -> Any:
        """Call the command; a bad value is bad input like any other."""
        try:
            return super().invoke(ctx)
        except BadValueError as error:
            option = error.param.opts[-1] if error.param else "an option"
            sys.exit(say(f"error: {option} {error.message}", 2))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands that work here; the others say what to install."""
        names = super().list_commands(ctx)
        return names if can_simulate() else [name for name in names if name not in SIMULATING]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, and what to install for further commands."""
        if not can_simulate():
            self.epilog = f"For further commands, {remedy('cli.simulations')}"
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command named by the first argument."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(str(name)), rest


app = typer.Typer(
    cls=LazyGroup,
    help="Decentralised cooperative bandits: simulate, compare, reproduce.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"coopbandits {__version__}")
        raise typer.Exit


@app.callback()
def commands(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_tell_version, is_eager=True),
    ] = False,
) -> None:
    """Decentralised cooperative bandits: simulate, compare, reproduce."""
    del show_version  # the callback has told it


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
    except ValueError as error:
        from coopbandits.core.errors import InputError  # imported late: it needs numpy

        if not isinstance(error, InputError):
            raise
        sys.exit(say("\n".join(f"error: {line}" for line in str(error).splitlines()), 2))
    except OSError as error:  # a closed pipe and Ctrl-C have been dealt with
        sys.exit(say(f"error: {_sentence(error)}", 2))


def _sentence(error: OSError) -> str:
    """Say what the system refused, and what to do."""
    why = error.strerror or str(error) or type(error).__name__
    if _cannot_flush() or _came_from_printing(error):
        return (
            f"standard output cannot be written: {why}; send it elsewhere, and see what was done "
            "before you run this again"
        )
    if error.filename is None:
        return f"the system refused something: {why}; mend that, and run this again"
    return (
        f"cannot read or write {os.fsdecode(error.filename)}: {why}; let this user do so, make "
        "room there, or name another place"
    )


def _came_from_printing(error: OSError) -> bool:
    """Return whether a library that prints met it: without a buffer, nothing waits after that."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return error.filename is None and module.partition(".")[0] in PRINTING


def _cannot_flush() -> bool:
    """Return whether standard output takes nothing; if so, forget what waits to be printed."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        # Python tries again at the end, and would complain with a traceback.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False
