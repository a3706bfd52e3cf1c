"""Addresses of sockets: host and port, or the path of a Unix socket."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

from coopbandits.core.errors import InputError

UNIX = "unix:"

LONGEST_ADDRESS = 259
"""Characters of the longest `host:port`: a DNS name has up to 253, in brackets an address fewer."""

PLACE = re.compile(r"(\[(?P<six>[^\[\]]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})")

SERVICE = re.compile(r"_[A-Za-z0-9-]{1,15}\._tcp(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+")


class Address(NamedTuple):
    """A host and port, or the name of a service whose SRV records give both, without a port.

    Port 0 lets the system choose one to listen on.
    """

    host: str
    port: int

    def __str__(self) -> str:
        if self.is_service:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_service(self) -> bool:
        return self.host.startswith("_")

    @property
    def is_loopback(self) -> bool:
        """Whether only the same machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(text: str) -> Address:
    """Read `host:port` or `[IPv6 address]:port`.

    Raises
    ------
    InputError
        The text is neither.

    Examples
    --------
    >>> parse_address("[::1]:8400")
    Address(host='::1', port=8400)
    """
    found = PLACE.fullmatch(text)
    if found is None or int(found["port"]) >= 2**16 or not _is_host(found["host"], found["six"]):
        raise InputError(
            f"cannot read the address {text!r}; write host:port with a port up to 65535, "
            f"[IPv6 address]:port or, for an API, {UNIX}/path"
        )
    return Address(found["host"] or found["six"], int(found["port"]))


def _is_host(name: str | None, six: str | None) -> bool:
    if name is not None:
        labels_fit = all(0 < len(label) < 64 for label in name.split("."))  # as DNS has them
        return labels_fit and name[0].isalnum() and name[-1].isalnum()
    try:
        IPv6Address(six or "")
    except ValueError:
        return False
    return True


def parse_place(text: str) -> Address | Path:
    """Read what `parse_address` does, or the path of a Unix socket as `unix:path`."""
    path = text.removeprefix(UNIX)
    return Path(path) if path and path != text else parse_address(text)


def show_place(place: Address | Path) -> str:
    """Return the text that `parse_place` reads."""
    return f"{UNIX}{place}" if isinstance(place, Path) else str(place)
