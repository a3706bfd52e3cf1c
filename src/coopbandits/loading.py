"""Imports of parts of the package that need libraries which may not be installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

FLEET = (
    "cli.cluster", "cli.dashboard", "cli.demo", "cli.fleet", "dashboard.watch", "demo", "fleet",
)  # fmt: skip
"""Where the modules are that real agents need, or that run them."""


FROM_SOURCE = "in a checkout: pip install . ./packages/complete"
"""A checkout's own folder has the files and requires next to nothing."""


SIMULATION = ("matplotlib", "networkx", "numba", "scipy", "xarray")
"""Libraries that simulations need and an agent does not."""


def can_simulate() -> bool:
    """Return whether all libraries of simulations are installed, without loading any of them."""
    try:
        return all(find_spec(library) is not None for library in SIMULATION)
    except ModuleNotFoundError:  # a finder may say so in this way
        return False


def part(name: str) -> Any:
    """Import a module by its name below `coopbandits`.

    Raises
    ------
    InputError
        A library that it needs is not installed; the sentence says how to install it.
    """
    try:
        return import_module(f"coopbandits.{name}")
    except ModuleNotFoundError as error:
        if str(error.name).startswith("coopbandits"):
            raise
        from coopbandits.core.errors import InputError  # imported late: everything imports this

        raise InputError(f"{error.name} is not installed; {remedy(name)}") from error


def remedy(name: str) -> str:
    """Return how to install what a module needs."""
    if name.startswith(FLEET):
        return "install what a fleet needs with: pip install 'coopbandits[fleet]'"
    return f"install what simulations need with: pip install coopbandits, or {FROM_SOURCE}"
