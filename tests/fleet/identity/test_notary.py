"""Proofs hold for what was signed, by whom, and for nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.notary import PROOF, TAG, Notary, pack, unpack

SCOPE = "test", 7


def notary(folder: Path, node: str = "n0", scope: tuple[str, int] = SCOPE) -> Notary:
    files = folder / "ca.pem", folder / f"{node}.pem", folder / f"{node}-key.pem"
    return Notary(node, files, scope, max_authors=4)


def certificate(one: Notary) -> bytes:
    return one.authors[one.fingerprint].certificate


def test_a_proof_holds_for_one_entry_of_one_author(certificates: Path) -> None:
    author, reader = notary(certificates), notary(certificates, "n1")
    proof = author.sign(b"entry")
    assert len(proof) == PROOF
    assert reader.author(proof) is None
    reader.learn(certificate(author))
    found = reader.author(proof)
    assert found is not None
    assert found.names == {"n0"}
    assert reader.holds(b"entry", proof)
    assert not reader.holds(b"other", proof)
    for at in range(8, PROOF, 7):
        assert not reader.holds(b"entry", proof[:at] + bytes([proof[at] ^ 1]) + proof[at + 1 :])
    assert not reader.holds(b"entry", proof[:8] + bytes(64))
    assert not reader.holds(b"entry", proof[:8] + b"\xff" * 64)
    for more in (1, 32, 90_000):  # the same numbers, with zeros before them
        assert not reader.holds(b"entry", proof[:40] + bytes(more) + proof[40:])


@pytest.mark.parametrize("scope", [("other", 7), ("test", 8)])
def test_a_proof_holds_in_one_cluster_and_epoch(scope: tuple[str, int], certificates: Path) -> None:
    author, reader = notary(certificates), notary(certificates, "n1", scope)
    reader.learn(certificate(author))
    assert not reader.holds(b"entry", author.sign(b"entry"))


def test_what_is_sealed_is_for_one_agent(certificates: Path) -> None:
    sender, reader, other = (notary(certificates, name) for name in ("n0", "n1", "n2"))
    known = [each.learn(certificate(sender)) for each in (reader, other)]
    to = sender.learn(certificate(reader))
    sealed = sender.seal(to, b"reward of a ticket", b"call")
    assert b"ticket" not in sealed
    assert reader.unseal(known[0], sealed, b"call") == b"reward of a ticket"
    assert reader.unseal(known[0], sealed, b"answer") is None
    assert other.unseal(known[1], sealed, b"call") is None
    assert reader.unseal(reader.learn(certificate(other)), sealed, b"call") is None
    for at in range(len(sealed)):
        changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        assert reader.unseal(known[0], changed, b"call") is None
        assert reader.unseal(known[0], sealed[:at], b"call") is None
    assert sender.seal(to, b"reward of a ticket", b"call")[-TAG:] != sealed[-TAG:]


@pytest.mark.parametrize("scope", [("other", 7), ("test", 8)])
def test_what_is_sealed_is_for_one_cluster_and_epoch(
    scope: tuple[str, int], certificates: Path
) -> None:
    sender, reader = notary(certificates), notary(certificates, "n1", scope)
    author, to = reader.learn(certificate(sender)), sender.learn(certificate(reader))
    assert reader.unseal(author, sender.seal(to, b"call", b""), b"") is None


def test_certificates_of_others_are_not_believed(
    certificates: Path, other_certificates: Path
) -> None:
    reader = notary(certificates)
    with pytest.raises(InputError, match="authority"):
        reader.learn(certificate(notary(other_certificates, "alpha")))
    with pytest.raises(InputError, match="cannot be read"):
        reader.learn(b"no certificate")
    assert len(reader.authors) == 1


class Shelf:
    """Keeps what some certificates are needed for."""

    def __init__(self) -> None:
        self.needed: set[bytes] = set()

    def fingerprints(self) -> set[bytes]:
        return self.needed


def test_certificates_are_bounded(certificates: Path) -> None:
    reader, book = notary(certificates), Shelf()
    for agent in range(3):
        reader.learn(certificate(notary(certificates, f"n{agent}")))
    needed = reader.learn(certificate(notary(certificates, "n3")))
    book.needed.add(needed)
    reader.holders.add(book)
    reader.learn(certificate(notary(certificates, "n4")))  # those that nobody needs make room
    assert reader.authors.keys() >= {needed, reader.fingerprint}
    book.needed |= {reader.learn(certificate(notary(certificates, f"n{k}"))) for k in (3, 4, 5)}
    with pytest.raises(InputError, match="4 certificates"):
        reader.learn(certificate(notary(certificates, "n6")))
    reader.learn(certificate(notary(certificates, "n5")))


def test_lists_of_certificates() -> None:
    assert unpack(pack([b"a", b"bc"])) == [b"a", b"bc"]
    assert unpack(b"") == []
    for bad in (b"\1", b"\2\0a", b"\0\0", b"\xff\xffa"):
        with pytest.raises(InputError, match="certificate"):
            unpack(bad)


def test_a_key_of_another_kind_cannot_sign(certificates: Path, tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    path = tmp_path / "key.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files = certificates / "ca.pem", certificates / "n0.pem", path
    with pytest.raises(InputError, match="P-256"):
        Notary("n0", files, SCOPE, 4)


def test_half_replaced_files_change_nothing(certificates: Path, tmp_path: Path) -> None:
    names = "ca.pem", "n0.pem", "n0-key.pem"
    for name in names:
        (tmp_path / name).write_bytes((certificates / name).read_bytes())
    author = notary(tmp_path)
    reader = notary(certificates, "n1")
    reader.learn(certificate(author))
    for content in (b"half", (certificates / "n1-key.pem").read_bytes()):
        (tmp_path / "n0-key.pem").write_bytes(content)
        assert reader.holds(b"entry", author.sign(b"entry"))
