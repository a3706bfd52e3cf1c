"""Addresses of agents' APIs, and the rule for which of them get the token."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, parse_place, show_place
from coopbandits.fleet.client import AsyncClient
from coopbandits.fleet.identity.tls import reason_of

SCHEMES = {"http://": False, "https://": True}
PAGES = ("", "/", "/ui", "/ui/")

PATIENCE = 1.0
"""Timeout of a request, in seconds."""


class Target(NamedTuple):
    """The address of an agent's API."""

    place: Address | Path
    secure: bool = False

    @property
    def is_here(self) -> bool:
        """Whether it is on this machine."""
        return isinstance(self.place, Path) or self.place.is_loopback

    def __str__(self) -> str:
        """Return the address as users type it."""
        return f"{'https://' if self.secure else ''}{show_place(self.place)}"


def parse_target(text: str) -> Target:
    """Read an agent's address: `http://host:port`, `https://host:port`, `host:port` or `unix:path`.

    Raises
    ------
    InputError
        It is none of them.

    Examples
    --------
    >>> parse_target("http://127.0.0.1:8400/ui/")
    Target(place=Address(host='127.0.0.1', port=8400), secure=False)
    """
    for scheme, secure in SCHEMES.items():
        if text.startswith(scheme):
            address, slash, path = text.removeprefix(scheme).partition("/")
            if slash + path in PAGES:
                return Target(parse_place(address), secure)
            raise InputError(
                f"{text!r} is not the address of an agent; leave out what follows {address}"
            )
    return Target(parse_place(text))


def client_context(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    """Return the TLS context for agents whose API uses TLS.

    Raises
    ------
    InputError
        A file cannot be used, or a certificate came without its key.
    """
    if (certificate is None) != (key is None):
        raise InputError("a certificate and its key belong together; give both, or neither")
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        names = ", ".join(str(path) for path in (ca, certificate, key) if path is not None)
        raise InputError(
            f"cannot use {names}: {reason_of(error)}; give files in PEM format"
        ) from error
    return context


class Doorman:
    """Makes clients, and decides which of them get the token.

    Addresses come from the user or from agents, which may lie. The token is sent to hosts that the
    user gave, to this machine, and over TLS, where the certificate proves the name. A remote agent
    cannot name addresses on this machine: requests to them would come from a trusted place.

    Parameters
    ----------
    given : list of Target
        Addresses given by the user.
    token : str or None
        The token.
    tls : ssl.SSLContext or None
        For agents whose API uses TLS.
    """

    def __init__(self, given: list[Target], token: str | None, tls: ssl.SSLContext | None) -> None:
        self.token, self.tls = token, tls
        self._hosts = {target.place.host for target in given if isinstance(target.place, Address)}

    def may_be_named(self, target: Target, by: Target) -> bool:
        """Return whether the agent at `by` may name this address."""
        return by.is_here or not target.is_here

    def gets_token(self, target: Target) -> bool:
        if isinstance(target.place, Path) or target.is_here or target.secure:
            return True
        return target.place.host in self._hosts

    def client(self, target: Target) -> AsyncClient:
        """Return a client with one connection."""
        token = self.token if self.gets_token(target) else None
        if target.secure and self.tls is None:
            self.tls = client_context(None, None, None)
        tls = self.tls if target.secure else None
        return AsyncClient(show_place(target.place), token, PATIENCE, tls, connections=1)
