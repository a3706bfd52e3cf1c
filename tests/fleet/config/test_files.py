from __future__ import annotations

import ssl
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coopbandits.fleet.config import parse_config, read
from coopbandits.fleet.config.read import find_bad_files
from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.fleet.identity.files import read_token
from coopbandits.fleet.identity.tls import api_context, read_credentials

from .sample import NOW, spoiled


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An authority, and certificates of two nodes."""
    init_authority(tmp_path)
    issue(tmp_path, ["shop-1", "shop-2"])
    return tmp_path


def found(folder: Path, *changes: tuple[str, Any]) -> list[str]:
    return list(find_bad_files(parse_config(spoiled(*changes), folder / "node.toml", now=NOW)))


def test_good_files(folder: Path) -> None:
    assert found(folder) == []
    config = parse_config(spoiled(), folder / "node.toml", now=NOW)
    assert config.tls is not None
    left = read_credentials("shop-1", config.tls).expires - time.time()
    assert left == pytest.approx(90 * 86400, abs=3600)


def test_a_certificate_that_has_expired(folder: Path) -> None:
    past = datetime.now(UTC) - timedelta(days=100)
    init_authority(folder, now=past, force=True)
    issue(folder, ["shop-1"], now=past, force=True)
    (text,) = found(folder)
    assert "expired" in text


def test_the_certificate_of_somebody_else(folder: Path) -> None:
    names = (("tls.certificate", "shop-2.pem"), ("tls.key", "shop-2-key.pem"))
    (text,) = found(folder, *names)
    assert "shop-2.pem" in text


def test_another_authority(folder: Path) -> None:
    init_authority(folder, force=True)
    (text,) = found(folder)
    assert str(folder / "ca.pem") in text


def test_a_key_of_another_certificate(folder: Path) -> None:
    (text,) = found(folder, ("tls.key", "shop-2-key.pem"))
    assert f"{folder / 'shop-1.pem'} with the key {folder / 'shop-2-key.pem'}: key values" in text


@pytest.mark.parametrize("name", ["ca.pem", "shop-1.pem", "shop-1-key.pem"])
def test_files_that_are_none(folder: Path, name: str) -> None:
    (folder / name).write_text("hello")
    (text,) = found(folder)
    assert str(folder / name) in text
    (folder / name).unlink()
    (text,) = found(folder)
    assert str(folder / name) in text
    assert "No such file or directory" in text


def test_a_key_that_everybody_reads(folder: Path) -> None:
    (folder / "shop-1-key.pem").chmod(0o644)
    (text,) = found(folder)
    assert "chmod o-r" in text
    (folder / "shop-1-key.pem").chmod(0o640)
    assert found(folder) == []


def test_tokens(folder: Path) -> None:
    token = folder / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    assert read_token(token) == "0123456789abcdef"
    assert found(folder, ("node.token_file", "token")) == []
    for content in ("0123456789abcde\n", "two words of a token", "", "é" * 20, "a" * 20 + "\nb"):
        token.write_text(content)
        (text,) = found(folder, ("node.token_file", "token"))
        assert "16 ASCII characters" in text
        assert content.strip() == "" or content.strip() not in text
    token.chmod(0o604)
    assert "world-readable" in found(folder, ("node.token_file", "token"))[0]
    assert "cannot read" in found(folder, ("node.token_file", "nothing"))[0]


def api_tls(**changes: str) -> tuple[str, dict[str, str]]:
    good = {"ca": "ca.pem", "certificate": "shop-2.pem", "key": "shop-2-key.pem"}
    return "api_tls", good | changes


def test_tls_of_the_api_may_have_any_name(folder: Path) -> None:
    assert found(folder, api_tls()) == []
    config = parse_config(spoiled(api_tls()), folder / "node.toml", now=NOW)
    assert config.api_tls is not None
    context = api_context(config.api_tls)
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3


def test_tls_of_the_api_that_cannot_be_used(folder: Path) -> None:
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (folder / "locked.pem").write_bytes(locked)
    (folder / "locked.pem").chmod(0o600)
    for changes in (
        {"key": "shop-1-key.pem"},
        {"key": "locked.pem"},
        {"ca": "none.pem"},
        {"ca": "shop-1-key.pem"},
    ):
        (text,) = found(folder, api_tls(**changes))
        assert text.startswith("[api_tls] ")
        assert "together" in text
    (folder / "shop-2-key.pem").chmod(0o644)
    assert "world-readable" in found(folder, api_tls())[0]


def test_uvloop_must_be_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(folder, ("node.uvloop", True)) == []
    monkeypatch.setattr(read, "find_spec", lambda name: None)
    (text,) = found(folder, ("node.uvloop", True))
    assert text.startswith("[node] uvloop")
