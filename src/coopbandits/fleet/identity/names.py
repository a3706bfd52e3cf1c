"""Agents' ids: names for people and certificates, numbers for messages, and the revoked ones."""

from __future__ import annotations

import logging
import re
from hashlib import blake2b
from pathlib import Path

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.files import file_version
from coopbandits.fleet.logs import LogEvent

log = logging.getLogger(__name__)

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""One label of a DNS name, in lower case."""

MAX_ID = 253
"""The longest id, in characters, as of a DNS name."""

NODE_ID = re.compile(rf"(?=.{{1,{MAX_ID}}}\Z){LABEL.pattern}(\.{LABEL.pattern})*")
"""An agent's id, a DNS name in lower case: it is one of the names in the agent's certificate."""

ID_RULE = (
    f"a DNS name of up to {MAX_ID} characters in lower case, such as 'shop-1' or "
    "'shop-1.example.org'"
)


def agent_number(name: str) -> int:
    """Return the number of an id: 48 bits, so that it is exact in a float."""
    return int.from_bytes(blake2b(name.encode(), digest_size=6).digest(), "big")


class Revoked:
    """Ids of agents that are no longer trusted, in a file that is read again when it changes.

    Parameters
    ----------
    path : Path or None
        A text file with one id per line; None for an empty list.

    Raises
    ------
    InputError
        The file cannot be read, or a line is not an id.
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self.names = path, frozenset[str]()
        self._seen: object = None
        if path is not None:
            self._seen = file_version(path)
            self.names = read_revoked(path)

    def follow(self, path: Path | None) -> None:
        """Use another file from the next `refresh` on; None for an empty list."""
        if path != self.path:
            self.path, self._seen = path, None

    def refresh(self) -> bool:
        """Read the file again if it has changed; return whether the ids have changed.

        If the file cannot be used, the previous ids stay: an agent must not regain trust because a
        file is missing or half-written.
        """
        before = self.names
        if self.path is None:
            self.names = frozenset()
            return self.names != before
        if file_version(self.path) == self._seen:
            return False
        self._seen = file_version(self.path)
        try:
            self.names = read_revoked(self.path)
        except InputError as error:
            log.warning(LogEvent("keeping the previous revoked ids", reason=error))
            return False
        if self.names == before:
            return False
        log.info(
            LogEvent(
                "revoked ids reloaded",
                file=str(self.path),
                added=sorted(self.names - before) or None,
                removed=sorted(before - self.names) or None,
            )
        )
        return True


def read_revoked(path: Path) -> frozenset[str]:
    """Return the ids in a file; empty lines, and what follows a #, are ignored."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read the revoked ids in {path}: {error}; give a text file with one id per line"
        ) from None
    found = [line.partition("#")[0].strip() for line in lines]
    for at, name in enumerate(found, start=1):
        if name and not NODE_ID.fullmatch(name):
            raise InputError(f"line {at} of {path} is {name!r}; write one agent's id per line")
    return frozenset(filter(None, found))
