"""`coopbandits agent --check` explains a file, and compares those of several nodes."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coopbandits.fleet.config import DocumentConfig, NodeConfig, parse_config, write_config
from coopbandits.fleet.config.check import compare_files, explain, find_warnings
from coopbandits.fleet.identity.certs import init_authority, issue

from .sample import NOW, REMOVED, made, spoiled

DAY = 86400.0
START = float(int(time.time()))  # of certificates, which the clock decides about


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    """A node with certificates."""
    init_authority(tmp_path)
    issue(tmp_path, ["shop-1"], now=datetime.fromtimestamp(START, UTC))
    return parse_config(spoiled(), tmp_path / "node.toml", now=NOW)


def rows(config: NodeConfig) -> dict[str, str]:
    lines = [line.split("  ", 1) for line in explain(config, START).splitlines()]
    return {line[0]: line[1].strip() for line in lines if len(line) == 2}


def test_explain(config: NodeConfig, tmp_path: Path) -> None:
    end = datetime.fromtimestamp(START + 90 * DAY, UTC)
    facts = {
        "node": f"shop-1 .*shop\\b.*{config.cluster.hash[:12]}",
        "learning": "2026-01-31 12:00:00 UTC.* bandits: 1",
        "": ".",
        "pace": "20 rounds per second",
        "memory": "56 MB",
        "listens": r"10\.0\.0\.1:7400, mutual TLS",
        "neighbours": r"2: shop-2 at 10\.0\.0\.2:7400, shop-3 at \[fd00::3\]:7401",
        "journal": f"{tmp_path}/memory/shop-1",
        "API": r"127\.0\.0\.1:8400",
        "certificate": rf"{end:%Y-%m-%d} \(90 days\)",
    }
    told = rows(config)
    assert told.keys() == facts.keys()
    for row, fact in facts.items():
        assert re.search(fact, told[row])
    for fact in (
        "  button .*3 arms, rewards 0 to 1\n",
        " flood-ts, robust: rounds continue",
        f" number {config.bandits['button'].number}\n",
        r"nothing without news, .*up to 8002 values, 1\.3 MB/s",
    ):
        assert re.search(fact, explain(config, START))
    assert "warning" not in explain(config, START)


def of_bandit(config: NodeConfig, **told: Any) -> NodeConfig:
    """Return the configuration with other settings of its bandit."""
    return replace(config, bandits={"button": replace(config.bandits["button"], **told)})


def test_explain_other_settings(config: NodeConfig) -> None:
    changed = of_bandit(config, policy="dec-ts", num_agents=3, sigma=2.0, reward_range=None)
    other = replace(changed, api=Path("/run/x"), token_file=Path("t"), api_tls=config.tls)
    text = explain(other, START)
    assert "3 arms, rewards sigma 2\n" in text
    assert " dec-ts, synchronous: every round waits" in text
    assert " 6 values to each neighbour, 3.2 kB/s\n" in text
    assert rows(other)["API"] == "unix:/run/x, with a token, mutual TLS"
    assert "rewards 0 to 1, sigma 0.5\n" in explain(of_bandit(config, sigma=0.5), START)


def test_explain_several_bandits(config: NodeConfig, tmp_path: Path) -> None:
    data = spoiled()
    data["bandits"] = {
        "button": {"arms": ["red", "green"], "reward_range": [0.0, 1.0], "half_life": "2h"},
        "layout": {
            "number": 7, "arms": ["wide", "narrow", "old"], "sigma": 1.0,
            "policy": "tree-sums*lin-ts:disjoint=true", "features": {"age": [18, 99]},
        },
    }  # fmt: skip
    told = explain(parse_config(data, tmp_path / "node.toml", now=NOW), START)
    for fact in (
        "2026-01-31 12:00:00 UTC.* bandits: 2",
        "half in 2 h.* 15 min",
        r"news of 1000 agents.* 1\.1 MB/s",
        r"(?s)layout .* 3 arms.* sigma 1\n.* tree-sums\*lin-ts:disjoint=true.* number 7\n",
        "age, a number from 18 to 99: 2 columns",
        r"6\.0 kB/s.* 11\.3 kB/s",
    ):
        assert re.search(fact, told)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("max_agents", 1001, "1001 agents"),
        ("rounds_per_second", 201.0, "201 rounds per second"),
        ("rounds_per_second", 1.9, "9.5 rounds"),
    ],
)
def test_warnings_of_the_cluster(config: NodeConfig, key: str, value: Any, sentence: str) -> None:
    cluster = replace(config.cluster, **{key: value})
    changed = replace(of_bandit(config, cluster=cluster), cluster=cluster)
    (found,) = find_warnings(changed, START)
    assert sentence in found
    assert explain(changed, START).endswith(f"\nwarning: {found}")


def test_warnings_of_the_node(config: NodeConfig) -> None:
    assert list(find_warnings(config, START + 60 * DAY)) == []
    (found,) = find_warnings(config, START + 60.5 * DAY)
    assert re.search("29 days.*coopbandits certs renew", found)
    changes = (("tls", REMOVED), ("neighbors", REMOVED), ("node.listen", "127.0.0.1:0"))
    alone, without = find_warnings(made(*changes, insecure=True), START)
    assert "shop-1 has no neighbours" in alone
    assert "[tls]" in without


def test_explain_forgetting(config: NodeConfig) -> None:
    forgets = of_bandit(config, half_life=7200.0)
    assert re.search("forgets half in 2 h.* 15 min", explain(forgets, START))
    assert " 9002 values" in explain(forgets, START), "one value more per entry"
    assert "warning" not in explain(forgets, START)
    short = of_bandit(config, half_life=1800.0)
    (found,) = find_warnings(short, START)
    assert "1 h after" in found


def test_whose_documents_are_taken_is_told(config: NodeConfig, tmp_path: Path) -> None:
    assert "operators" not in rows(config)
    known = replace(config, document=DocumentConfig((bytes(32),)))
    assert rows(known)["operators"].startswith("1,")
    file = tmp_path / "cluster.toml"
    watched = replace(config, document=DocumentConfig((bytes(32), bytes(32)), file))
    assert re.search(rf"^2,.*{file}", rows(watched)["operators"])


@pytest.mark.parametrize(
    ("later", "told"),
    [
        (-3, "from 20"),
        (0, None),
        (80, "10 days"),
        (2000, "expired on 20"),
    ],
)
def test_the_certificate_of_the_api_is_warned_of(
    config: NodeConfig, later: int, told: str | None
) -> None:
    shown = replace(config, tls=None, api_tls=config.tls)
    found = [each for each in find_warnings(shown, START + later * DAY) if "of the API" in each]
    assert len(found) == (told is not None)
    assert told is None or told in found[0]


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


def test_a_default_that_only_a_document_may_declare_causes_a_warning(config: NodeConfig) -> None:
    known = replace(config, default_bandit="button")
    assert rows(known)["default"] == "bandit button, for calls that name none"
    assert not list(find_warnings(known, START))
    later = replace(config, default_bandit="later", document=DocumentConfig((bytes(32),)))
    (found,) = find_warnings(later, START)
    assert "default_bandit is later, which the file does not declare" in found
