"""`coopbandits cluster` as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from .calls import Call, refused

TEXT = '[cluster]\nversion = {version}\nname = "shop"\n'


@pytest.fixture
def key(call: Call, tmp_path: Path) -> Path:
    path = tmp_path / "operator.key"
    outcome = call("cluster", "keygen", str(path))
    assert outcome.status == 0
    assert outcome.out.startswith("ed25519:")
    return path


@pytest.fixture
def document(call: Call, key: Path, tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(TEXT.format(version=1))
    outcome = call("cluster", "sign", str(path), "--key", str(key))
    assert outcome.out == f"version 1 of shop, signed by 1: {path}.sig\n"
    return path


def test_a_document_is_verified(call: Call, document: Path, key: Path, tmp_path: Path) -> None:
    outcome = call("cluster", "verify", str(document))
    assert outcome.out.startswith("version 1 of shop, signed by ed25519:")
    other = call("cluster", "keygen", str(tmp_path / "other.key")).out.strip()
    check = ("cluster", "verify", str(document), "--operator", other)
    assert "none of the keys given has signed" in refused(call(*check))
    own = outcome.out.split()[-1]
    assert call(*check, "--operator", own).status == 0
    document.write_text(TEXT.format(version=2))
    assert "is not what ed25519:" in refused(call("cluster", "verify", str(document)))
    assert "exists; choose another name" in refused(call("cluster", "keygen", str(key)))


def test_a_wrong_document_is_refused_with_all_its_problems(
    call: Call, key: Path, tmp_path: Path
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("[cluster]\nversion = 0\n[settings]\narms = 3\n")
    outcome = call("cluster", "sign", str(path), "--key", str(key))
    assert outcome.status == 2
    assert outcome.err.count("error: document: ") == len(outcome.err.splitlines()) == 3
    assert not path.with_name("wrong.toml.sig").exists()


def test_two_documents_are_compared(call: Call, document: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.toml"
    new.write_text(TEXT.format(version=2) + 'revoked = ["a"]\n')
    outcome = call("cluster", "diff", str(document), str(new))
    assert outcome.out == "~ [cluster] version: 1 -> 2\n+ revoked a\n"
    assert call("cluster", "diff", str(new), str(new)).out == "nothing changes\n"
