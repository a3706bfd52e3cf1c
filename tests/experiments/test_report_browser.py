"""The report in a real browser: everything is rendered, nothing fails, nothing is fetched."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="there is no chromium to open the report with; install Debian's package"
)

# Runs in the page: collects errors from the start, and writes what it sees there at the end.
PROBE = """<script>
const errors = [];
addEventListener("error", event => errors.push(String(event.message || event.target.src)), true);
addEventListener("load", () => {
  const boxes = name => [...document.querySelectorAll(name)].map(e => e.getBoundingClientRect());
  const seen = {
    errors,
    fetched: performance.getEntriesByType("resource").map(entry => entry.name),
    figures: boxes("figure svg").map(box => [box.width, box.height]),
    tables: boxes("table").map(box => [box.width, box.height]),
    rows: document.querySelectorAll("tr").length,
    paths: document.querySelectorAll("svg path").length,
    overflow: document.documentElement.scrollWidth - innerWidth,
  };
  const note = document.createElement("pre");
  note.id = "seen";
  note.textContent = JSON.stringify(seen);
  document.body.append(note);
});
</script>"""


def look_at(page: str, folder: Path) -> dict[str, Any]:
    """Open a page in a browser and return what the probe saw."""
    path = folder / "page.html"
    path.write_text(page.replace("<head>", f"<head>{PROBE}", 1))
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--window-size=1200,900",
         f"--user-data-dir={folder / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    return seen


def test_the_report_is_rendered_without_errors_or_requests(written: Path, tmp_path: Path) -> None:
    seen = look_at((written / "report.html").read_text(), tmp_path)
    assert seen["errors"] == []
    assert seen["fetched"] == []
    assert len(seen["figures"]) == 3
    assert all(width > 600 and height > 250 for width, height in seen["figures"])
    assert len(seen["tables"]) == 1 + 2 + 1 + 1 + 1  # claims, overviews, figure, graphs, check
    assert all(width > 300 and height > 60 for width, height in seen["tables"])
    assert seen["rows"] > 50
    assert seen["paths"] > 150
    assert seen["overflow"] <= 0


def test_errors_and_requests_would_be_seen(tmp_path: Path) -> None:
    spoiled = (
        '<html><head></head><body><img src="nowhere.png"><script>fail()</script></body></html>'
    )
    seen = look_at(spoiled, tmp_path)
    assert any("fail is not defined" in error for error in seen["errors"])
    assert any(name.endswith("nowhere.png") for name in [*seen["fetched"], *seen["errors"]])
