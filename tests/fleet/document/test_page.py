"""The page on documents says what the code does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from coopbandits.fleet.config.model import DOCUMENT
from coopbandits.fleet.config.values import read_value
from coopbandits.fleet.document.content import (
    CLUSTER,
    MAX_CONTENT,
    MAX_VERSION,
    SETTINGS,
    read_document,
)
from coopbandits.fleet.document.seal import MAX_CHAIN

PAGE = (Path(__file__).parents[3] / "docs" / "fleet" / "document.md").read_text()


def test_its_files_are_accepted() -> None:
    node, document, retired = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)
    for key, value in tomllib.loads(node)["document"].items():
        read_value(key, value, DOCUMENT.types[key])
    assert read_document(document.encode()).version == 1
    assert read_document(f"{retired}\n{document}".encode()).retired == {"old-banner"}


def test_its_table_lists_all_keys() -> None:
    table = PAGE.partition("| key | what it does")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == list(CLUSTER.types)
    assert re.findall(r"^\| `\[settings\]` `(\w+)` \|", table, re.M) == list(SETTINGS.types)


def test_its_numbers_are_those_of_the_code() -> None:
    assert f"up to {MAX_CONTENT // 1024} KiB" in PAGE
    assert f"the last {MAX_CHAIN} of them" in PAGE
    assert str(MAX_VERSION) in PAGE
