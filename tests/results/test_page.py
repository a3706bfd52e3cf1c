"""The code on the page about results runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "results.md"


def test_the_page_on_results_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), {})  # noqa: S102  our own page
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["arm", "blue", "red"]
    assert [row.split()[0] for row in rows] == ["ann", "bob", "eve"]
    assert {sum(map(int, row.split()[1:])) for row in rows} == {20 * 1000}
