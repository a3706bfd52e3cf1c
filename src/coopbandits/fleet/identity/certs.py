"""A small certificate authority for one fleet: files in a folder, no server.

An agent's certificate has its id as the only DNS name and is valid at both ends of a connection.
Whoever holds ``ca-key.pem`` can create agents, so keep it off their machines: copy only ``ca.pem``,
``<id>.pem`` and ``<id>-key.pem`` there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.files import behind, write_file
from coopbandits.fleet.identity.names import NODE_ID
from coopbandits.fleet.identity.signing import (
    Authority,
    make_authority,
    make_key,
    pem,
    pem_key,
    sign,
)

AUTHORITY_DAYS = 3650
NODE_DAYS = 90
RENEW_WITHIN_DAYS = 30


def init_authority(
    folder: Path,
    *,
    name: str = "coopbandits",
    days: int = AUTHORITY_DAYS,
    now: datetime | None = None,
    force: bool = False,
) -> list[Path]:
    """Create an authority; return the files written, ``ca.pem`` and ``ca-key.pem``.

    Raises
    ------
    InputError
        One of them exists and `force` is not set, the days are not a whole number from 1, or the
        name is too long.
    """
    if not 0 < len(name) <= 64:
        raise InputError(f"an authority's name has 1 to 64 characters; this one has {len(name)}")
    now = now or datetime.now(UTC)
    until = now + _days("an authority's validity", days)
    paths = [folder / "ca.pem", folder / "ca-key.pem"]
    _require_free(paths, force)
    authority = make_authority(name, now, until)
    write_file(paths[1], pem_key(authority.key), secret=True)
    write_file(paths[0], pem(authority.certificate))
    return paths


def issue(
    folder: Path,
    ids: Sequence[str],
    out: Path | None = None,
    *,
    days: int = NODE_DAYS,
    now: datetime | None = None,
    force: bool = False,
) -> list[Path]:
    """Make a key and a certificate for every id, and return the files written.

    Parameters
    ----------
    folder : Path
        Where the authority is.
    ids : sequence of str
        Ids of agents.
    out : Path or None
        Where to write, by default beside the authority; ``ca.pem`` is copied there.
    days : int
        Validity, at most the authority's own.
    now : datetime or None
        The time; by default the clock's.
    force : bool
        Whether files may be overwritten.

    Raises
    ------
    InputError
        An id is invalid, a file exists, or the authority is missing or has expired.
    """
    out = out or folder
    now = now or datetime.now(UTC)
    authority = _authority(folder, now)
    span = _days("a certificate's validity", days)
    for node in ids:
        _require_id(node)
    _require_free(
        [out / name for node in ids for name in (f"{node}.pem", f"{node}-key.pem")], force
    )
    written = _copy_authority(authority, out, force)
    for node in ids:
        key = make_key()
        write_file(out / f"{node}-key.pem", pem_key(key), secret=True)
        certificate = sign(authority, node, key.public_key(), now, span)
        write_file(out / f"{node}.pem", pem(certificate))
        written += [out / f"{node}.pem", out / f"{node}-key.pem"]
    return written


def renew(
    folder: Path,
    out: Path | None = None,
    *,
    within_days: int = RENEW_WITHIN_DAYS,
    everything: bool = False,
    days: int = NODE_DAYS,
    now: datetime | None = None,
) -> list[Path]:
    """Replace the certificates that expire soon, and return those files.

    Keys stay as they are, so that ``<id>.pem`` alone has to be copied to its machine. A link stays
    one: the file behind it is replaced. Certificates that are no agent's are left alone.

    Parameters
    ----------
    folder, out : Path
        Where the authority is, and the certificates: by default beside it.
    within_days : int
        Replace those that expire within this many days.
    everything : bool
        Whether to replace all.
    days : int
        Validity of the new ones, at most the authority's own.
    now : datetime or None
        The time; by default the clock's.

    Raises
    ------
    InputError
        There are no certificates of this authority, or it is missing or has expired; or a file
        could not be read, which keeps no other from being renewed.
    """
    now = now or datetime.now(UTC)
    authority = _authority(folder, now)
    span = _days("a certificate's validity", days)
    soon = now + _days("the time until expiry", within_days)
    readable, unreadable = _certificates(out or folder)
    found = {path: old for path, old in readable.items() if _is_agents(authority, old)}
    if not found and not unreadable:
        raise InputError(
            f"no certificate in {out or folder} was made by the authority in {folder}; "
            "make one with `coopbandits certs issue`"
        )
    due = [path for path, old in found.items() if everything or old.not_valid_after_utc <= soon]
    for path in due:
        public_key = cast("ec.EllipticCurvePublicKey", found[path].public_key())  # we made it
        content = pem(sign(authority, _name_of(found[path]), public_key, now, span))
        write_file(behind(path), content)
    if unreadable:  # said last, and as a failure: it may be an agent's that is about to expire
        raise InputError(
            f"skipped {'; skipped '.join(unreadable)}; renewed: "
            f"{', '.join(map(str, due)) or 'nothing, since no other had to be'}; put back what "
            "these files were, or move them elsewhere, and run this command again"
        )
    return due


def _certificates(folder: Path) -> tuple[dict[Path, x509.Certificate], list[str]]:
    """Return the certificates in a folder, and what is wrong with files that hold none."""
    found, wrong = {}, []
    for path in sorted(folder.glob("*.pem")):
        if path.name == "ca.pem" or path.stem.endswith("-key"):
            continue
        try:
            found[path] = x509.load_pem_x509_certificate(path.read_bytes())
        except OSError as error:
            wrong.append(f"{path}, which cannot be read: {error.strerror}")
        except (ValueError, x509.InvalidVersion):
            wrong.append(f"{path}, which holds no certificate that can be read")
    return found, wrong


def _is_agents(authority: Authority, certificate: x509.Certificate) -> bool:
    """Return whether an authority has issued a certificate, and to an agent.

    Its operator may have made others with it, for clients say: a renewal would not be like them.
    """
    try:
        certificate.verify_directly_issued_by(authority.certificate)
        return NODE_ID.fullmatch(_name_of(certificate)) is not None
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):  # of another authority
        return False
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return False


def _name_of(certificate: x509.Certificate) -> str:
    """Return the only name of an agent; ValueError where there are others, or none."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    (name,) = names
    if not isinstance(name, x509.DNSName):
        raise ValueError(f"{name} is no DNS name")
    return str(name.value)


def _require_id(node: str) -> None:
    if not NODE_ID.fullmatch(node):
        raise InputError(
            f"{node!r} is no agent's id; write 1 to 63 of a-z, 0-9 and -, with a letter or digit "
            "first and last"
        )
    if node == "ca" or node.endswith("-key"):
        raise InputError(f"the files of an agent {node!r} would be taken for others; rename it")


def _require_free(paths: Iterable[Path], force: bool) -> None:
    for path in paths:
        if path.exists() and not force:
            raise InputError(f"{path} exists; choose another folder, or overwrite it with --force")


def _days(what: str, days: int) -> timedelta:
    if days not in range(1, 36501):
        raise InputError(f"{what} is {days!r} days; it must be a whole number from 1 to 36500")
    return timedelta(days=days)


def _authority(folder: Path, now: datetime) -> Authority:
    certificate = _read_certificate(folder / "ca.pem")
    path = folder / "ca-key.pem"
    try:
        key = serialization.load_pem_private_key(_read(path), None)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} holds no key that can be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or (
        key.public_key() != certificate.public_key()
    ):
        raise InputError(f"{path} is not the key of {folder / 'ca.pem'}; bring the one back")
    if certificate.not_valid_after_utc <= now:
        raise InputError(
            f"the authority in {folder} expired on {certificate.not_valid_after_utc:%Y-%m-%d}; "
            "make a new one with `coopbandits certs init`"
        )
    return Authority(certificate, key)


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError as error:
        raise InputError(f"{path} holds no certificate that can be read: {error}") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {path} ({error.strerror}); `coopbandits certs init` makes an authority"
        ) from None


def _copy_authority(authority: Authority, out: Path, force: bool) -> list[Path]:
    path, content = out / "ca.pem", pem(authority.certificate)
    if path.exists() and path.read_bytes() == content:
        return []
    _require_free([path], force)
    write_file(path, content)
    return [path]
