"""Agents without files trust those of their cluster, and leave nothing behind."""

from __future__ import annotations

import ssl
import tempfile
import time
from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.chains import read_holder
from coopbandits.fleet.identity.notary import ThrowawayNotary
from coopbandits.fleet.identity.tls import Credentials, ThrowawayCredentials

SCOPE = "shop", 7


def names_proved(dialler: Credentials, listener: Credentials) -> list[str]:
    """Return whom each end takes the other one for, after a handshake in memory."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        dialler.contexts().client.wrap_bio(back, there),
        listener.contexts().server.wrap_bio(there, back, server_side=True),
    )
    for end in (*ends, *ends):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return [*map(min, (read_holder(end.getpeercert(True)).names for end in ends))]


@pytest.fixture(autouse=True)
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_links_of_one_cluster_are_proved(left: Path) -> None:
    """Both ends have made their certificates by themselves."""
    alpha, beta = ThrowawayCredentials("alpha", "shop"), ThrowawayCredentials("beta", "shop")
    assert names_proved(alpha, beta) == ["beta", "alpha"]
    assert alpha.contexts() is alpha.contexts(), "there is nothing to read again"
    assert alpha.expires > time.time() + 365 * 86400
    assert not list(left.iterdir())


def test_another_cluster_is_not_trusted() -> None:
    with pytest.raises(ssl.SSLError):
        names_proved(ThrowawayCredentials("alpha", "shop"), ThrowawayCredentials("beta", "mill"))


def test_entries_of_one_cluster_are_proved(left: Path) -> None:
    author, reader = (ThrowawayNotary(node, "shop", SCOPE, 4) for node in ("n0", "n1"))
    proof = author.sign(b"entry")
    certificate = author.authors[author.fingerprint].certificate
    reader.learn(certificate)
    found = reader.author(proof)
    assert found is not None
    assert found.names == {"n0"}
    assert reader.holds(b"entry", proof)
    assert not reader.holds(b"other", proof)
    with pytest.raises(InputError, match="authority has not signed"):
        ThrowawayNotary("n1", "mill", SCOPE, 4).learn(certificate)
    assert not list(left.iterdir())


def test_what_an_earlier_process_has_signed_still_holds() -> None:
    """A journal keeps proofs of others, and its agent makes another certificate at each start."""
    author = ThrowawayNotary("n0", "shop", SCOPE, 4)
    proof, certificate = author.sign(b"entry"), author.authors[author.fingerprint].certificate
    again = ThrowawayNotary("n0", "shop", SCOPE, 4)
    assert again.fingerprint != author.fingerprint
    again.learn(certificate)
    assert again.holds(b"entry", proof)
