"""The page of the configuration lists every key, with the defaults and readers of the code."""

from __future__ import annotations

import re
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from coopbandits.fleet.config import (
    ApiLimits,
    ApiTokens,
    ClusterConfig,
    DocumentConfig,
    NodeConfig,
    bandits,
    model,
)
from coopbandits.fleet.config.bandits import MAX_AGENTS, SHARED
from coopbandits.fleet.config.read import EXPANDED
from coopbandits.fleet.config.values import ADDRESS, read_value

PAGE = Path(__file__).parents[3] / "docs" / "fleet" / "configuration.md"
DEFAULTS = {
    field.name: field.default
    for kind in (
        bandits.BanditConfig,
        ClusterConfig,
        NodeConfig,
        ApiTokens,
        ApiLimits,
        DocumentConfig,
    )
    for field in fields(kind)
}
DEFAULTS |= {"number": None, "arms": MISSING, "minimum_share": 0.0, "max_agents": MAX_AGENTS}
DEFAULTS |= {"neighbors": None}  # the list of them is a table of its own
SECTIONS = {
    "[cluster]": bandits.CLUSTER,
    "[bandits.NAME]": bandits.BANDIT,
    "[node]": model.NODE,
    "[api]": model.API_TOKENS,
    "[api_limits]": model.API_LIMITS,
    "[tls] and [api_tls]": model.TLS,
    "[document]": model.DOCUMENT,
    "[[neighbors]]": ADDRESS,
}


def section(head: str) -> str:
    return PAGE.read_text().partition(f"\n## {head}\n")[2].partition("\n## ")[0]


def rows(head: str) -> dict[str, tuple[str, str]]:
    """Return default and example by key."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section(head).splitlines()
        if line.startswith("| `")
    ]
    assert {len(row) for row in cells} == {5}
    return {row[0].strip("`"): (row[2], row[4]) for row in cells}


def value(text: str) -> Any:
    assert re.fullmatch("`.*`", text)
    return tomllib.loads(f"value = {text.strip('`')}")["value"]


@pytest.mark.parametrize("head", SECTIONS)
def test_every_key_is_listed_with_its_default_and_an_example_that_is_accepted(head: str) -> None:
    listed, (types, required) = rows(head), SECTIONS[head]
    assert sorted(listed) == sorted(types)
    for key, (default, example) in listed.items():
        read_value(key, value(example), types[key])
        assert (default == "required") == (key in required)
        found = DEFAULTS.get(key, MISSING)
        if found is MISSING:
            assert default == "required", key
        elif found is None:
            assert default == "none", key
        else:
            assert read_value(key, value(default), types[key]) == found, key


def test_what_a_journal_depends_on_is_what_the_page_says() -> None:
    first, second, shared = (
        re.findall(r"`(\w+)`", line.split("|")[1])
        for line in section("Changing settings").splitlines()
        if line.startswith("| `") and "[" not in line.split("|")[1]
    )
    assert sorted(first) == ["epoch", "id", "name"]
    assert sorted(first + second) == sorted({"id", *bandits.CLUSTER.types})
    assert sorted(shared) == sorted(set(SHARED) - {"policy", "era"})  # which change together
    failures = PAGE.with_name("failures.md").read_text().partition("The journal depends on ")[2]
    assert sorted(re.findall(r"`(\w+)`", failures.partition(".")[0])) == sorted(first)


def test_keys_with_environment_variables_are_listed() -> None:
    found = [
        (set(re.findall(r"`(\w+)`", keys)), re.findall(r"`\[(\w+)\]`", tables))
        for keys, tables in re.findall(
            r"^- (.*) of (.*)[;.]$", section("Environment variables"), re.M
        )
    ]
    assert {name: keys for keys, tables in found for name in tables} == {
        name: set(keys) for name, keys in EXPANDED.items()
    }
