"""The list of agents that are no longer believed: a text file with one id per line."""

from __future__ import annotations

import logging
from pathlib import Path

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.names import NODE_ID
from coopbandits.fleet.identity.tls import file_version

log = logging.getLogger(__name__)


class Revoked:
    """The ids in a file, read again whenever it changes.

    Parameters
    ----------
    path : Path or None
        The file; None where nobody is revoked.

    Raises
    ------
    InputError
        The file cannot be read, or a line is no id.
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self.names = path, frozenset[str]()
        self._seen: object = None
        if path is not None:
            self._seen = file_version(path)
            self.names = read_ids(path)

    def follow(self, path: Path | None) -> None:
        """Look at another file from the next `refresh` on; None for no file, and nobody revoked."""
        if path != self.path:
            self.path, self._seen = path, None

    def refresh(self) -> bool:
        """Read the file again if it has changed; return whether other ids are in it now.

        A file that cannot be used leaves the ids of before: nobody is believed again by accident.
        """
        before = self.names
        if self.path is None:
            self.names = frozenset()
            return self.names != before
        if file_version(self.path) == self._seen:
            return False
        self._seen = file_version(self.path)
        try:
            self.names = read_ids(self.path)
        except InputError as error:
            log.warning("going on with the revoked ids of before: %s", error)
            return False
        return self.names != before


def read_ids(path: Path) -> frozenset[str]:
    """Return the ids in a file; empty lines, and what follows a #, are left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the revoked ids in {path}: {error}") from None
    found = [line.partition("#")[0].strip() for line in lines]
    for at, name in enumerate(found, start=1):
        if name and not NODE_ID.fullmatch(name):
            raise InputError(f"line {at} of {path} is {name!r}; write one agent's id per line")
    return frozenset(filter(None, found))
