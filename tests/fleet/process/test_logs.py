"""The log of an agent's process: levels, lines of text, lines of JSON, and the page on them."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import datetime
from pathlib import Path

from coopbandits.fleet.process.main import JsonLines

ROOT = Path(__file__).parents[3]
PAGE, FLEET = ROOT / "docs" / "fleet" / "operate.md", ROOT / "src" / "coopbandits" / "fleet"


def test_a_line_is_an_object_with_the_traceback_inside() -> None:
    try:
        raise ValueError("no ü here")
    except ValueError:
        told = logging.makeLogRecord(
            {"name": "a.b", "levelname": "ERROR", "msg": "failed: %s\n", "args": ("λ",),
             "exc_info": sys.exc_info()}
        )  # fmt: skip
    line = JsonLines("shop-1").format(told)
    assert "\n" not in line
    found = json.loads(line)
    assert datetime.fromisoformat(found.pop("time")).utcoffset() is not None
    assert found.pop("traceback").endswith("ValueError: no ü here")
    assert found == {"level": "error", "agent": "shop-1", "logger": "a.b", "message": "failed: λ\n"}


def test_messages_on_the_page_are_logged_at_its_levels() -> None:
    table = PAGE.read_text().partition("| level | what")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", table, re.M)
    source = "".join(path.read_text() for path in sorted(FLEET.rglob("*.py")))
    assert [level for level, _ in listed] == ["debug", "info", "warning", "error", "critical"]
    for level, examples in listed:
        for example in re.findall(r"`([^`]+)`", examples):
            begins = re.escape(example.partition("…")[0])
            call = rf'(?:log|logger|_\w*log|_refusals|_cuts|_failures)\.(\w+)\([^"]*f?"{begins}'
            found = set(re.findall(call, source))
            assert level in found or (level == "error" and "exception" in found), example
