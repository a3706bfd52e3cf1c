from __future__ import annotations

import msgspec
import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.document.seal import ForgedError, Head, Seal, Trust, make_head, sign

from .made import NAME, key, public, signed


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
