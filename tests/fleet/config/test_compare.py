from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from coopbandits.fleet.config import write_config
from coopbandits.fleet.config.check import compare_files

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
        ("rounds_per_second", 5, r"rounds_per_second.* 5\.0.*1\.toml.* 20\.0"),
        ("max_agents", 9, r"max_agents.* 9\b.*1\.toml.* none"),
    ],
)
def test_other_clusters(key: str, value: Any, sentence: str) -> None:
    (found,) = problems(node(1), node(2, (f"cluster.{key}", value)))
    assert re.search(rf"2\.toml.*\[cluster\] {sentence}", found)
    assert "same on all nodes" in found


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("number", 7, r"number is 7,.*1\.toml.* \d+;"),
        ("policy", "tree-ts", r"policy.*'tree-ts'.*1\.toml.*'flood-ts'"),
        ("half_life", "2h", r"half_life is 2 h\b.*1\.toml has none"),
        ("reward_range", [0, 2], r"reward_range.*\[0\.0, 2\.0\].*1\.toml.*\[0\.0, 1\.0\]"),
    ],
)
def test_other_bandits(key: str, value: Any, sentence: str) -> None:
    (found,) = problems(node(1), node(2, (f"bandits.button.{key}", value)))
    assert re.search(rf"2\.toml.*\[bandits\.button\] {sentence}", found)
    assert "same on all nodes" in found


def test_arms_may_differ_unless_a_policy_keeps_them() -> None:
    fewer = ("bandits.button.arms", ["red", "blue"])
    assert problems(node(1), node(2, fewer)) == []
    told = ("bandits.button.policy", "dec-ts"), ("bandits.button.num_agents", 2)
    (found,) = problems(node(1, *told), node(2, *told, fewer))
    assert re.search(r"arms.*\['red', 'blue'\].*1\.toml.*\['red', 'green'", found)


def test_a_bandit_of_one_node_alone() -> None:
    more = ("bandits.banner", {"arms": ["a", "b"], "sigma": 1.0})
    (found,) = problems(node(1), node(2, more))
    assert re.search(r"banner is declared in 2\.toml alone", found)


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
