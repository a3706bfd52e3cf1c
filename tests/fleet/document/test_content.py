from __future__ import annotations

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.document.content import MAX_CONTENT, MAX_VERSION, read_document

from .made import public, text

WHOLE = f"""
# as people write it
[[members]]
address = "10.0.0.1:7400"
id = "shop-1"

[cluster]
version = 3   # the third
operators = ["{text(2)}"]
revoked = ["shop-9"]
name = "shop"

[settings]
signatures_per_second = 1
rounds_per_second = 5.0
"""


def test_a_document_is_read() -> None:
    found = read_document(WHOLE.encode())
    assert (found.name, found.version, found.operators) == ("shop", 3, (public(2),))
    assert found.revoked == {"shop-9"}
    assert found.members == {"shop-1": Address("10.0.0.1", 7400)}
    assert found.settings == {"rounds_per_second": 5.0, "signatures_per_second": 1.0}


def test_equal_contents_have_equal_bytes_however_they_are_written() -> None:
    found = read_document(WHOLE.encode())
    assert read_document(found.content).content == found.content
    other = f"""
cluster = {{version = 3, name = 'shop', revoked = ['shop-9'], operators=["{text(2)}"]}}
members = [{{id = "shop-1", address = "10.0.0.1:7400"}}]
settings.rounds_per_second = 5.0
settings.signatures_per_second = 1"""
    assert read_document(other.encode()).content == found.content
    assert read_document(WHOLE.replace("shop-9", "shop-8").encode()).content != found.content


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InputError) as refused:
        read_document(
            b"""
colour = "red"
members = [{id = "a"}, {id = "b", address = "b:1"}, {id = "b", address = "b:2"}]
[cluster]
name = ""
version = 0
revoked = ["b", "B"]
[settings]
arms = 3
rounds_per_second = 201.0
[bandits]
"a b" = {}
c = 3
"""
        )
    lines = str(refused.value).splitlines()
    assert len(lines) == 10, lines
    assert all(line.startswith("document: ") for line in lines)
    for part in ("'colour'", "no address", "b is listed twice", "name is ''", "version is 0",
                 "revoked[1] is 'B'", "'arms'", "201", "'a b'", "c is 3"):  # fmt: skip
        assert part in str(refused.value)


@pytest.mark.parametrize("version", ["0", "-1", "true", "1.0", str(MAX_VERSION + 1), str(2**63)])
def test_versions_that_are_none(version: str) -> None:
    with pytest.raises(InputError, match=f"(?i)version.* {version}"):
        read_document(f'[cluster]\nname = "shop"\nversion = {version}'.encode())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cluster", "not TOML"),
        ("cluster = 3", r"\[cluster\].* 3\b"),
        ("a.b = 1", "'a'"),
        ("members = 3\nbandits = 3", "members"),
        ('[cluster]\nname = "shop"\nversion = 1\nrevoked = "a"', "revoked"),
        (
            '[cluster]\nname = "s"\nversion = 1\noperators = ["x"]',
            "coopbandits cluster keygen",
        ),
        (
            '[cluster]\nname = "s"\nversion = 1\nrevoked = ["a"]\n'
            '[[members]]\nid = "a"\naddress = "a:1"',
            r"\ba\b.*revoked",
        ),
        (
            '[cluster]\nname = "s"\nversion = 1\n[bandits.x]\n' + "a." * 3000 + "b = 1",
            "nested too deeply",
        ),
        ("#" * (MAX_CONTENT + 1), "262144"),
    ],
)
def test_what_is_no_document(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_document(text.encode())


def test_what_is_no_text() -> None:
    with pytest.raises(InputError, match="not TOML"):
        read_document(b"\xff\xfe")


def test_a_key_twice() -> None:
    both = f'[cluster]\nname = "s"\nversion = 1\noperators = ["{text(1)}", "{text(1)}"]'
    with pytest.raises(InputError, match="twice"):
        read_document(both.encode())
