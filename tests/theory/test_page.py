"""The page on bounds prints what it shows; run as a program, this file writes its outputs anew."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "theory.md"
SHOWN = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def printed_by(code: str, namespace: dict[str, Any]) -> str:
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout):
        exec(compile(code, str(PAGE), "exec"), namespace)  # noqa: S102  own page
    return stdout.getvalue()


def test_the_page_prints_what_it_shows() -> None:
    text = PAGE.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {}
    shown = SHOWN.findall(text)
    assert len(shown) == text.count("```python") == 4
    for code, output in shown:
        assert printed_by(code, namespace) == output, "refresh: python tests/theory/test_page.py"


def refreshed(text: str) -> str:
    namespace: dict[str, Any] = {}

    def run(match: re.Match[str]) -> str:
        return f"```python\n{match[1]}```\n\n```text\n{printed_by(match[1], namespace)}```"

    return SHOWN.sub(run, text)


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
