"""How the page bears a large fleet for a long time: frames per second, memory, traffic.

``python -m tests.page.endurance [SECONDS [AGENTS]]`` opens the page over a made-up fleet at five
deltas a second, prints a line every ten seconds and says at the end whether memory stayed flat.
Five minutes and 200 agents unless told otherwise.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from playwright.sync_api import sync_playwright

from .browser import BROWSER, FLAGS
from .stage import MadeUpFleet, PageServer, serving

LINE_SECONDS = 10.0
FEWEST_FRAMES = 30.0
MOST_GROWTH = 1.25
"""The heap after the last collection, against that after the first quarter of the time."""

# Counts frames as the browser paints them, while the page does its work.
COUNT_FRAMES = """() => {
  window.frames_painted = 0;
  const count = () => { window.frames_painted += 1; requestAnimationFrame(count); };
  requestAnimationFrame(count);
}"""


def heap(session: Any) -> float:
    """Return the size of the page's JavaScript heap in MB, after collecting garbage."""
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6


def watch(seconds: float, agents: int) -> bool:
    """Print lines; return whether frames were frequent enough and memory stayed flat."""
    fleet = MadeUpFleet(agents=agents)
    rates, heaps = list[float](), list[float]()
    with serving(PageServer(fleet.events)) as server, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=FLAGS)
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        tab.goto(server.address)
        tab.wait_for_function("() => document.querySelector('#connection').textContent === 'live'")
        session = tab.context.new_cdp_session(tab)
        session.send("Runtime.enable")
        tab.evaluate(COUNT_FRAMES)
        ends = time.monotonic() + seconds
        while (began := time.monotonic()) < ends:
            before = tab.evaluate("window.frames_painted")
            tab.wait_for_timeout(1000 * min(LINE_SECONDS, ends - began))
            rates.append(
                (tab.evaluate("window.frames_painted") - before) / (time.monotonic() - began)
            )
            heaps.append(heap(session))
            left = max(0.0, ends - time.monotonic())
            print(f"{rates[-1]:5.1f} frames/s   heap {heaps[-1]:5.1f} MB   {left:4.0f} s left")
        browser.close()
    growth = heaps[-1] / heaps[len(heaps) // 4]
    slowest = min(rates)
    print(f"{agents} agents, {seconds:g} s: slowest {slowest:.1f} frames/s, heap × {growth:.2f}")
    return slowest >= FEWEST_FRAMES and growth <= MOST_GROWTH


if __name__ == "__main__":
    wanted = dict(enumerate(sys.argv))
    sys.exit(not watch(float(wanted.get(1, "300")), int(wanted.get(2, "200"))))
