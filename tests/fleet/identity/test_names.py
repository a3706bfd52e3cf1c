from __future__ import annotations

from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.names import NODE_ID, Revoked, agent_number, read_revoked


def test_ids_are_labels_of_dns_names() -> None:
    long = ".".join(["x" * 63] * 3)
    good = ("a", "7", "shop-1", "a--b", "x" * 63, "shop-1.example.org", f"{long}.{'y' * 61}")
    assert all(map(NODE_ID.fullmatch, good))
    bad = ("", "-a", "a-", "A", "a_b", "é", "x" * 64, "a.", ".a", "a..b", "*.b", "a.-b", "a\n")
    assert not any(map(NODE_ID.fullmatch, (*bad, f"{long}.{'y' * 62}")))


def test_agent_numbers_are_exact_in_a_float() -> None:
    numbers = [agent_number(f"shop-{k}") for k in range(2000)]
    assert len(set(numbers)) == 2000
    assert max(numbers) > 2**47
    assert all(0 <= number < 2**48 and int(float(number)) == number for number in numbers)
    assert agent_number("shop-1") == 0xF3870F560C2E  # `printf shop-1 | b2sum -l 48`


def test_ids_stand_one_per_line(tmp_path: Path) -> None:
    path = tmp_path / "revoked"
    path.write_text("# who lied\n\n shop-1 \nshop-2# again\n")
    assert read_revoked(path) == {"shop-1", "shop-2"}
    assert Revoked(None).names == frozenset()
    assert not Revoked(None).refresh()


def test_a_change_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "revoked"
    path.write_text("shop-1")
    found = Revoked(path)
    assert not found.refresh()
    path.write_text("shop-1\n")
    assert not found.refresh(), "the same ids"
    path.write_text("shop-1\nshop-2\n")
    assert found.refresh()
    assert found.names == {"shop-1", "shop-2"}
    path.unlink()
    assert not found.refresh()
    assert found.names == {"shop-1", "shop-2"}, "a missing file sets nobody free"


def test_another_file_counts_from_the_next_look_on(tmp_path: Path) -> None:
    path = tmp_path / "revoked"
    path.write_text("shop-1")
    found = Revoked(None)
    found.follow(path)
    assert found.refresh()
    assert found.names == {"shop-1"}
    found.follow(path)
    assert not found.refresh()
    found.follow(tmp_path / "none")
    assert not found.refresh()
    assert found.names == {"shop-1"}, "nor does a wrong name"
    found.follow(None)
    assert found.refresh()
    assert found.names == frozenset()


@pytest.mark.parametrize("content", [b"Shop 1", b"shop-1\n-", b"\xff"])
def test_what_is_no_list_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "revoked"
    path.write_bytes(content)
    with pytest.raises(InputError):
        Revoked(path)
    with pytest.raises(InputError, match="revoked ids"):
        Revoked(tmp_path / "none")
