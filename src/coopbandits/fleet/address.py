"""Where a socket is: a host and port, or a Unix socket's path."""

from __future__ import annotations

from typing import NamedTuple

from coopbandits.core.errors import InputError

UNIX = "unix:"


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
    """Read `host:port`, `[IPv6 address]:port` or `unix:/path`.

    Raises
    ------
    InputError
        It is neither.

    Examples
    --------
    >>> parse_address("[::1]:8400")
    Address(host='::1', port=8400, path='')
    """
    if text.startswith(UNIX) and len(text) > len(UNIX):
        return Address(path=text[len(UNIX) :])
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 2**16) or (
        (":" in host) != bracketed
    ):
        raise InputError(
            f"cannot read the address {text!r}; write host:port with a port up to 65535, "
            "[IPv6 address]:port or unix:/path"
        )
    return Address(host, int(port))
