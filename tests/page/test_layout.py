"""Where agents stand: within the picture, apart from each other, and where they stood before."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import networkx as nx
import pytest

from .browser import Browser
from .stage import MadeUpFleet, PageServer, serving

pytestmark = pytest.mark.plays

GRAPHS = {
    "nobody": nx.empty_graph(0),
    "alone": nx.empty_graph(1),
    "pair": nx.path_graph(2),
    "strangers": nx.empty_graph(5),
    "path": nx.path_graph(20),
    "ring": nx.cycle_graph(30),
    "star": nx.star_graph(29),
    "complete": nx.complete_graph(12),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(7, 7)),
    "tree": nx.balanced_tree(3, 3),
    "two rings": nx.disjoint_union(nx.cycle_graph(9), nx.cycle_graph(6)),
    "random": nx.gnp_random_graph(60, 0.08, seed=1),
}

PLACE = """async ([count, links, before]) => {
  const { place } = await import(new URL("layout.js", document.baseURI));
  return place(count, links, before);
}"""


def place(tab: Any, graph: Any, before: list[Any] | None = None) -> list[tuple[float, float]]:
    count = graph.number_of_nodes()
    links = [list(edge) for edge in graph.edges]
    found = tab.evaluate(PLACE, [count, links, before or [None] * count])
    return [(x, y) for x, y in found]


def test_agents_stand_apart(browser: Browser) -> None:
    with serving(PageServer(MadeUpFleet().events)) as server:
        tab = browser.open(server.address)
        for name, graph in GRAPHS.items():
            places = place(tab, graph)
            assert len(places) == graph.number_of_nodes(), name
            for x, y in places:
                assert 0.0 <= min(x, y) <= max(x, y) <= 1.0, name
            near = min(
                (math.dist(a, b) for i, a in enumerate(places) for b in places[:i]), default=1
            )
            assert near > 0.2 / max(1.0, graph.number_of_nodes()), name
            again = place(tab, graph, [list(point) for point in places])
            assert again == places, name


def test_a_grid_is_not_folded(browser: Browser) -> None:
    """Neighbours are near: no link is much longer than the others, and corners are far apart."""
    with serving(PageServer(MadeUpFleet().events)) as server:
        tab = browser.open(server.address)
        graph = GRAPHS["grid"]
        places = place(tab, graph)
        lengths = sorted(math.dist(places[a], places[b]) for a, b in graph.edges)
        assert lengths[-1] < 3 * lengths[len(lengths) // 2]
        assert math.dist(places[0], places[48]) > 4 * lengths[-1]


SPREAD = """async ([heights, top, bottom, gap]) => {
  const { spread } = await import(new URL("curves.js", document.baseURI));
  return spread(heights, top, bottom, gap);
}"""

WRITTEN = """
  window.written = [];
  const write = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    if (text.startsWith("shop-")) {
      window.written.push([text, x, y, this.measureText(text).width / 2]);
    }
    return write.call(this, text, x, y);
  };
"""


@pytest.mark.covering(1)  # the narrow one, where names have the least room
@pytest.mark.parametrize("width", [390, 1280])
def test_names_do_not_lie_on_each_other(browser: Browser, width: int) -> None:
    with serving(PageServer(MadeUpFleet(agents=20).events)) as server:
        tab = browser.tab(server.address, width=width)
        tab.add_init_script(WRITTEN)
        tab.goto(server.address)
        tab.wait_for_function("() => window.written.length > 100")
        places = {name: place for name, *place in tab.evaluate("() => window.written.slice(-200)")}
        assert 3 <= len(places) <= 20
        for one, (x, y, half) in places.items():
            for other, (x2, y2, half2) in places.items():
                if other != one:
                    assert abs(y2 - y) >= 12 or abs(x2 - x) >= half + half2, (one, other)


def test_tags_keep_apart_and_within_the_curves(browser: Browser) -> None:
    with serving(PageServer(MadeUpFleet().events)) as server:
        tab = browser.open(server.address)
        for heights in ([50, 49, 48], [9, 8, 7], [100, 100, 1], [60, 30, 12]):
            found = tab.evaluate(SPREAD, [heights, 10, 100, 12])
            assert all(a - b >= 12 for a, b in pairwise(found)), heights
            assert 10 <= found[-1] <= found[0] <= 100, heights
        assert tab.evaluate(SPREAD, [[60, 30, 12], 10, 100, 12]) == [60, 30, 12]
