"""Seals and trust, and signed documents on disk."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.document import seal
from coopbandits.fleet.document.content import read_document
from coopbandits.fleet.document.seal import (
    ForgedError,
    Head,
    Seal,
    Signed,
    Trust,
    WatchedDocument,
    load_signed,
    make_head,
    sign,
    sign_file,
    signature_file,
)
from coopbandits.fleet.identity.operators import make_key
from coopbandits.fleet.storage.disk import DiskError

from .made import NAME, key, public, signed, text


def test_a_seal_says_what_was_signed_and_by_whom() -> None:
    found = signed(7, 1, 2, operators=(2, 3))
    head = found.seal.open()
    assert (head.cluster, head.version, head.size) == (NAME, 7, len(found.content))
    assert head.operators == (public(2), public(3))
    assert found.seal.signed_by([public(2)])
    assert not found.seal.signed_by([public(3)])
    assert not found.seal.signed_by([])


def test_a_changed_head_or_signature_is_forged() -> None:
    seal = signed(7).seal
    other = make_head(NAME, 8, b"", ())
    with pytest.raises(ForgedError, match="not valid"):
        Seal(other, seal.signatures).signed_by([public(1)])
    ((name, signature),) = seal.signatures
    spoiled = bytes([signature[0] ^ 1]) + signature[1:]
    with pytest.raises(ForgedError, match="ed25519:"):
        Seal(seal.head, ((name, spoiled),)).signed_by([public(1)])
    assert not Seal(seal.head, ((public(9), signature),)).signed_by([public(1)])


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode(["coopbandits entry", NAME, 1, 0, b"0" * 32, []]),
        msgspec.msgpack.encode([*msgspec.to_builtins(Head("x", NAME, 1, 0, b"0" * 32))]),
        make_head(NAME, 1, b"", ()) + b"\0",
        make_head(NAME, 1, b"", ()).replace(NAME.encode(), b"sh\xffp"),
    ],
)
def test_what_is_no_head(head: bytes) -> None:
    with pytest.raises(InputError, match="head"):
        Seal(head, ()).open()


def test_a_head_is_written_in_one_way_only() -> None:
    """Otherwise one content would have two seals that differ."""
    long = bytearray(make_head(NAME, 1, b"", ()))
    at = long.index(b"\xa4shop")
    long[at : at + 1] = b"\xd9\x04"  # the same text, its length in another form
    with pytest.raises(InputError, match="not the head"):
        Seal(bytes(long), ()).open()


def chain(*links: tuple[int, int, int]) -> list[Seal]:
    """Return seals: version, signer, and the key that is trusted from there on."""
    return [signed(version, by, new, operators=(new,)).seal for version, by, new in links]


def test_trust_follows_a_chain() -> None:
    start = Trust(frozenset([public(1)]))
    links = chain((2, 1, 2), (5, 2, 3), (9, 3, 4))
    assert start.follow(links, NAME, 9).keys == {public(3)}, "up to a version"
    found = start.follow(links, NAME, 20)
    assert (found.keys, found.version, found.followed) == (frozenset([public(4)]), 9, tuple(links))
    late = Trust(frozenset([public(2)]), 4).follow(links, NAME, 20)
    assert (late.keys, late.followed) == (frozenset([public(4)]), tuple(links[1:]))


def test_trust_does_not_follow_what_proves_nothing() -> None:
    start = Trust(frozenset([public(1)]))
    assert start.follow(chain((2, 9, 8)), NAME, 20) == start, "a stranger's"
    assert start.follow(chain((2, 1, 2)), "other", 20) == start, "of another cluster"
    assert start.follow(chain((5, 1, 2), (3, 2, 8)), NAME, 20).keys == {public(2)}, "an older one"
    assert start.follow([signed(2).seal], NAME, 20) == start, "one that names nobody"


def test_two_may_sign() -> None:
    head = make_head(NAME, 1, b"text", ())
    seal = sign(head, [key(1), key(2)])
    assert seal.signed_by([public(1)])
    assert seal.signed_by([public(2)])


TEXT = '# ours\n[cluster]\nversion = {version}\nname = "shop"\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "cluster.toml"
    found.write_text(TEXT.format(version=1))
    return found


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    make_key(tmp_path / "operator.key")
    return tmp_path / "operator.key"


def test_a_file_is_signed_and_read(path: Path, key_file: Path) -> None:
    document, signers = sign_file(path, [key_file])
    found = load_signed(path)
    assert found.seal.signed_by(signers)
    assert found.content == document.content == read_document(found.content).content


def test_a_second_key_adds_its_signature_to_the_same_content(
    path: Path, key_file: Path, tmp_path: Path
) -> None:
    sign_file(path, [key_file])
    other = tmp_path / "other.key"
    make_key(other)
    path.write_text(path.read_text() + "# a remark changes nothing\n")
    _, signers = sign_file(path, [other])
    assert len(signers) == len(load_signed(path).seal.signatures) == 2
    path.write_text(TEXT.format(version=2))
    with pytest.raises(InputError, match="ed25519:"):
        load_signed(path)
    _, signers = sign_file(path, [key_file])
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
    path: Path, key_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sign_file(path, [key_file])
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
    path: Path, key_file: Path, caplog: pytest.LogCaptureFixture
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
    sign_file(path, [key_file])
    watched.refresh()
    watched.refresh()
    assert taken == [1]
    path.write_text(TEXT.format(version=2))
    watched.refresh()
    assert taken == [1], "its signature has not come yet"
    trouble += [DiskError("no room")]
    sign_file(path, [key_file])
    watched.refresh()
    watched.refresh()
    assert taken == [1, 2], "after trouble with the disk it is tried again"
    path.unlink()
    watched.refresh()
    WatchedDocument(None, adopt).refresh()
    assert taken == [1, 2]
