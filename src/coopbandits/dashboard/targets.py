"""Whom to ask, and who may see the token."""

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
"""Seconds in which an agent answers, or is taken for dead."""


class Target(NamedTuple):
    """Where an agent's API is."""

    place: Address | Path
    secure: bool = False

    @property
    def is_here(self) -> bool:
        """Whether it is on this machine."""
        return isinstance(self.place, Path) or self.place.is_loopback

    def __str__(self) -> str:
        """Return its address as it is typed."""
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
            raise InputError(f"{text!r} is no agent's address; leave out what follows {address}")
    return Target(parse_place(text))


def client_context(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    """Return TLS for asking agents whose API has it.

    Raises
    ------
    InputError
        A file cannot be used, or a certificate came without its key.
    """
    if (certificate is None) != (key is None):
        raise InputError("a certificate and its key go together; give both, or neither")
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        names = ", ".join(str(path) for path in (ca, certificate, key) if path is not None)
        raise InputError(
            f"{names} cannot be used: {reason_of(error)}; give files in PEM format"
        ) from error
    return context


class Doorman:
    """Makes clients, and decides which of them get the token.

    The token goes to hosts that were given by hand, to agents on this machine that one on this
    machine named, and over TLS to those that an agent named: there the certificate proves the name.

    Parameters
    ----------
    given : list of Target
        What was given by hand.
    token : str or None
        The token.
    tls : ssl.SSLContext or None
        For agents whose API has TLS.
    """

    def __init__(self, given: list[Target], token: str | None, tls: ssl.SSLContext | None) -> None:
        self.token, self.tls = token, tls
        self._hosts = {target.place.host for target in given if isinstance(target.place, Address)}

    def may_be_named(self, target: Target, by: Target) -> bool:
        """Return whether an agent may send us there: not to what is on our machine alone."""
        return by.is_here or not target.is_here

    def gets_token(self, target: Target) -> bool:
        """Return whether the token is sent there."""
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
