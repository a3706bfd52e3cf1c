"""Imports that need the extra ``[fleet]``: a missing library is one sentence with the command."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from coopbandits.core.errors import InputError


def part(name: str) -> Any:
    """Import a module of the package that needs the extra, by its name below `coopbandits`.

    Raises
    ------
    InputError
        A library of the extra is not installed.
    """
    try:
        return import_module(f"coopbandits.{name}")
    except ModuleNotFoundError as error:
        if str(error.name).startswith("coopbandits"):
            raise
        raise InputError(
            f"{error.name} is not installed; install what a fleet needs with: "
            "pip install 'coopbandits[fleet]'"
        ) from error
