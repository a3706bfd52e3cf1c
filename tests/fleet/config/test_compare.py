from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from coopbandits.fleet.config import write_config
from coopbandits.fleet.config.compare import compare_files

from .sample import NOW, spoiled

Changes = tuple[tuple[str, Any], ...]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let paths be short."""
    monkeypatch.chdir(tmp_path)


def node(number: int, *changes: tuple[str, Any]) -> Path:
    """Write the file of one of two nodes that are neighbours."""
    other = 3 - number
    own: Changes = (
        ("node.id", f"shop-{number}"),
        ("node.listen", f"0.0.0.0:740{number}"),
        ("neighbors", [{"id": f"shop-{other}", "address": f"host-{other}:740{other}"}]),
    )
    path = Path(f"{number}.toml")
    path.write_text(write_config(spoiled(*own, *changes)))
    return path


def problems(*paths: Path) -> list[str]:
    return compare_files(paths, now=NOW)[1]


def test_files_that_agree() -> None:
    text, found = compare_files([node(1), node(2)], now=NOW)
    assert found == []
    first, rest = text.splitlines()
    assert first == "nodes shop-1, shop-2 of cluster shop"
    assert "certificates and tokens" in rest


def test_others_are_named() -> None:
    more = [{"id": "shop-2", "address": "host-2:7402"}, {"id": "mill", "address": "mill:1"}]
    text, found = compare_files([node(1, ("neighbors", more)), node(2)], now=NOW)
    assert found == []
    assert "mill" in text


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("arms", ["red", "blue"], r"arms.*\['red', 'blue'\].*1\.toml.*\['red', 'green'"),
        ("rounds_per_second", 5, r"rounds_per_second.* 5\.0.*1\.toml.* 20\.0"),
        ("policy", "tree-ts", r"policy.*'tree-ts'.*1\.toml.*'flood-ts'"),
    ],
)
def test_other_clusters(key: str, value: Any, sentence: str) -> None:
    (found,) = problems(node(1), node(2, (f"cluster.{key}", value)))
    assert re.search(rf"2\.toml.*\[cluster\] {sentence}", found)
    assert "same on all nodes" in found


def test_another_epoch() -> None:
    epoch = spoiled()["cluster"]["epoch"].replace(year=2025)
    (found,) = problems(node(1), node(2, ("cluster.epoch", epoch)))
    assert re.search(r"epoch.* 2025-01-31T12:00:00\+00:00.*1\.toml.* 2026-01-31T12:00", found)


def test_links_of_one_end() -> None:
    (found,) = problems(node(1), node(2, ("neighbors", [])))
    assert re.search(r"2\.toml.*\[\[neighbors\]\].*shop-1", found)


def test_other_ports() -> None:
    (found,) = problems(node(1), node(2, ("node.listen", "0.0.0.0:0")))
    assert re.search(r"1\.toml.*shop-2.* host-2:7402.*2\.toml.* 0\.0\.0\.0:0", found)


def test_the_same_name_twice() -> None:
    third = Path("3.toml")
    third.write_text(node(2).read_text())
    (found,) = problems(node(1), node(2), third)
    assert re.search(r"3\.toml.*\[node\] id.* shop-2.*2\.toml", found)


def test_files_that_are_wrong_by_themselves() -> None:
    bad = node(2, ("node.id", "Shop"), ("cluster.name", ""))
    text, found = compare_files([node(1), bad, Path("none.toml")], now=NOW)
    name, own, missing = found
    assert re.search(r"2\.toml.*\[cluster\] name.* ''", name)
    assert re.search(r"2\.toml.*\[node\] id.* 'Shop'", own)
    assert re.search(r"none\.toml.*No such file", missing)
    assert text.startswith("nodes shop-1 of cluster shop\nnot compared")
    assert compare_files([bad], now=NOW)[0] == ""
