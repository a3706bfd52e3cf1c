"""Mutual TLS 1.3: the one DNS name in a certificate is the agent's id."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from coopbandits.core.errors import InputError

log = logging.getLogger(__name__)

ALPN = "coopbandits/1"
"""The protocol both ends must offer; the number changes when links start differently."""


class Contexts(NamedTuple):
    """TLS for the listening and the dialling end, from the same files."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class Credentials:
    """One agent's certificate, key and trusted authority; the files may be replaced at any time.

    Parameters
    ----------
    node : str
        The agent's id.
    ca, certificate, key : Path
        Files in PEM format.

    Attributes
    ----------
    tell : callable
        Called with kind and text of what happens to the files.
    loopback_only : bool
        Whether they prove nothing, and so are good on this machine's loopback addresses alone.

    Raises
    ------
    InputError
        A file cannot be used, or neighbours would not accept the certificate: it is signed by
        another authority, expired, or in another name.
    """

    loopback_only = False

    def __init__(self, node: str, ca: Path, certificate: Path, key: Path) -> None:
        self.node, self.ca, self.certificate, self.key = node, ca, certificate, key
        self.tell: Callable[[str, str], None] = lambda _kind, _text: None
        self._seen = self._versions()
        self._contexts, self.expires = self._load()

    def contexts(self) -> Contexts:
        """Return contexts for the current files.

        If these cannot be used, perhaps because only one has been replaced so far, the previous
        contexts are returned.
        """
        versions = self._versions()
        if versions != self._seen:
            self._seen = versions
            try:
                self._contexts, self.expires = self._load()
                log.info("certificate read anew from %s", self.certificate)
                self.tell("certificate", f"certificate read anew from {self.certificate}")
            except InputError as error:
                log.warning("going on with the certificate of before: %s", error)
                self.tell("certificate", f"going on with the certificate of before: {error}")
        return self._contexts

    def _versions(self) -> list[tuple[int, int, int] | None]:
        return [file_version(path) for path in (self.ca, self.certificate, self.key)]

    def _load(self) -> tuple[Contexts, float]:
        contexts = Contexts(
            self._context(ssl.PROTOCOL_TLS_SERVER), self._context(ssl.PROTOCOL_TLS_CLIENT)
        )
        found = self._handshake_with_self(contexts)
        name = peer_name(found)
        if name != self.node:
            raise InputError(
                f"the certificate {self.certificate} is in the name of {name or 'nobody'}, but "
                f"this agent is {self.node}; issue one with `coopbandits certs issue {self.node}`"
            )
        return contexts, ssl.cert_time_to_seconds(str(found["notAfter"]))

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # names are ids, not hosts; `peer_name` is checked instead
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_alpn_protocols([ALPN])
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0  # no resumption: every connection proves its identity
        try:
            context.load_verify_locations(self.ca)
        except OSError as error:
            raise _unusable("authority", self.ca, error) from None
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            pair = f"{self.certificate} with the key {self.key}"
            raise _unusable("certificate", pair, error) from None
        return context

    def _handshake_with_self(self, contexts: Contexts) -> dict[str, Any]:
        """Return the certificate as a neighbour sees it, which proves that one would accept it."""
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = contexts.client.wrap_bio(back, there)
        server = contexts.server.wrap_bio(there, back, server_side=True)
        try:
            for end in (client, server, client, server):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        except ssl.SSLError as error:
            raise InputError(
                f"the certificate {self.certificate} does not hold against the authority "
                f"{self.ca}: {reason_of(error)}; renew it with `coopbandits certs renew`"
            ) from None
        return server.getpeercert() or {}


def peer_name(certificate: dict[str, Any] | None) -> str | None:
    """Return the one DNS name of a verified certificate; None unless there is exactly one."""
    names = [
        value for kind, value in (certificate or {}).get("subjectAltName", ()) if kind == "DNS"
    ]
    return names[0] if len(names) == 1 else None


def file_version(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file is replaced or written; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody is there to ask for a password")


def _unusable(what: str, where: object, error: OSError | ValueError) -> InputError:
    return InputError(f"cannot use the {what} {where}: {reason_of(error)}")


def reason_of(error: OSError | ValueError) -> str:
    """Return what went wrong with a connection or a file, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLWantWriteError):
        return "the connection broke"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not in PEM format").lower().replace("_", " ")
    if isinstance(error, TimeoutError) and error.errno is None:
        return "it took too long"
    return str(getattr(error, "strerror", None) or error) or "the connection broke"
