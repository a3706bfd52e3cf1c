from __future__ import annotations

from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.document import seal
from coopbandits.fleet.document.content import read_document
from coopbandits.fleet.document.seal import (
    Signed,
    WatchedDocument,
    load_signed,
    sign_file,
    signature_file,
)
from coopbandits.fleet.identity.operators import make_key
from coopbandits.fleet.storage.disk import DiskError

from .made import text

TEXT = '# ours\n[cluster]\nversion = {version}\nname = "shop"\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "cluster.toml"
    found.write_text(TEXT.format(version=1))
    return found


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "operator.key")
    return tmp_path / "operator.key"


def test_a_file_is_signed_and_read(path: Path, key: Path) -> None:
    document, signers = sign_file(path, [key])
    found = load_signed(path)
    assert found.seal.signed_by(signers)
    assert found.content == document.content == read_document(found.content).content


def test_a_second_key_adds_its_signature_to_the_same_content(
    path: Path, key: Path, tmp_path: Path
) -> None:
    sign_file(path, [key])
    other = tmp_path / "other.key"
    make_key(other)
    path.write_text(path.read_text() + "# a remark changes nothing\n")
    _, signers = sign_file(path, [other])
    assert len(signers) == len(load_signed(path).seal.signatures) == 2
    path.write_text(TEXT.format(version=2))
    with pytest.raises(InputError, match="ed25519:"):
        load_signed(path)
    _, signers = sign_file(path, [key])
    assert len(signers) == 1, "signatures of another content are left out"


def test_more_signatures_than_are_read(path: Path, tmp_path: Path) -> None:
    keys = [tmp_path / f"{number}.key" for number in range(9)]
    for each in keys:
        make_key(each)
    with pytest.raises(InputError, match=r"9 keys.* 8\b"):
        sign_file(path, keys)
    assert not signature_file(path).exists()


def test_files_that_cannot_be_used(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="coopbandits cluster sign"):
        load_signed(path)
    for line in ("text", f"{text(1)} 00", f"{text(1)} zz"):
        signature_file(path).write_text(line)
        with pytest.raises(InputError, match="line 1"):
            load_signed(path)
    signature_file(path).write_text("ed25519:x " + "00" * 64)
    with pytest.raises(InputError, match="operator's key"):
        load_signed(path)
    with pytest.raises(InputError, match="No such file"):
        load_signed(tmp_path / "missing")
    monkeypatch.setattr(seal, "MAX_FILE_BYTES", 10)
    with pytest.raises(InputError, match="10 bytes"):
        load_signed(path)


def test_signatures_that_cannot_be_read_are_told_and_looked_at_again(
    path: Path, key: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sign_file(path, [key])
    beside = signature_file(path)
    kept = beside.rename(tmp_path / "kept")
    beside.symlink_to(tmp_path / "loop")
    (tmp_path / "loop").symlink_to(beside)  # not even root can look behind it
    taken: list[Signed] = []

    def adopt(signed: Signed) -> bool:
        taken.append(signed)
        return True

    watched = WatchedDocument(path, adopt)
    watched.refresh()
    assert str(beside) in caplog.text
    beside.unlink()
    kept.rename(beside)
    watched.refresh()
    assert len(taken) == 1


def test_a_watched_file_is_taken_when_it_changes(
    path: Path, key: Path, caplog: pytest.LogCaptureFixture
) -> None:
    taken: list[int] = []
    trouble: list[Exception] = []

    def adopt(signed: Signed) -> bool:
        if trouble:
            raise trouble.pop()
        taken.append(signed.seal.open().version)
        return True

    watched = WatchedDocument(path, adopt)
    watched.refresh()
    watched.refresh()
    assert "rejected the document in" in caplog.text
    assert caplog.text.count("is not signed") == 1, "once per change"
    sign_file(path, [key])
    watched.refresh()
    watched.refresh()
    assert taken == [1]
    path.write_text(TEXT.format(version=2))
    watched.refresh()
    assert taken == [1], "its signature has not come yet"
    trouble += [DiskError("no room")]
    sign_file(path, [key])
    watched.refresh()
    watched.refresh()
    assert taken == [1, 2], "after trouble with the disk it is tried again"
    path.unlink()
    watched.refresh()
    WatchedDocument(None, adopt).refresh()
    assert taken == [1, 2]
