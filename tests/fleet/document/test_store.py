"""The document of one agent: what it takes, refuses and keeps."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.document.content import Document
from coopbandits.fleet.document.seal import MAX_CHAIN, ForgedError, Signed
from coopbandits.fleet.document.store import DocumentStore, DocumentSubscriber, RivalError
from coopbandits.fleet.storage.disk import DiskError, MemoryDisk
from coopbandits.fleet.storage.records import Adopted

from .made import journal, public, signed, store, text


class Recorder(DocumentSubscriber):
    """Remembers what it was told, and objects to some names."""

    def __init__(self, objection: str = "") -> None:
        self.taken: list[int] = []
        self.objection = objection

    def problems(self, document: Document) -> Iterable[str]:
        return [self.objection] if self.objection and document.version > 1 else []

    def apply(self, document: Document) -> None:
        self.taken.append(document.version)


def adopt(one: DocumentStore, document: Signed, **how: bool) -> bool:
    """Have a document taken and written."""
    try:
        return one.adopt(document, **how)
    finally:
        one.journal.flush()


def test_the_highest_version_is_taken_and_kept() -> None:
    disk, recorder = MemoryDisk(), Recorder()
    one = store(disk)
    assert (one.version, one.digest, one.alarm, one.enabled) == (0, b"", "", True)
    one.subscribe("recorder", recorder)
    assert adopt(one, signed(1))
    assert adopt(one, signed(3))
    assert not adopt(one, signed(3)), "it is here"
    assert recorder.taken == [1, 3]
    again, late = store(disk), Recorder()
    again.subscribe("late", late)
    assert (again.version, again.digest, late.taken) == (3, one.digest, [3])


def test_an_older_document_is_refused_and_going_back_is_a_higher_version() -> None:
    one = store()
    old = signed(1, revoked=["a"])
    adopt(one, old)
    adopt(one, signed(2))
    with pytest.raises(InputError, match=r"version 1\b.* 2\b"):
        adopt(one, old)
    adopt(one, signed(3, revoked=["a"]))
    assert one.document is not None
    assert one.document.revoked == {"a"}


def test_a_document_of_another_cluster_is_refused() -> None:
    one = store()
    with pytest.raises(InputError, match=r"'other'.*'shop'"):
        adopt(one, signed(1, cluster="other"))
    assert one.version == 0


def test_only_trusted_operators_sign() -> None:
    one = store(roots=(1, 2))
    with pytest.raises(InputError, match="ed25519:"):
        adopt(one, signed(1, 9))
    nobody = signed(1)
    with pytest.raises(InputError, match="nobody"):
        adopt(one, Signed(msgspec.structs.replace(nobody.seal, signatures=()), nobody.content))
    assert adopt(one, signed(1, 9, 2)), "one of those who signed is enough"
    assert not store(roots=()).enabled


def test_forged_documents_are_refused() -> None:
    one, good = store(), signed(1)
    other = signed(1, revoked=["a"])
    with pytest.raises(InputError, match="signed"):
        adopt(one, Signed(good.seal, other.content))
    with pytest.raises(ForgedError):
        adopt(one, Signed(msgspec.structs.replace(other.seal, signatures=good.seal.signatures),
                         other.content))  # fmt: skip
    assert one.version == 0


def test_what_stands_in_it_must_be_what_its_head_says() -> None:
    from coopbandits.fleet.document.seal import make_head, sign

    from .made import NAME, key

    content = signed(1).content
    lying = sign(make_head(NAME, 2, content, ()), [key(1)])
    with pytest.raises(InputError, match="signed head"):
        store().adopt(Signed(lying, content))
    loose = content + b"# a remark\n"
    sealed = sign(make_head(NAME, 1, loose, ()), [key(1)])
    with pytest.raises(InputError, match="canonical form"):
        store().adopt(Signed(sealed, loose))


def test_all_objections_are_told_and_nothing_has_changed() -> None:
    disk = MemoryDisk()
    one = store(disk)
    adopt(one, signed(1))
    before, quiet = bytes(disk.data), Recorder()
    one.subscribe("a", Recorder("there is no room"))
    one.subscribe("quiet", quiet)
    one.subscribe("b", Recorder("it is too late"))
    with pytest.raises(InputError) as refused:
        adopt(one, signed(2, operators=(2,)))
    lines = str(refused.value).splitlines()
    assert lines[1:] == ["there is no room", "it is too late"]
    assert "operators" in lines[0]
    assert (one.version, quiet.taken, bytes(disk.data)) == (1, [1], before)


# What earlier documents said of bandits


def said(one: DocumentStore) -> tuple[dict[str, int], dict[str, int]]:
    """Return the versions by which bandits are declared and retired."""
    assert one.document is not None
    sections = {name: section.version for name, section in one.document.sections.items()}
    return sections, dict(one.document.stopped)


def test_what_a_document_does_not_mention_stays_as_earlier_ones_say() -> None:
    disk = MemoryDisk()
    one, tables = store(disk), {"a": {"arms": ["x", "y"]}, "b": {"sigma": 1.5}}
    adopt(one, signed(1, bandits=tables, retired=["c"]))
    assert said(one) == ({"a": 1, "b": 1}, {"c": 1})
    adopt(one, signed(2, bandits={"b": {"sigma": 2.0}, "d": {}}))
    assert said(one) == ({"a": 1, "b": 2, "d": 2}, {"c": 1})
    adopt(one, signed(4, retired=["d", "c", "other"], bandits={"e": {}}))
    for found in (one, store(disk), one):
        assert said(found) == ({"a": 1, "b": 2, "e": 4}, {"c": 1, "d": 4, "other": 4})
        assert found.document is not None
        assert found.document.sections["a"].table == tables["a"]
        assert found.document.sections["b"].table == {"sigma": 2.0}
        one.journal.compact({})
    adopt(one, signed(5, bandits={"c": {}, "d": {}}))
    assert said(store(disk)) == ({"a": 1, "b": 2, "e": 4, "c": 5, "d": 5}, {"other": 4})
    away = store()
    adopt(away, signed(5, bandits={"c": {}, "d": {}}))
    assert said(away) == ({"c": 5, "d": 5}, {}), "it never saw the others"


def test_an_alarm_keeps_what_earlier_documents_said() -> None:
    disk = MemoryDisk()
    one = store(disk)
    adopt(one, signed(1, bandits={"a": {}}, retired=["b"]))
    adopt(one, signed(2))
    with pytest.raises(RivalError):
        adopt(one, signed(2, retired=["a"]))
    assert said(store(disk)) == ({"a": 1}, {"b": 1})


# Two contents of one version


def test_two_contents_of_one_version_raise_an_alarm_that_a_higher_version_ends() -> None:
    disk = MemoryDisk()
    one = store(disk)
    adopt(one, signed(2))
    first = one.digest
    with pytest.raises(RivalError, match="version 2"):
        adopt(one, signed(2, revoked=["a"]))
    assert "higher version" in one.alarm
    assert one.digest == first, "the first one stays"
    again = store(disk)
    assert again.alarm == one.alarm, "after a restart, too"
    assert adopt(again, signed(3))
    assert not again.alarm
    assert not store(disk).alarm


def test_a_rival_that_nobody_trusted_raises_no_alarm() -> None:
    one = store()
    adopt(one, signed(2))
    with pytest.raises(InputError, match="signed by"):
        adopt(one, signed(2, 9, revoked=["a"]))
    assert not one.alarm


def test_the_same_content_signed_by_somebody_else_is_no_rival() -> None:
    one = store(roots=(1, 2))
    adopt(one, signed(2, 1))
    assert not adopt(one, signed(2, 2))
    assert not one.alarm


# Keys that change


def test_keys_rotate_by_a_document_signed_with_a_key_trusted_before() -> None:
    one = store()
    assert adopt(one, signed(2, 1, 2, operators=(2,)))
    assert one.keys == (public(2),)
    with pytest.raises(InputError, match="signed by"):
        adopt(one, signed(3, 1))
    assert adopt(one, signed(3, 2))


def test_a_key_that_was_rotated_out_cannot_come_back_by_a_chain_of_its_own() -> None:
    one = store()
    adopt(one, signed(2, 1, 2, operators=(2,)))
    back = signed(3, 1, operators=(1,)).seal
    late = signed(4, 1)
    with pytest.raises(InputError, match="signed by"):
        adopt(one, Signed(late.seal, late.content, (back,)))
    assert one.keys == (public(2),)


def test_who_was_away_follows_the_chain() -> None:
    away, there = store(), store()
    for one in (away, there):
        adopt(one, signed(1))
    there.adopt(signed(2, 1, 2, operators=(2,)))
    there.adopt(signed(5, 2, 3, operators=(3,)))
    there.adopt(signed(6, 3))
    assert there.stored is not None
    with pytest.raises(InputError, match="signed by"):
        away.adopt(signed(6, 3))
    assert away.adopt(there.stored.signed)
    assert (away.version, away.keys) == (6, (public(3),))
    assert away.stored is not None
    assert away.stored.signed.chain == there.stored.signed.chain, "and can hand it on"


def test_a_chain_does_not_grow_without_end() -> None:
    one = store(roots=(0,))
    for version in range(1, MAX_CHAIN + 5):
        adopt(one, signed(version, version - 1, version, operators=(version,)))
    assert one.stored is not None
    assert len(one.stored.signed.chain) == MAX_CHAIN


def test_who_writes_the_agents_own_file_decides_whom_it_believes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All keys are lost: new ones are written into the files of all nodes."""
    disk = MemoryDisk()
    one = store(disk)
    adopt(one, signed(2, 1, 2, operators=(2,)))
    assert "none of the operators" in caplog.text
    again = store(disk, roots=(7,))
    assert (again.version, again.keys) == (2, (public(7),))
    assert adopt(again, signed(3, 7))
    assert store(disk, roots=(7,)).version == 3


def test_a_key_that_a_document_dropped_does_not_come_back_with_an_edit_of_the_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = MemoryDisk()
    adopt(store(disk), signed(1, 1, 2, operators=(2,)))
    for roots, trusted in [((1, 2), {2}), ((2,), {2}), ((1, 7), {7}), ((1,), {2}), ((), set())]:
        assert set(store(disk, roots).keys) == set(map(public, trusted))
    again = store(disk, roots=(1, 2))
    assert f"operators={text(1)}" in caplog.text
    with pytest.raises(InputError, match="signed by"):
        adopt(again, signed(2, 1))
    adopt(again, signed(2, 2))
    assert store(disk, roots=(1, 2, 7)).keys == tuple(sorted((public(2), public(7))))
    again = store(disk, roots=(1, 2))
    adopt(again, signed(3, 2, operators=(1, 2)))
    assert set(again.keys) == {public(1), public(2)}, "a document names it again"
    assert set(store(disk, roots=(1, 7)).keys) == {public(1), public(7)}


def test_keys_that_were_dropped_on_the_way_stay_dropped() -> None:
    there, disk = store(), MemoryDisk()
    adopt(there, signed(1, 1, 2, operators=(2,)))
    adopt(there, signed(2, 2, 3, operators=(3,)))
    assert there.stored is not None
    adopt(store(disk), there.stored.signed)
    assert store(disk, roots=(1, 2, 3)).keys == (public(3),)


# Crashes and damage


def test_what_cannot_be_stored_is_not_taken() -> None:
    disk, recorder = MemoryDisk(), Recorder()
    one = store(disk)
    adopt(one, signed(1))
    one.subscribe("recorder", recorder)

    one.journal.trouble = "the journal cannot be written: no room"
    with pytest.raises(DiskError):
        adopt(one, signed(2))
    assert (one.version, recorder.taken) == (1, [1])


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_crash_at_any_byte_leaves_the_old_or_the_new_document(durability: str) -> None:
    disk = MemoryDisk(durability=durability)
    one = store(disk)
    adopt(one, signed(1))
    start = len(disk.data)
    adopt(one, signed(2))
    whole = bytes(disk.data)
    for end in range(start, len(whole) + 1):
        torn = MemoryDisk(durability=durability)
        torn.data = bytearray(whole[:end])
        assert store(torn).version == (2 if end == len(whole) else 1)


def test_a_document_that_is_damaged_in_the_journal_is_refused() -> None:
    disk = MemoryDisk()
    adopt(store(disk), signed(1))
    at = disk.data.index(b"[cluster]")
    disk.data[at] ^= 1
    with pytest.raises(InputError, match="at byte"):
        store(disk)


def test_a_document_of_a_later_version_of_this_program_is_refused() -> None:
    for body in (b"\x80", b"\xc1", msgspec.msgpack.encode({"signed": 3})):
        disk = MemoryDisk()
        made = journal(disk)
        made.adopt(Adopted(body))
        made.flush()
        with pytest.raises(InputError, match="install"):
            store(disk)


def test_a_new_snapshot_keeps_the_document() -> None:
    disk = MemoryDisk()
    one = store(disk)
    adopt(one, signed(1))
    for version in (2, 3):
        one.journal.compact({})
        adopt(one, signed(version))
    one.journal.compact({})
    found = store(disk)
    assert found.version == 3
    assert bytes(disk.data).count(b"[cluster]") == 1, "the ones before are gone"
