from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from coopbandits.fleet.config import files, parse_config
from coopbandits.fleet.config.files import find_bad_files, read_token

from .sample import NOW, Authority, pem, spoiled

DAY = 86400.0


def found(folder: Path, *changes: tuple[str, Any], now: float = NOW) -> list[str]:
    config = parse_config(spoiled(*changes), folder / "node.toml", now=NOW)
    return list(find_bad_files(config, now))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Give the node a good certificate."""
    made = Authority()
    made.issue(tmp_path, "shop-1")
    return made


def test_good_files(tmp_path: Path, authority: Authority) -> None:
    assert found(tmp_path) == []


def test_validity(tmp_path: Path, authority: Authority) -> None:
    assert found(tmp_path, now=NOW + 89 * DAY) == []
    (late,) = found(tmp_path, now=NOW + 91 * DAY)
    assert "is valid from 2026-05-31 to 2026-08-30, and now it is 2026-08-31 00:00 UTC" in late
    (early,) = found(tmp_path, now=NOW - 2 * DAY)
    assert "renew it, or look at the clock" in early


def test_an_authority_that_is_no_longer_valid(tmp_path: Path) -> None:
    Authority(days=10).issue(tmp_path, "shop-1")
    assert found(tmp_path) == []
    (text,) = found(tmp_path, now=NOW + 20 * DAY)
    assert text.endswith("or the latter is not valid now; take both from the same authority")


@pytest.mark.parametrize("names", [("shop-2",), ("nobody",), ("xshop-1", "shop-1x")])
def test_the_certificate_of_somebody_else(tmp_path: Path, names: tuple[str, ...]) -> None:
    Authority().issue(tmp_path, "shop-1", names=names)
    (text,) = found(tmp_path)
    assert f"is that of {', '.join(names)}, but this node is shop-1; the two must" in text


def test_one_name_among_several(tmp_path: Path) -> None:
    Authority().issue(tmp_path, "shop-1", names=("shop-1.example", "shop-1"))
    assert found(tmp_path) == []


@pytest.mark.parametrize("name", ["authority", "other"])
def test_another_authority(tmp_path: Path, authority: Authority, name: str) -> None:
    other = Authority(name)
    (tmp_path / "ca.pem").write_bytes(pem(other.certificate))
    (text,) = found(tmp_path)
    assert f"shop-1.pem is not signed by {tmp_path / 'ca.pem'}" in text
    (tmp_path / "ca.pem").write_bytes(pem(other.certificate) + pem(authority.certificate))
    assert found(tmp_path) == []  # as while an authority is replaced


def test_a_chain(tmp_path: Path, authority: Authority) -> None:
    root = Authority("root")
    between = root._sign(authority.name, authority.key.public_key(), (), NOW, 100)
    (tmp_path / "ca.pem").write_bytes(pem(root.certificate))
    assert len(found(tmp_path)) == 1
    with (tmp_path / "shop-1.pem").open("ab") as file:
        file.write(pem(between))
    assert found(tmp_path) == []


def test_a_key_of_another_certificate(tmp_path: Path, authority: Authority) -> None:
    authority.issue(tmp_path, "shop-2")
    (text,) = found(tmp_path, ("tls.key", "shop-2-key.pem"))
    assert "shop-2-key.pem does not belong to certificate" in text


def test_keys_that_are_none(tmp_path: Path, authority: Authority) -> None:
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    for content in (locked, b"", pem(authority.certificate)):
        (tmp_path / "shop-1-key.pem").write_bytes(content)
        (text,) = found(tmp_path)
        assert "holds no private key in PEM format without a password" in text


@pytest.mark.parametrize("name", ["ca.pem", "shop-1.pem"])
def test_certificates_that_are_none(tmp_path: Path, authority: Authority, name: str) -> None:
    (tmp_path / name).write_text("hello")
    assert found(tmp_path) == [f"{tmp_path / name} holds no certificate in PEM format"]
    (tmp_path / name).unlink()
    (text,) = found(tmp_path)
    assert text.startswith(f"cannot read {tmp_path / name}: No such file or directory; give")


def test_a_key_that_everybody_reads(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "shop-1-key.pem").chmod(0o644)
    (text,) = found(tmp_path)
    assert f"everybody can read {tmp_path / 'shop-1-key.pem'}; forbid it with: chmod o-r" in text
    (tmp_path / "shop-1-key.pem").chmod(0o640)
    assert found(tmp_path) == []


def test_tokens(tmp_path: Path, authority: Authority) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    assert read_token(token) == "0123456789abcdef"
    assert found(tmp_path, ("node.token_file", "token")) == []
    for content in ("0123456789abcde\n", "two words of a token", "", "é" * 20):
        token.write_text(content)
        (text,) = found(tmp_path, ("node.token_file", "token"))
        assert "it must be one word of at least 16 ASCII characters" in text
        assert content.strip() == "" or content.strip() not in text
    token.chmod(0o604)
    assert "everybody can read" in found(tmp_path, ("node.token_file", "token"))[0]
    assert "cannot read" in found(tmp_path, ("node.token_file", "nothing"))[0]


def test_tls_of_the_api_may_have_any_name(tmp_path: Path, authority: Authority) -> None:
    Authority("clients").issue(tmp_path, "any")
    (tmp_path / "ca.pem").write_bytes(pem(authority.certificate))
    tables = {"ca": "ca.pem", "certificate": "any.pem", "key": "any-key.pem"}
    assert found(tmp_path, ("api_tls", tables)) == []
    assert len(found(tmp_path, ("api_tls", tables | {"key": "shop-1-key.pem"}))) == 1
    assert len(found(tmp_path, ("api_tls", tables | {"ca": "nothing.pem"}))) == 1


def test_uvloop_must_be_there(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(tmp_path, ("node.uvloop", True)) == []
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    (text,) = found(tmp_path, ("node.uvloop", True))
    assert text.startswith("[node] uvloop is true, but uvloop is not installed")


def test_without_the_extra(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.x509", None)
    (text,) = found(tmp_path)
    assert text.endswith("pip install 'coopbandits[fleet]'")
