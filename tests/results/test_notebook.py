"""What a notebook shows of values."""

from __future__ import annotations

from html.parser import HTMLParser

import networkx as nx

from coopbandits import DDUCB, Cell, GaussianBandit, Network, Sweep

from .conftest import Make


class Balanced(HTMLParser):
    """Refuses tags that are not closed, and remembers text and tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {"class", "color", "bgcolor"} & {name for name, _ in attrs}
        assert all("color" not in (value or "") for name, value in attrs if name == "style")
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def shown(value: object) -> list[str]:
    """Return the text that a notebook shows of a value; no colours, so that any theme suits."""
    page = Balanced(value._repr_html_())  # type: ignore[attr-defined]  # each has one
    assert page.tags <= {"div", "table", "caption", "tr", "th", "td", "p", "strong", "br"}
    return page.words


def test_results_and_summaries(make: Make) -> None:
    result = make(policies=("dducb", "<b>own</b>"))
    for words in (shown(result), shown(result.summary())):
        assert "regret after 10 rounds, 4 runs, 95 % intervals" in words
        assert "<b>own</b>" in words
    assert result.summary().advice in shown(result.summary())
    assert "dducb − <b>own</b>" in shown(result.summary())
    assert len("".join(result._repr_html_())) < 2000


def test_networks() -> None:
    words = shown(Network([("<ann>", "bob"), ("bob", "eve")]))
    assert words[0] == "Network graph of 3 agents, 2 edges"
    assert words[words.index("neighbours") + 1] == "1 to 2"
    assert words[words.index("names") + 1] == "<ann>, bob, eve"
    assert "0, 1, 2, 3, 4, …" in shown(Network(nx.cycle_graph(9)))


def test_sweeps(make: Make) -> None:
    cell = Cell(GaussianBandit([1.0, 0.0]), Network([(0, 1)]), DDUCB(), 10)
    words = shown(Sweep([(cell, make())], [(cell, "ValueError: <too bad>")]))
    assert words == [
        "Sweep: 1 cell finished, 1 set aside", str(cell), "ValueError: <too bad>"
    ]  # fmt: skip
