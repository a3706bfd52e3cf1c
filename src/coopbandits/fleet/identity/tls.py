"""Mutual TLS 1.3: one of the DNS names in a certificate is the agent's id.

`Credentials` are for links between agents, with contexts for both ends of a connection;
`api_context` is for the API, whose clients may have certificates of another authority.
"""

from __future__ import annotations

import logging
import math
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.certs import RENEW, issue_command, throwaway_files
from coopbandits.fleet.identity.chains import (
    Holder,
    ends_of,
    find_path,
    read_certificates,
    read_holder,
)
from coopbandits.fleet.identity.files import file_version, read_secret
from coopbandits.fleet.logs import LogEvent

log = logging.getLogger(__name__)

ALPN = "coopbandits/1"
"""The protocol both ends must offer; the number changes when links start differently."""

DAY = 86400.0

SOON_DAYS = 30
"""From so many days before a certificate expires, `ExpiryWatch`, --check and the doctor warn."""


class TlsFiles(NamedTuple):
    """Files in PEM format: the trusted authority, the own certificate, and its key."""

    ca: Path
    certificate: Path
    key: Path


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
    holder : Holder
        The ids in the certificate, and its key.
    expires : float
        When neighbours reject it: it, an intermediate or the authority has expired by then.
    report : callable
        Called with the kind and text of an event when the files change.
    loopback_only : bool
        Whether they prove nothing, and so are accepted on loopback addresses only.

    Raises
    ------
    InputError
        A file cannot be used, or neighbours would not accept the certificate: it is signed by
        another authority, expired, or does not have the agent's id.
    """

    loopback_only = False

    def __init__(self, node: str, ca: Path, certificate: Path, key: Path) -> None:
        self.node, self.ca, self.certificate, self.key = node, ca, certificate, key
        self.report: Callable[[str, str], None] = lambda _kind, _text: None
        self._seen = self._versions()
        self._contexts, self.holder, self.expires = self._load()

    def contexts(self) -> Contexts:
        """Return contexts for the current files, or the previous ones if these cannot be used.

        That is normal for a moment: files are replaced one after the other.
        """
        versions = self._versions()
        if versions != self._seen:
            self._seen = versions
            try:
                self._contexts, self.holder, self.expires = self._load()
                log.info(LogEvent("certificate reloaded", file=str(self.certificate)))
                self.report("certificate", f"certificate reloaded from {self.certificate}")
            except InputError as error:
                log.warning(LogEvent("keeping the previous certificate", reason=error))
                self.report("certificate", f"keeping the previous certificate: {error}")
        return self._contexts

    def _versions(self) -> list[tuple[int, int, int] | None]:
        return [file_version(path) for path in (self.ca, self.certificate, self.key)]

    def _load(self) -> tuple[Contexts, Holder, float]:
        contexts = Contexts(
            self._context(ssl.PROTOCOL_TLS_SERVER), self._context(ssl.PROTOCOL_TLS_CLIENT)
        )
        shown = self._handshake_with_self(contexts)
        try:
            holder = read_holder(shown)
            own, *intermediates = read_certificates(self.certificate)
            path = find_path(own, intermediates, read_certificates(self.ca), datetime.now(UTC))
        except InputError as error:
            raise InputError(
                f"{self.certificate} is {error}; issue another with `{issue_command(self.node)}`"
            ) from None
        if self.node not in holder.names:
            raise InputError(
                f"the certificate {self.certificate} has the names "
                f"{', '.join(sorted(holder.names))}, but this agent is {self.node}; issue one with "
                f"`{issue_command(self.node)}`"
            )
        return contexts, holder, ends_of(path)

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # names are ids, not hosts: `Connection` compares them
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # `ca` may list an intermediate
        context.set_alpn_protocols([ALPN])
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0  # no resumption: every connection proves its identity
        try:
            context.load_verify_locations(self.ca)
        except OSError as error:
            raise _unusable("authority", self.ca, error) from None
        try:
            # Without a password OpenSSL would prompt at the terminal.
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            pair = f"{self.certificate} with the key {self.key}"
            raise _unusable("certificate", pair, error) from None
        return context

    def _handshake_with_self(self, contexts: Contexts) -> bytes | None:
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
                f"the certificate {self.certificate} is not valid under the authority "
                f"{self.ca}: {reason_of(error)}; renew it with `{RENEW}`"
            ) from None
        return server.getpeercert(binary_form=True)


class ExpiryWatch:
    """Logs that a certificate is about to expire, at the start and then once a day."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self._next = -math.inf

    def look(self, now: float) -> None:
        """Read files that have changed, and log it if that is due."""
        self.credentials.contexts()
        if now < self._next:
            return
        left = (self.credentials.expires - now) / DAY
        if left >= SOON_DAYS:
            return
        self._next = now + DAY
        day = datetime.fromtimestamp(self.credentials.expires, UTC)
        log.warning(
            LogEvent(
                "the certificate expires",
                file=str(self.credentials.certificate),
                date=f"{day:%Y-%m-%d}",
                days_left=round(left),
                fix=f"{RENEW}, or renew its authority",
            )
        )


class ThrowawayCredentials(Credentials):
    """Credentials without files, for one machine; see `certs`."""

    loopback_only = True

    def __init__(self, node: str, cluster: str) -> None:
        with throwaway_files(node, cluster) as (ca, certificate, key):
            super().__init__(node, ca, certificate, key)

    def _versions(self) -> list[tuple[int, int, int] | None]:
        return []  # there are no files to read again


def read_credentials(node: str, files: TlsFiles) -> Credentials:
    """Return a node's credentials; the key must not be world-readable."""
    read_secret(files.key)
    return Credentials(node, *files)


def api_context(files: TlsFiles) -> ssl.SSLContext:
    """Return TLS for an API that serves only clients with a certificate of the authority."""
    read_secret(files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(files.ca)
        # Without a password OpenSSL would prompt at the terminal; "" makes it fail instead.
        context.load_cert_chain(files.certificate, files.key, password="")
    except OSError as error:
        names = ", ".join(map(str, files))
        raise InputError(
            f"[api_tls] {names} cannot be used together: {reason_of(error)}; give an authority, "
            "a certificate and its key in PEM format"
        ) from error
    return context


def validity(path: Path) -> tuple[float, float]:
    """Return the times, in seconds since 1970, between which a file's first certificate is valid.

    Raises
    ------
    InputError
        There is no such file, or no certificate in it.
    """
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())[0]
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; give a file that this user can read"
        ) from error
    except ValueError as error:
        raise InputError(
            f"cannot read a certificate from {path}: {error}; give one in PEM format"
        ) from None
    return found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()


def _no_password() -> str:
    raise ValueError("the key is encrypted, and an agent cannot ask for its password")


def _unusable(what: str, where: object, error: OSError | ValueError) -> InputError:
    return InputError(
        f"cannot use the {what} {where}: {reason_of(error)}; give files in PEM format that belong "
        "together"
    )


def reason_of(error: OSError | ValueError) -> str:
    """Return the reason why a connection or a file failed, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLWantWriteError):
        return "the connection broke"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not in PEM format").lower().replace("_", " ")
    if isinstance(error, TimeoutError) and error.errno is None:
        return "it took too long"
    return str(getattr(error, "strerror", None) or error) or "the connection broke"
