"""Where a socket is: a host and port, or a Unix socket's path."""

from __future__ import annotations

import re
from typing import NamedTuple

from coopbandits.core.errors import InputError

UNIX = "unix:"

PLACE = re.compile(
    rf"{UNIX}(?P<path>.+)|(?P<bare>/.+)"
    r"|(\[(?P<six>[^\[\]]*:[^\[\]]*)\]|(?P<host>[^\[\]:/]+)):(?P<port>[0-9]{1,5})"
)


class Address(NamedTuple):
    """Where to listen or connect; `path` is set for a Unix socket alone, `host` otherwise."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        """Return the text that `parse_address` reads."""
        if self.path:
            return f"{UNIX}{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read `host:port`, `[IPv6 address]:port`, `unix:path` or an absolute path of a Unix socket.

    Raises
    ------
    InputError
        It is none of these.

    Examples
    --------
    >>> parse_address("[::1]:8400")
    Address(host='::1', port=8400, path='')
    """
    found = PLACE.fullmatch(text)
    if found is None or int(found["port"] or 0) >= 2**16:
        raise InputError(
            f"cannot read the address {text!r}; write host:port with a port up to 65535, "
            "[IPv6 address]:port or unix:/path"
        )
    path = found["path"] or found["bare"]
    return (
        Address(path=path) if path else Address(found["six"] or found["host"], int(found["port"]))
    )
