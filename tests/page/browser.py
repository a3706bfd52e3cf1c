"""A real browser for tests: it reaches the tested server alone, and remembers all complaints."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
REBOUND = "rebound.example"
"""A name that the browser is told to find on this machine."""
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1",
]  # fmt: skip
PATIENCE = 120_000
"""Milliseconds for one step of the browser: a busy machine is no fault of a page."""
HEIGHT = 900
EMPTY = "about:blank"

# How far the page is wider than its window, how its text stands out, and images that are missing.
LAYOUT = r"""() => {
  const luminance = colour => {
    const part = colour.match(/[\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const style = getComputedStyle(document.body);
  const [low, high] = [style.color, style.backgroundColor].map(luminance).sort((a, b) => a - b);
  return {
    overflow: document.scrollingElement.scrollWidth - document.documentElement.clientWidth,
    contrast: (high + 0.05) / (low + 0.05),
    dark: luminance(style.backgroundColor) < 0.2,
    broken: [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src),
  };
}"""


class Browser:
    """Opens pages in one tab, or in tabs with a session of their own."""

    def __init__(self, started: Any, error: type[Exception]) -> None:
        self.started, self._error = started, error
        self.complaints: list[str] = []
        self._kept: Any = None

    def open(self, address: str, *, width: int = 1280, theme: str = "light") -> Any:
        """Return a tab with the page of an address, which is all that it may ask.

        Later pages reuse the tab, emptied: a new tab is a new process, which takes thrice as long.
        """
        home = address.partition("#")[0]
        self._empty()
        if self._kept is None:
            self._kept = self.tab(home, width=width, theme=theme)
        else:
            self._kept.set_viewport_size({"width": width, "height": HEIGHT})
            self._kept.emulate_media(color_scheme=theme)
            self._allow(self._kept, home)
        self._kept.goto(address)
        return self._kept

    def tab(self, home: str, *, width: int = 1280, theme: str = "light", **more: Any) -> Any:
        """Return an empty tab that may ask for what is at an address or below it."""
        context = self.started.new_context(
            viewport={"width": width, "height": HEIGHT}, color_scheme=theme, **more
        )
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on("console", self._console)
        tab.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self._allow(tab, home)
        return tab

    def close_tabs(self) -> None:
        """Close all tabs, whose servers may be gone, and forget what they complained about."""
        self._empty()
        for context in self.started.contexts:
            if self._kept is None or context is not self._kept.context:
                context.close()
        self.complaints.clear()

    def _empty(self) -> None:
        """Take the kept tab to an empty page without a past, or drop it where that fails."""
        if self._kept is None or self._kept.url == EMPTY:
            return
        try:
            self._kept.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
            self._kept.unroute("**/*")
            self._kept.goto(EMPTY)
        except self._error:
            self._kept.context.close()
            self._kept = None

    def _allow(self, tab: Any, home: str) -> None:
        tab.route("**/*", lambda route: self._route(route, home))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _route(self, route: Any, home: str) -> None:
        if route.request.url.startswith((home, "data:", "blob:")):
            route.continue_()
        else:
            self.complaints.append(f"asks for {route.request.url}")
            route.abort()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser, or skip with the reason."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if BROWSER is None:
        pytest.skip("there is no chromium to open the page with; install Debian's package")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=BROWSER, args=FLAGS, timeout=PATIENCE)
        yield Browser(launched, playwright.Error)
        launched.close()


def text(tab: Any, selector: str) -> str:
    """Return the text of an element."""
    return str(tab.text_content(selector))


def wait_for(tab: Any, selector: str, wanted: str) -> None:
    """Wait until an element shows a text."""
    tab.wait_for_function(
        "([selector, wanted]) => document.querySelector(selector)?.textContent.includes(wanted)",
        arg=[selector, wanted],
    )


def problems(tab: Any) -> list[str]:
    """Return what axe finds serious or critical."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    found = axe.Axe().run(tab).response["violations"]
    return [
        f"{each['id']}: {node['html'][:150]} {node['failureSummary'][:300]}"
        for each in found
        for node in each["nodes"]
        if each["impact"] in ("serious", "critical")
    ]
