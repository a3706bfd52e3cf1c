"""A missing library is one sentence with the command that installs it."""

from __future__ import annotations

from coopbandits.core.errors import InputError


def not_installed(error: ImportError, extra: str) -> InputError:
    """Return what to say of a library that could not be imported, and of the extra it is in."""
    library = str(error.name).partition(".")[0]
    return InputError(
        f"{library} is not installed; install it with: pip install 'coopbandits[{extra}]'"
    )
