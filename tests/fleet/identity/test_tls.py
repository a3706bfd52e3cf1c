"""Certificates that neighbours would refuse are refused at once, and new ones are noticed."""

from __future__ import annotations

import logging
import re
import shutil
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from coopbandits.core import InputError
from coopbandits.fleet.identity.certs import init_authority, issue, renew
from coopbandits.fleet.identity.tls import Credentials, ExpiryWatch, reason_of

from ..transport.nodes import credentials


@pytest.fixture
def folder(certificates: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(certificates, tmp_path / "copy"))


def test_only_tls_13_with_certificates_on_both_sides(certificates: Path) -> None:
    for context in credentials(certificates, "alpha").contexts():
        assert context.minimum_version == ssl.TLSVersion.TLSv1_3
        assert context.verify_mode == ssl.CERT_REQUIRED


def test_the_day_of_expiry_is_known(certificates: Path) -> None:
    expires = datetime.fromtimestamp(credentials(certificates, "alpha").expires, UTC)
    assert timedelta(days=89) < expires - datetime.now(UTC) < timedelta(days=91)


def test_contexts_are_made_once(certificates: Path) -> None:
    proof = credentials(certificates, "alpha")
    assert proof.contexts() is proof.contexts()


def test_a_renewed_certificate_is_read_without_a_restart(folder: Path) -> None:
    proof = credentials(folder, "alpha")
    before, expired = proof.contexts(), proof.expires
    told: list[tuple[str, str]] = []
    proof.report = lambda *what: told.append(what)
    renew(folder, everything=True, days=200)
    assert proof.contexts() is not before
    assert proof.expires > expired + 86400
    assert told == [("certificate", f"certificate reloaded from {proof.certificate}")]


def test_a_half_replaced_pair_changes_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    proof = credentials(folder, "alpha")
    before = proof.contexts()
    told: list[tuple[str, str]] = []
    proof.report = lambda *what: told.append(what)
    new = folder / "new"
    issue(folder, ["alpha"], new)
    (new / "alpha-key.pem").replace(folder / "alpha-key.pem")
    with caplog.at_level(logging.WARNING):
        assert proof.contexts() is before
        assert proof.contexts() is before
    assert len(caplog.messages) == 1
    assert "certificate" in caplog.text
    assert len(told) == 1
    (new / "alpha.pem").replace(folder / "alpha.pem")
    assert proof.contexts() is not before


def test_files_that_cannot_be_used_are_named(folder: Path) -> None:
    paths = [folder / name for name in ("ca.pem", "alpha.pem", "alpha-key.pem")]
    for path in paths:
        content = path.read_bytes()
        path.write_text("nothing")
        with pytest.raises(InputError, match=re.escape(path.name)):
            Credentials("alpha", *paths)
        path.unlink()
        with pytest.raises(InputError, match="No such file or directory"):
            Credentials("alpha", *paths)
        path.write_bytes(content)
    with pytest.raises(InputError, match="mismatch"):
        Credentials("alpha", folder / "ca.pem", folder / "alpha.pem", folder / "beta-key.pem")


def test_the_own_certificate_must_hold(certificates: Path, other_certificates: Path) -> None:
    with pytest.raises(InputError, match=r"beta.*alpha"):
        Credentials(
            "alpha", *(certificates / name for name in ("ca.pem", "beta.pem", "beta-key.pem"))
        )
    own = [certificates / name for name in ("alpha.pem", "alpha-key.pem")]
    with pytest.raises(InputError, match=re.escape(str(other_certificates / "ca.pem"))):
        Credentials("alpha", other_certificates / "ca.pem", *own)


def test_an_expired_certificate_is_refused_by_its_owner(tmp_path: Path) -> None:
    then = datetime.now(UTC) - timedelta(days=100)
    init_authority(tmp_path, now=then)
    issue(tmp_path, ["alpha"], now=then)
    with pytest.raises(InputError, match="expired"):
        credentials(tmp_path, "alpha")


def test_an_encrypted_key_asks_nobody(folder: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    path = folder / "alpha-key.pem"
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    path.write_bytes(locked)
    with pytest.raises(InputError, match="encrypted"):
        credentials(folder, "alpha")


def test_an_expiring_certificate_is_logged_once_a_day(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """From 30 days on and at the start, until a renewed one is there."""
    day, now = 86400.0, datetime.now(UTC).timestamp()
    issue(folder, ["alpha"], days=31, force=True)
    proof = credentials(folder, "alpha")
    watch = ExpiryWatch(proof)
    for hours in range(0, 72, 6):  # it begins to warn on the second day
        watch.look(now + hours * 3600.0)
    said = [record.getMessage() for record in caplog.records]
    assert [re.findall(r"days_left=(\d+)", text) for text in said] == [["30"], ["29"]]
    assert all("certs renew authority --out certificates" in text for text in said)
    ExpiryWatch(proof).look(now + 20 * day)  # another start
    ExpiryWatch(proof).look(now + 40 * day)
    assert "days_left=11" in caplog.messages[-2]
    assert "days_left=-9" in caplog.messages[-1]
    renew(folder, everything=True, days=90)
    caplog.clear()
    watch.look(now + 4 * day)
    assert [text for text in caplog.messages if "expires" in text] == []
    assert proof.expires > now + 80 * day, "the metric knows it, without a new link"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer"),
        (ConnectionResetError(), "the connection broke"),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), "the connection broke"),
        (ssl.SSLWantWriteError(3, "The operation did not complete"), "the connection broke"),
        (TimeoutError(), "it took too long"),
    ],
)
def test_there_is_always_a_reason(error: OSError, reason: str) -> None:
    assert reason_of(error) == reason
