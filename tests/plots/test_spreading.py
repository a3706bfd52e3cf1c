"""How news spreads, as a film and as a page: what they show is what was computed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from coopbandits.network import Network

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


def test_a_film_has_a_picture_per_round(tmp_path: Path) -> None:
    network = Network.from_spec("path:3")
    network.animate(rounds=2, aggregations=["flooded-totals", "tree-sums"], path=tmp_path / "n.gif")
    with Image.open(tmp_path / "n.gif") as film:
        assert film.format == "GIF"
        assert film.n_frames == 3  # type: ignore[attr-defined]  # of films alone
        assert film.info["loop"] == 0
        pictures = []
        for at in range(3):
            film.seek(at)
            pictures.append(np.asarray(film.convert("RGB"), dtype=np.int64))
    assert all((one != two).any() for one, two in pairwise(pictures))


def blue_nodes(path: Path, at: int) -> int:
    """Return how many pixels of the graph, above the curve, have the colour of the truth."""
    with Image.open(path) as film:
        film.seek(at)
        pixels = np.asarray(film.convert("RGB"), dtype=np.int64)
    graph = pixels[: int(0.6 * len(pixels))]
    return int((abs(graph - [0x00, 0x72, 0xB2]).max(axis=-1) < 12).sum())


def test_a_film_shows_more_and_more_who_know_it(tmp_path: Path) -> None:
    path = tmp_path / "n.gif"
    Network.from_spec("path:4").animate(rounds=3, aggregations=["tree-sums"], path=path)
    counts = [blue_nodes(path, at) for at in range(4)]
    assert [count / counts[0] for count in counts] == pytest.approx([1, 2, 3, 4], rel=0.1)


HOSTILE = "{{data}}</script><script>document.title='mine'</script>"


def test_the_page_holds_the_numbers_and_names_no_other_place(tmp_path: Path) -> None:
    shown = Network.from_spec("cycle:5").animate(rounds=2)
    text = shown.save(tmp_path / "deep" / "n.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    found = np.array(json.loads(data)["permille"]) / 1000
    assert found == pytest.approx(shown.values, abs=0.0005)
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}


PROBE = """<script>
const errors = [];
addEventListener("error", event => errors.push(String(event.message || event.target.src)), true);
</script>"""

# Runs in the page after its own script: plays, pauses, goes back, and tells what it saw.
TOUR = """<script type="module">
const slider = document.getElementById("slider"), button = document.getElementById("play");
const text = (name) => [...document.querySelectorAll(name)].map((each) => each.textContent);
const at = (round) => { slider.value = round; slider.dispatchEvent(new Event("input")); };
at(0);
const first = text(".panels p"), nodes = document.querySelectorAll(".panels .node").length;
button.click();
const playing = button.textContent;
button.click();
const paused = button.textContent;
at(slider.max);
const seen = {
  errors, first, nodes, playing, paused, last: text(".panels p"), heads: text("h1, .panels h2"),
  titles: text(".panels title"), rims: document.querySelectorAll(".node.knows").length,
  fetched: performance.getEntriesByType("resource").map((entry) => entry.name),
  overflow: document.documentElement.scrollWidth - innerWidth,
};
const note = document.body.appendChild(document.createElement("pre"));
note.id = "seen";
note.textContent = JSON.stringify(seen);
</script>"""


def look_at(page: str, folder: Path, width: int) -> dict[str, Any]:
    """Open a page in a browser and return what the tour saw."""
    path = folder / "page.html"
    page = page.replace("<head>", f"<head>{PROBE}", 1).replace("</body>", f"{TOUR}</body>")
    path.write_text(page, encoding="utf-8")
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", f"--window-size={width},900",
         f"--user-data-dir={folder / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    return seen


@pytest.mark.skipif(BROWSER is None, reason="there is no chromium to open the page with")
@pytest.mark.covering(1)
@pytest.mark.parametrize(("name", "width"), [(HOSTILE, 500), ("a", 1200)])
def test_the_page_in_a_browser(tmp_path: Path, name: str, width: int) -> None:
    network = Network([(name, "b"), ("b", "c")])
    network.description = name
    page = network.animate(rounds=6).save(tmp_path / "n.html").read_text(encoding="utf-8")
    seen = look_at(page, tmp_path, width)
    assert seen["errors"] == []
    assert seen["fetched"] == []
    assert seen["overflow"] <= 0
    assert seen["first"] == ["0 of 3 know it"] * 2 + ["1 of 3 know it"] * 2
    assert seen["last"][1:] == ["3 of 3 know it"] * 3
    assert seen["nodes"] == 12
    assert seen["rims"] >= 9
    assert (seen["playing"], seen["paused"]) == ("Pause", "Play")
    assert any(each.startswith(f"{name}: ") for each in seen["titles"])
    assert name in seen["heads"][0]
