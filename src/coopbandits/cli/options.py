"""Options that are numbers or folders: ``1e4`` is a whole number, and a bad value one sentence."""

from __future__ import annotations

import math
import os
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import typer

LONGEST = 300
"""Digits up to which a power of ten is written out."""


class BadValueError(typer.BadParameter):
    """A text that an option cannot be; the group of commands says so with the option's name."""


def whole(explanation: str) -> Any:
    """Return an option that is a whole number."""
    return typer.Option(help=explanation, parser=read_whole, metavar="INTEGER")


def real(explanation: str) -> Any:
    """Return an option that is a finite number."""
    return typer.Option(help=explanation, parser=read_real, metavar="NUMBER")


def folder(explanation: str) -> Any:
    """Return an option that is a folder to write to, which need not exist yet."""
    return typer.Option(help=explanation, parser=read_folder, metavar="FOLDER")


def file(explanation: str) -> Any:
    """Return an option that is a file to read."""
    return typer.Option(help=explanation, metavar="FILE")


def read_folder(text: str | Path) -> Path:
    """Refuse where nothing can be written: hours may pass before something is."""
    path = Path(text)
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise BadValueError(f"is {str(text)!r}, but {place} is a file; give a folder")
            if not os.access(place, os.W_OK | os.X_OK):
                raise BadValueError(
                    f"is {str(text)!r}, but nothing may be written in {place.absolute()}; give "
                    "another folder, or change its rights"
                )
            break
    return path


def read_whole(text: str | int) -> int:
    """Read ``500``, ``10_000`` or ``1e4``."""
    try:
        return int(text)  # a default is a number already
    except ValueError:
        pass
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if number.is_finite() and number.adjusted() < LONGEST and number == (exact := int(number)):
        return exact
    raise BadValueError(f"is {text!r}; it must be a whole number, such as 500 or 1e4")


def read_real(text: str | float) -> float:
    """Read ``0.5``, ``2`` or ``1e-3``."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    raise BadValueError(f"is {text!r}; it must be a finite number, such as 0.5 or 1e-3")
