"""Who may call, by the host that they call and the web page that they come from.

A browser sends requests wherever a web page tells it to, to this machine too. It names the page in
`Origin`, and in `Host` the name that it was given. A page whose own name was made to point here
(DNS rebinding) is told by that name: an agent answers to its own names only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from coopbandits.fleet.address import Address
from coopbandits.fleet.api.messages import Answer, refused
from coopbandits.fleet.config import ApiLimits

HOST = re.compile(
    r"(\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(:[0-9]{0,5})?", re.ASCII
)

PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, HEAD, POST"),
    (b"access-control-allow-headers", b"authorization, content-type"),
)

SCHEMES = (b"http", b"https")

Headers = Sequence[tuple[bytes, bytes]]


class Callers:
    """Decides who is answered.

    Parameters
    ----------
    place : Address, Path or None
        Where the agent listens; None for this machine alone.
    limits : ApiLimits
        Further hosts and origins.
    any_host : bool
        Whether hosts need no check: TLS has proved the name, and no browser reaches a Unix socket.
    """

    def __init__(
        self,
        place: Address | Path | None = None,
        limits: ApiLimits | None = None,
        *,
        any_host: bool = False,
    ) -> None:
        limits = limits or ApiLimits()
        own = [place.host] if isinstance(place, Address) else []
        named = [_normal(host) for host in (*own, *limits.hosts)]
        self.hosts = frozenset(named)
        self.any_host = any_host or isinstance(place, Path)
        self.any_address = any(not isinstance(h, str) and h.is_unspecified for h in named)
        self.origins = frozenset(origin.encode() for origin in limits.origins)
        self._known: set[bytes] = set()

    def is_usual(self, headers: Headers, fields: Mapping[bytes, bytes]) -> bool:
        """Return whether it is clear that the caller is answered, as almost always."""
        return (
            fields.get(b"host") in self._known
            and b"origin" not in fields
            and len(fields) == len(headers)  # so there is one Host
        )

    def refuse(self, headers: Headers, http_version: str) -> Answer | None:
        """Return an error for a caller that is not answered."""
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 and (hosts or http_version != "1.0"):
            return refused(400, f"the request has {len(hosts)} headers Host; send one")
        if hosts and not self._answers_to(hosts[0]):
            return refused(
                421,
                f"this agent is not called {_shown(hosts[0])}; use its address, or list the name "
                "under hosts in [api_limits]",
            )
        origin = _one(headers, b"origin")
        if origin is not None and origin.lower() not in (self.origins | _own_origins(hosts)):
            return refused(
                403,
                f"web pages of {_shown(origin)} may not ask this agent; list the origin under "
                "origins in [api_limits] to allow it",
            )
        return None

    def grants(self, headers: Headers) -> tuple[tuple[bytes, bytes], ...]:
        """Return what tells a browser that an allowed page may read the answer."""
        origin = _one(headers, b"origin") if self.origins else None
        if origin is None:
            return ()
        return (b"access-control-allow-origin", origin), (b"vary", b"origin")

    def _answers_to(self, host: bytes) -> bool:
        if not self.any_host:
            found = HOST.fullmatch(host.decode("latin-1"))
            if found is None or not self._is_own(_normal(found["six"] or found["name"])):
                return False
        if len(self._known) < 100:
            self._known.add(host)
        return True

    def _is_own(self, host: str | IPv4Address | IPv6Address) -> bool:
        if host in self.hosts:
            return True
        if isinstance(host, str):
            return host == "localhost" or host.endswith(".localhost")
        return self.any_address or host.is_loopback


def _normal(host: str) -> str | IPv4Address | IPv6Address:
    try:
        return ip_address(host)
    except ValueError:
        return host.lower().removesuffix(".")


def _own_origins(hosts: Sequence[bytes]) -> frozenset[bytes]:
    """Return the origins of pages served here; browsers name theirs when they load a module."""
    return frozenset(b"%s://%s" % (scheme, h.lower()) for h in hosts for scheme in SCHEMES)


def _one(headers: Headers, name: bytes) -> bytes | None:
    """Return a header's value; several become one that is in no list."""
    found = [value for key, value in headers if key == name]
    return b", ".join(found) if found else None


def _shown(value: bytes) -> str:
    return repr(value[:100].decode("latin-1"))
