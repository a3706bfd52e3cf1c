"""The content of documents: reading, canonical form, checks and differences."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from coopbandits.cli import app
from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.config.read import write_config
from coopbandits.fleet.document.content import (
    MAX_CONTENT,
    MAX_VERSION,
    check_document,
    differences,
    read_document,
    unmentioned,
)
from coopbandits.fleet.document.seal import signature_file
from coopbandits.fleet.identity.operators import make_key

from ..bandits import BUTTON
from .made import public, signed, text

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


def test_bandits_are_retired_by_name_and_not_declared_as_well() -> None:
    head = '[cluster]\nname = "shop"\nversion = 3\n'
    found = read_document(f'retired = ["banner", "page"]\n{head}'.encode())
    assert found.retired == {"banner", "page"}
    assert found.content.startswith(b'retired = ["banner", "page"]\n\n[cluster]\n')
    assert read_document(found.content) == found
    assert (
        read_document(f"retired = []\n{head}".encode()).content
        == read_document(head.encode()).content
    )
    for value, wrong in (
        ('["button"]', "bandit button is retired and declared in [bandits.button]; remove it"),
        ('["a b"]', "retired[0] is 'a b'; it must be a name such as 'checkout-button'"),
        ('"banner"', "retired is 'banner'; it must be a list of bandits' names, such as"),
        ("[3]", "retired[0] is 3; it must be a name such as"),
    ):
        text = f'retired = {value}\n{head}[bandits.button]\narms = ["a", "b"]\n'
        with pytest.raises(InputError) as refused:
            read_document(text.encode())
        (line,) = str(refused.value).splitlines()
        assert wrong in line
    with pytest.raises(InputError, match=r"\[cluster\] has the key retired; write it at the top"):
        read_document(f'{head}retired = ["banner"]\n'.encode())


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


HEAD = {"name": "shop", "version": 3}
NODE = {"id": "n0", "journal": "n0", "listen": "127.0.0.1:7400", "api": "127.0.0.1:8400"}


def node_file(path: Path, name: str = "shop", **tables: object) -> Path:
    """A node with one bandit, and with other tables."""
    cluster = {"name": name, "epoch": datetime(2026, 1, 1, tzinfo=UTC)}
    told = {"cluster": cluster, "node": NODE, "bandits": {"button": BUTTON}}
    path.write_text(write_config(told | tables))
    return path


def test_nothing_is_signed_that_agents_would_refuse(tmp_path: Path) -> None:
    path, key = tmp_path / "cluster.toml", tmp_path / "operator.key"
    make_key(key)
    bandits = {
        "button": BUTTON | {"pinned": "blue", "token_file": "token"},
        "banner": {"arms": ["a", "b"], "sigma": 1.0, "policy": "dducb"},
        "page": {"arms": ["a"], "sigma": 1.0},
    }
    path.write_text(write_config({"cluster": HEAD, "bandits": bandits}))
    with pytest.raises(InputError) as refused:
        app(["cluster", "sign", str(path), "--key", str(key)], standalone_mode=False)
    lines = str(refused.value).splitlines()
    told = ("token_file is a file of", "pinned in [bandits.button]", "no num_agents", "a list of 1")
    assert all(any(text in line for line in lines) for text in told), lines
    assert not signature_file(path).exists()
    path.write_text(write_config({"cluster": HEAD | {"colour": 1}, "bandits": {"b": {}}}))
    with pytest.raises(InputError, match=r"(?s)\[cluster\].*\[bandits.b\].*arms"):
        check_document(path.read_bytes())
    path.write_text(write_config({"cluster": HEAD | {"colour": 1}}) + "[bandits]\nb = 1\n")
    with pytest.raises(InputError, match=r"(?s)\[cluster\].*\[bandits\] b.* 1\b"):
        check_document(path.read_bytes())


@pytest.mark.parametrize("key", ["reward_range", "features"])
def test_a_number_beyond_all_floats_is_one_sentence(key: str) -> None:
    huge = [0, 10**400]
    given = BUTTON | {key: huge if key == "reward_range" else {"hour": huge}}
    content = write_config({"cluster": HEAD, "bandits": {"button": given}}).encode()
    with pytest.raises(InputError, match=rf"\[bandits\.button\] {key}.* \[0, 10+\]"):
        check_document(content)


def test_files_of_nodes_are_looked_at_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, key = tmp_path / "cluster.toml", tmp_path / "operator.key"
    public = make_key(tmp_path / "new.key").hex()
    make_key(key)
    head = HEAD | {"operators": [f"ed25519:{public}"]}
    members = [{"id": "n1", "address": "10.0.0.1:7400"}]
    path.write_text(
        write_config({"cluster": head, "bandits": {"button": BUTTON}, "members": members})
    )
    near = [{"id": "n1", "address": "127.0.0.1:7401"}]
    one, other = node_file(tmp_path / "one.toml", neighbors=near), tmp_path / "other.toml"
    node_file(other, "bank")
    sign = ["cluster", "sign", str(path), "--key", str(key)]
    with pytest.raises(InputError) as refused:
        app([*sign, "--node", str(one), "--node", str(other)], standalone_mode=False)
    first, second = str(refused.value).splitlines()
    assert "n1 is at 10.0.0.1:7400" in first
    assert "'bank'" in second
    node_file(other)
    app([*sign, "--node", str(other)], standalone_mode=False)
    told = capsys.readouterr()
    assert told.out.startswith("version 3 of shop, signed by 1")
    assert "none of them has signed it" in told.err
    path.write_text(write_config({"cluster": HEAD, "settings": {"rounds_per_second": 0.01}}))
    node_file(other, bandits={"button": BUTTON | {"half_life": "60s"}})
    with pytest.raises(InputError, match="half_life"):
        app([*sign, "--node", str(other)], standalone_mode=False)


def test_what_changes_is_told_line_by_line() -> None:
    old = read_document(
        signed(
            1,
            revoked=["a"],
            members=[{"id": "b", "address": "b:1"}, {"id": "c", "address": "c:1"}],
            settings={"rounds_per_second": 5.0},
            bandits={"button": {"arms": ["red", "blue"], "pinned": "red"}, "banner": {}},
            retired=["old", "gone"],
        ).content
    )
    new = read_document(
        signed(
            2,
            operators=(2,),
            members=[{"id": "b", "address": "b:2"}],
            settings={"max_pulls_per_second": 10.0},
            bandits={"button": {"arms": ["red", "blue", "green"]}, "page": {}},
            retired=["gone", "late"],
        ).content
    )
    assert differences(old, new) == [
        '~ [bandits.button] arms: ["red", "blue"] -> ["red", "blue", "green"]',
        '- [bandits.button] pinned = "red"',
        "+ [bandits.page]",
        "~ [cluster] version: 1 -> 2",
        "+ [settings] max_pulls_per_second = 10",
        "- [settings] rounds_per_second = 5",
        "~ member b: b:1 -> b:2",
        "- member c = c:1",
        f"+ operator {text(2)}",
        "+ retired late",
        "- revoked a",
    ]
    assert unmentioned(old, new) == [
        "= bandit banner is not mentioned and continues",
        "= bandit old is not mentioned and stays retired",
    ]
    assert unmentioned(new, new) == []
    assert differences(new, new) == []
    assert differences(None, old)[0].startswith("+ ")
