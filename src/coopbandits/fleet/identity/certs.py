"""A small certificate authority for one fleet: files in a folder, no server.

An agent's certificate has its id among its DNS names and is valid at both ends of a connection.
Keys are on the curve P-256, signatures use SHA-256. The holder of ``ca-key.pem`` can create agents,
so keep it off their machines, and encrypt it with a passphrase. `issue` makes key and certificate
in one place: copy ``ca.pem``, ``<id>.pem`` and ``<id>-key.pem`` to the agent's machine. `request`
makes the key there, where it stays, and a certificate signing request, which `sign_requests` signs.

Without [tls], to try agents out on one machine, certificates are thrown away (`throwaway_files`).
Agents that are started one by one share no file, so the key of their authority follows from the
cluster's name: every process derives it and issues a certificate for a new key of its own. Links
use TLS and entries are signed as always, but these certificates prove nothing, since any process on
the machine can issue itself one. So agents that use them accept loopback addresses only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.chains import read_certificates
from coopbandits.fleet.identity.files import link_target, write_file
from coopbandits.fleet.identity.names import ID_RULE, NODE_ID

BOTH_ENDS = x509.ExtendedKeyUsage(
    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
)

MAX_COMMON_NAME = 64
"""Characters of a subject's common name; ids are in the alternative names."""

AUTHORITY_DAYS = 3650
NODE_DAYS = 90
RENEW_WITHIN_DAYS = 30

CLOCK_SKEW = timedelta(hours=1)
"""Certificates are backdated by this much, for machines whose clocks are slow."""

THROWAWAY_SPAN = timedelta(days=3650)

Passphrase = Callable[[], bytes]
"""Returns the passphrase of an authority's key; called only if the key is encrypted."""

RENEW = "coopbandits certs renew authority --out certificates"
"""What hints print, with the folders of the documentation."""

NEW_AUTHORITY = "coopbandits certs init new-authority"


def issue_command(node: str) -> str:
    """Return the command that makes a key and a certificate for an agent, for hints."""
    return f"coopbandits certs issue authority {node} --out certificates --force"


def no_passphrase() -> bytes:
    raise InputError("the authority's key is encrypted; give its passphrase")


def init_authority(
    folder: Path,
    *,
    name: str = "coopbandits",
    days: int = AUTHORITY_DAYS,
    now: datetime | None = None,
    force: bool = False,
    passphrase: bytes = b"",
) -> list[Path]:
    """Create an authority; return the files written, ``ca.pem`` and ``ca-key.pem``.

    With a `passphrase` the key is encrypted.

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
    write_file(paths[1], pem_key(authority.key, passphrase), secret=True)
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
    passphrase: Passphrase = no_passphrase,
) -> list[Path]:
    """Create a key and a certificate for every id; return the files written.

    Parameters
    ----------
    folder : Path
        Folder of the authority.
    ids : sequence of str
        Ids of agents.
    out : Path or None
        Folder to write to, by default that of the authority; ``ca.pem`` is copied there.
    days : int
        Validity, at most the authority's own.
    now : datetime or None
        Current time; by default the clock's.
    force : bool
        Whether files may be overwritten.
    passphrase : callable
        Returns the passphrase of the authority's key.

    Raises
    ------
    InputError
        An id is invalid, a file exists, or the authority is missing or has expired.
    """
    out = out or folder
    now = now or datetime.now(UTC)
    for node in ids:
        _require_id(node)
    _require_free(
        [out / name for node in ids for name in (f"{node}.pem", f"{node}-key.pem")], force
    )
    authority = _load_authority(folder, now, passphrase)
    span = _days("a certificate's validity", days)
    written = _copy_authority(authority, out, force=force)
    for node in ids:
        key = make_key()
        write_file(out / f"{node}-key.pem", pem_key(key), secret=True)
        certificate = sign(authority, [node], key.public_key(), now, span)
        write_file(out / f"{node}.pem", pem(certificate))
        written += [out / f"{node}.pem", out / f"{node}-key.pem"]
    return written


def request(node: str, out: Path, also: Sequence[str] = (), *, force: bool = False) -> list[Path]:
    """Create a key, which stays on this machine, and a request to certify it; return the files.

    ``<id>.csr`` may be signed by any authority that certifies DNS names. A key that exists is used
    again, so that a certificate can be renewed.

    Parameters
    ----------
    node : str
        The agent's id.
    out : Path
        Folder to write to.
    also : sequence of str
        Further names for the certificate.
    force : bool
        Whether to replace a key that exists.
    """
    for name in (node, *also):
        _require_id(name)
    path = out / f"{node}-key.pem"
    written = []
    if force or not path.exists():
        key = make_key()
        write_file(path, pem_key(key), secret=True)
        written.append(path)
    else:
        key = _load_key(path, no_passphrase, "give another folder, or replace it with --force")
    names = [x509.DNSName(name) for name in dict.fromkeys((node, *also))]
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(node))
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    content = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    write_file(out / f"{node}.csr", content)
    return [*written, out / f"{node}.csr"]


def sign_requests(
    folder: Path,
    requests: Sequence[Path],
    out: Path | None = None,
    also: Sequence[str] = (),
    *,
    days: int = NODE_DAYS,
    now: datetime | None = None,
    force: bool = False,
    passphrase: Passphrase = no_passphrase,
) -> list[Path]:
    """Sign requests; return the files written.

    A machine decides what its request asks for, and its operator what it gets: the first name must
    be that of the file, and every further one must be in `also`.

    Parameters
    ----------
    folder : Path
        Folder of the authority.
    requests : sequence of Path
        Files ``<id>.csr``.
    out : Path or None
        Folder to write to, by default that of the authority; ``ca.pem`` is copied there.
    also : sequence of str
        Names besides the ids that requests may have.
    days, now, force, passphrase
        As for `issue`.

    Raises
    ------
    InputError
        A request is invalid or asks for another name, a file exists, or the authority is missing or
        has expired.
    """
    out = out or folder
    now = now or datetime.now(UTC)
    span = _days("a certificate's validity", days)
    asked = [_read_request(path, also) for path in requests]
    for names, _ in asked:
        _require_free([out / f"{names[0]}.pem"], force)
    authority = _load_authority(folder, now, passphrase)
    written = _copy_authority(authority, out, force=force)
    for names, key in asked:
        write_file(out / f"{names[0]}.pem", pem(sign(authority, names, key, now, span)))
        written.append(out / f"{names[0]}.pem")
    return written


def _read_request(path: Path, also: Sequence[str]) -> tuple[list[str], ec.EllipticCurvePublicKey]:
    """Return the names that a request asks for, and its key."""
    try:
        asked = x509.load_pem_x509_csr(path.read_bytes())
        names = _dns_names(asked.extensions)
        key, is_signed = asked.public_key(), asked.is_signature_valid
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; give a file that `coopbandits certs request` "
            "has made"
        ) from None
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension) as error:
        raise InputError(
            f"{path} is not a request for DNS names: {error}; make one with `coopbandits certs "
            "request`"
        ) from None
    if not is_signed or not isinstance(key, ec.EllipticCurvePublicKey):
        raise InputError(
            f"{path} is not signed by its own key on the curve P-256; make it with `coopbandits "
            "certs request`"
        )
    if not isinstance(key.curve, ec.SECP256R1):
        raise InputError(
            f"the key of {path} is on the curve {key.curve.name}; entries are signed on P-256: "
            "make it with `coopbandits certs request`"
        )
    for name in names:
        _require_id(name)
    if names[0] != path.stem:
        raise InputError(
            f"{path} asks for the id {names[0]!r}; name the file {names[0]}.csr to certify that"
        )
    for name in names[1:]:
        if name not in also:
            raise InputError(f"{path} also asks for the name {name!r}; allow it with --also {name}")
    return names, key


def _require_id(node: str) -> None:
    if not NODE_ID.fullmatch(node):
        raise InputError(f"{node!r} is not an agent's id; give {ID_RULE}")
    if node == "ca" or node.endswith("-key"):
        raise InputError(f"the files of agent {node!r} would look like others; rename it")


def _copy_authority(authority: Authority, out: Path, *, force: bool) -> list[Path]:
    """Write ``ca.pem`` unless it lists the authority already, with others perhaps."""
    path = out / "ca.pem"
    with suppress(InputError):
        if authority.certificate in read_certificates(path):
            return []
    _require_free([path], force)
    write_file(path, pem(authority.certificate))
    return [path]


def renew(
    folder: Path,
    out: Path | None = None,
    *,
    within_days: int = RENEW_WITHIN_DAYS,
    everything: bool = False,
    days: int = NODE_DAYS,
    now: datetime | None = None,
    passphrase: Passphrase = no_passphrase,
) -> list[Path]:
    """Renew the certificates that expire soon; return their files.

    Keys stay, so only ``<id>.pem`` has to be copied to its machine. A symbolic link stays one: the
    file behind it is replaced. Certificates that do not belong to an agent are skipped.

    Parameters
    ----------
    folder, out : Path
        Folders of the authority, and of the certificates: by default the same.
    within_days : int
        Renew those that expire within this many days.
    everything : bool
        Whether to renew all.
    days : int
        Validity of the new ones, at most the authority's own.
    now : datetime or None
        Current time; by default the clock's.
    passphrase : callable
        Returns the passphrase of the authority's key.

    Raises
    ------
    InputError
        There are no certificates of this authority, or it is missing or has expired; or a file
        could not be read, after all others were renewed.
    """
    now = now or datetime.now(UTC)
    authority = _load_authority(folder, now, passphrase)
    span = _days("a certificate's validity", days)
    soon = now + _days("the time until expiry", within_days)
    readable, unreadable = _certificates(out or folder)
    found = {path: old for path, old in readable.items() if _is_agents(authority, old)}
    if not found and not unreadable:
        raise InputError(
            f"no certificate in {out or folder} was made by the authority in {folder}; "
            f"make one with `{issue_command('shop-1')}`"
        )
    due = [path for path, old in found.items() if everything or old.not_valid_after_utc <= soon]
    for path in due:
        public_key = cast("ec.EllipticCurvePublicKey", found[path].public_key())  # we made it
        names = _dns_names(found[path].extensions)
        content = pem(sign(authority, names, public_key, now, span))
        write_file(link_target(path), content)
    if unreadable:  # reported last, and as a failure: an agent's certificate may be among them
        raise InputError(
            f"skipped {'; skipped '.join(unreadable)}; renewed: "
            f"{', '.join(map(str, due)) or 'nothing, since no other was due'}; restore these "
            "files or move them elsewhere, and run this command again"
        )
    return due


def _certificates(folder: Path) -> tuple[dict[Path, x509.Certificate], list[str]]:
    """Return the certificates in a folder by path, and a description of each unreadable file."""
    found, wrong = {}, []
    for path in sorted(folder.glob("*.pem")):
        if path.name == "ca.pem" or path.stem.endswith("-key"):
            continue
        try:
            found[path] = x509.load_pem_x509_certificate(path.read_bytes())
        except OSError as error:
            wrong.append(f"{path}, which cannot be read: {error.strerror}")
        except (ValueError, x509.InvalidVersion):
            wrong.append(f"{path}, which is not a certificate")
    return found, wrong


def _is_agents(authority: Authority, certificate: x509.Certificate) -> bool:
    """Return whether an authority issued a certificate to an agent.

    Operators may issue others with it, for clients say; a renewed one would have other extensions.
    """
    try:
        certificate.verify_directly_issued_by(authority.certificate)
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        return uses == BOTH_ENDS and all(map(NODE_ID.fullmatch, _dns_names(certificate.extensions)))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):  # of another authority
        return False
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return False


def _dns_names(extensions: x509.Extensions) -> list[str]:
    """Return the alternative names; raise ValueError unless there are only DNS names."""
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    for name in names:
        if not isinstance(name, x509.DNSName):
            raise ValueError(f"{name} is not a DNS name")
    if not names:
        raise ValueError("there are no names")
    return [str(name.value) for name in names]


def _require_free(paths: Iterable[Path], force: bool) -> None:
    for path in paths:
        if path.exists() and not force:
            raise InputError(f"{path} exists; choose another folder, or overwrite it with --force")


def _days(what: str, days: int) -> timedelta:
    if days not in range(1, 36501):
        raise InputError(f"{what} is {days!r} days; it must be a whole number from 1 to 36500")
    return timedelta(days=days)


def _load_authority(folder: Path, now: datetime, passphrase: Passphrase) -> Authority:
    path = folder / "ca.pem"
    try:
        certificate = x509.load_pem_x509_certificate(_read(path))
    except ValueError as error:
        raise InputError(
            f"cannot read a certificate from {path}: {error}; restore the authority's certificate"
        ) from None
    path = folder / "ca-key.pem"
    key = _load_key(path, passphrase, "restore the authority's key")
    if key.public_key() != certificate.public_key():
        raise InputError(f"{path} is not the key of {folder / 'ca.pem'}; restore that one")
    if certificate.not_valid_after_utc <= now:
        raise InputError(
            f"the authority in {folder} expired on {certificate.not_valid_after_utc:%Y-%m-%d}; "
            f"make a new one with `{NEW_AUTHORITY}`"
        )
    return Authority(certificate, key)


def _load_key(path: Path, passphrase: Passphrase, remedy: str) -> ec.EllipticCurvePrivateKey:
    """Return a private key, decrypted if need be."""
    content = _read(path)
    secret = passphrase() if b"ENCRYPTED" in content else None
    try:
        key = serialization.load_pem_private_key(content, secret)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if secret:
            raise InputError(
                f"cannot decrypt the key {path}: {error}; give the passphrase that it was "
                "encrypted with"
            ) from None
        raise InputError(f"cannot read a key from {path}: {error}; {remedy}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(f"the key {path} is not on an elliptic curve; {remedy}")
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {path} ({error.strerror}); create an authority with `coopbandits certs "
            "init authority`"
        ) from None


# Certificates as objects


class Authority(NamedTuple):
    """The certificate and key of an authority."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def make_authority(
    name: str, now: datetime, until: datetime, key: ec.EllipticCurvePrivateKey | None = None
) -> Authority:
    """Return a new authority, which may sign agents and no further authorities."""
    key = key or make_key()
    subject = _subject(name)
    builder = _builder(subject, subject, key.public_key(), now, until)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def sign(
    authority: Authority,
    names: Sequence[str],
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    span: timedelta,
) -> x509.Certificate:
    """Return a certificate of an agent in these names, valid as server and as client."""
    issuer = authority.certificate
    until = min(now + span, issuer.not_valid_after_utc)
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    builder = _builder(_subject(names[0]), issuer.subject, public_key, now, until)
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs_certificates=False), True),
        (BOTH_ENDS, False),
        (alternatives, False),
        (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), False),
    ):
        builder = builder.add_extension(extension, critical)
    return builder.sign(authority.key, hashes.SHA256())


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:MAX_COMMON_NAME])])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def pem_key(key: ec.EllipticCurvePrivateKey, passphrase: bytes = b"") -> bytes:
    """Return a private key in PEM format; those of agents are plain, to start unattended."""
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        encryption = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )


@contextmanager
def throwaway_files(node: str, cluster: str) -> Iterator[tuple[Path, Path, Path]]:
    """Write authority, certificate and key of an agent without [tls], for the block only.

    Nothing is left behind on disk.
    """
    now = datetime.now(UTC)
    seed = blake2b(cluster.encode(), digest_size=31, person=b"throw-away").digest()
    shared = ec.derive_private_key(1 + int.from_bytes(seed, "big"), ec.SECP256R1())
    authority = make_authority("throw-away", now, now + THROWAWAY_SPAN, shared)
    key = make_key()
    certificate = sign(authority, [node], key.public_key(), now, THROWAWAY_SPAN)
    with TemporaryDirectory(prefix="coopbandits-") as folder:
        paths = Path(folder) / "ca.pem", Path(folder) / "node.pem", Path(folder) / "key.pem"
        contents = pem(authority.certificate), pem(certificate), pem_key(key)
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        yield paths
