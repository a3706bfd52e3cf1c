"""The built site in a real browser, without a network, in two themes and at two widths."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from .browser import LAYOUT, Browser

DOCS = Path(__file__).parents[2] / "docs"
WIDTHS = {"desk": 1280, "phone": 390}
THEMES = ("light", "dark")
PATIENCE = 180_000
"""Milliseconds for one step of the browser: a page with many formulas on a busy machine."""

pytestmark = pytest.mark.plays

# Runs in the page when all formulas are drawn: what is left as source, and what was not drawn.
FORMULAS = r"""async () => {
  if (window.MathJax) await MathJax.startup.promise;
  const text = document.querySelector("article").cloneNode(true);
  text.querySelectorAll("pre, code, mjx-container, script").forEach(node => node.remove());
  const raw = /\$[^$]*[\\_^{][^$]*\$|\\[(\[]|\\(?:frac|sqrt|sum|ln|hat|lambda|sigma|text)\b/;
  return {
    raw: (text.textContent.match(raw) || [""])[0].slice(0, 80),
    wanted: document.querySelectorAll("article .math").length,
    drawn: document.querySelectorAll("article .math mjx-container > svg").length,
    wrong: [...document.querySelectorAll("[data-mml-node=merror]")].map(e => e.textContent),
  };
}"""


def build(folder: Path, pages: list[str]) -> Path:
    """Build these pages as `make docs` does; a warning on any page at all is an error.

    All pages are read and resolved, but only these are written: that takes most of the time, since
    each gets a sidebar of its own. Their search index is incomplete, of which Sphinx warns.
    """
    pytest.importorskip("sphinx", reason="the pages are built by the extra docs")
    for builder, wanted in (("dummy", []), ("html", [str(DOCS / f"{page}.md") for page in pages])):
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", "-q", "-b", builder, "-d", str(folder / "doctrees"),
             str(DOCS), str(folder / builder), *wanted],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        told = [line for line in done.stderr.splitlines() if "search index couldn't" not in line]
        assert (done.returncode, told) == (0, [])
    html = folder / "html"
    for page in html.rglob("*.html"):
        assert "system-message" not in page.read_text(), page.name
    return html


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a site over HTTP on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def look_at(browser: Browser, tab: Any, page: str) -> list[str]:
    """Open a page and return what is wrong with it."""
    tab.set_default_timeout(PATIENCE)
    tab.set_viewport_size({"width": WIDTHS["desk"], "height": 900})
    tab.goto(page)
    seen = tab.evaluate(FORMULAS) if tab.query_selector("article") else {}
    wrong = list(browser.complaints)
    browser.complaints.clear()
    if seen and (seen["raw"] or seen["wrong"] or seen["drawn"] != seen["wanted"]):
        wrong.append(f"formulas: {seen}")
    for width, pixels in WIDTHS.items():
        tab.set_viewport_size({"width": pixels, "height": 900})
        for theme in THEMES:
            tab.emulate_media(color_scheme=theme)
            got = tab.evaluate(LAYOUT)
            if got["overflow"] > 0 or got["broken"] or got["contrast"] < 7:
                wrong.append(f"{width}, {theme}: {got}")
            if got["dark"] != (theme == "dark"):
                wrong.append(f"the theme is not {theme}")
    return [f"{page}: {line}" for line in wrong]


@pytest.mark.slow
@pytest.mark.parametrize("step", [48, pytest.param(1, marks=pytest.mark.slow)])
def test_pages_are_whole_in_both_themes_at_both_widths(
    step: int, tmp_path: Path, browser: Browser
) -> None:
    """Over HTTP one in 48, or all; some from the folder: formulas are drawn there too."""
    some = ["index", "theory", "policies/dducb"]
    sources = (page.relative_to(DOCS) for page in DOCS.rglob("*.md"))
    every = sorted(
        str(page.with_suffix("")) for page in sources if page.parts[0] not in ("_static", "_build")
    )
    assert len(every) > 60
    site = build(tmp_path, [*every[::step], *some])
    built = sorted(str(page.relative_to(site)) for page in site.rglob("*.html"))
    assert {f"{page}.html" for page in [*every[::step], *some]} <= set(built)
    with served(site) as address:
        for home, pages in ((address, built), (f"{site.as_uri()}/", [f"{p}.html" for p in some])):
            tab = browser.tab(home)
            wrong = [line for page in pages for line in look_at(browser, tab, home + page)]
            assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_what_is_wrong_would_be_seen(tmp_path: Path, browser: Browser) -> None:
    """A formula left as source, a request elsewhere, an error and a page too wide for a phone."""
    (tmp_path / "page.html").write_text(
        '<body style="color: black; background: white"><article><span class="math">x</span>'
        r'and \(\frac{1}{2}\)</article><div style="width: 600px">wide</div>'
        '<img src="http://elsewhere.invalid/a.png"><script>fail()</script></body>'
    )
    home = f"{tmp_path.as_uri()}/"
    told = "\n".join(look_at(browser, browser.tab(home), f"{home}page.html"))
    for sign in (r"'raw': '\\('", "'wanted': 1, 'drawn': 0", "asks for http://elsewhere",
                 "fail is not defined", "phone, light: {'overflow': 2", "is not dark"):  # fmt: skip
        assert sign in told, told
