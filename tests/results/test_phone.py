"""The report at the width of a phone, in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from .conftest import Make

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
PHONE = 390
SMALL_TEXT = 8.33
"""Points of the legend, the smallest text in a figure."""

# A frame is as narrow as it is told; a window is not.
FRAME = """<html><body>
<iframe width="{width}" height="800" style="border:0" srcdoc="{page}"></iframe>
<script>addEventListener("load", () => {{
  const page = document.querySelector("iframe").contentDocument;
  const seen = {{
    overflow: page.documentElement.scrollWidth - {width},
    figures: [...page.querySelectorAll("figure svg")].map(
      e => [e.getAttribute("class"), e.getBoundingClientRect().width / e.viewBox.baseVal.width]),
    tables: [...page.querySelectorAll("table")].map(
      e => [e.parentNode.scrollWidth, e.parentNode.clientWidth]),
  }};
  const note = document.createElement("pre");
  note.id = "seen";
  note.textContent = JSON.stringify(seen);
  document.body.append(note);
}});</script></body></html>"""


def look_at(page: str, folder: Path, width: int) -> dict[str, Any]:
    path = folder / "frame.html"
    path.write_text(FRAME.format(width=width, page=escape(page)), encoding="utf-8")
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--no-first-run", "--disable-dev-shm-usage", "--window-size=1400,900",
         f"--user-data-dir={folder / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    return seen


@pytest.mark.skipif(BROWSER is None, reason="there is no chromium to open the report with")
@pytest.mark.covering(1)
@pytest.mark.parametrize(("width", "shown"), [(PHONE, "narrow"), (1200, "wide")])
def test_legible_figures_and_tables_that_scroll(
    make: Make, tmp_path: Path, width: int, shown: str
) -> None:
    page = make().report(tmp_path / "report.html").read_text(encoding="utf-8")
    seen = look_at(page, tmp_path, width)
    assert seen["overflow"] <= 0
    visible = [(name, scale) for name, scale in seen["figures"] if scale > 0.0]
    assert [name for name, _ in visible] == [shown, shown]
    assert all(scale * SMALL_TEXT >= 9.5 for _, scale in visible)  # pixels
    needed, room = seen["tables"][0]
    assert (needed > room) == (width == PHONE)
