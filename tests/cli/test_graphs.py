from __future__ import annotations

import re
from pathlib import Path

import pytest

from .calls import Call, refused


def rows(text: str) -> dict[str, str]:
    cells = [re.split(r"\s{2,}", line) for line in text.splitlines()]
    return {row[0]: row[1] for row in cells if len(row) == 2}


def test_graph(call: Call) -> None:
    outcome = call("graph", "grid:10x10")
    assert (outcome.status, outcome.err) == (0, "")
    table = rows(outcome.out)
    assert "grid:10x10" in outcome.out
    assert table["agents N"] == "100"
    assert table["edges"] == "180"
    assert table["diameter"] == "18"
    gap = float(table["gap 1 − λ"])
    assert float(table["λ"]) == pytest.approx(1 - gap, abs=1e-7)
    stage = int(table["C accelerated"].removesuffix(" rounds"))
    assert stage < int(table["C unaccelerated"].removesuffix(" rounds"))
    messages = int(table["messages per stage"].replace(",", ""))
    assert messages == 2 * 180 * stage
    assert int(table["values per stage"].replace(",", "")) == 2 * 17 * messages
    assert "warning" not in outcome.out


def test_graph_options_count(call: Call) -> None:
    outcome = call("graph", "star:6", "--arms", "3", "--weights", "metropolis")
    table = rows(outcome.out)
    assert table["weights"] == "metropolis"
    messages, values = (
        int(table[f"{what} per stage"].replace(",", "")) for what in ("messages", "values")
    )
    assert values == 6 * messages


def test_graph_warns_of_a_short_horizon(call: Call) -> None:
    out = call("graph", "path:50", "--horizon", "100").out
    assert re.search(r"C = \d+ rounds.* 100\b", out)
    assert "warning" not in call("graph", "path:50", "--horizon", "100000").out


def test_graph_warns_of_two_sides(call: Call, tmp_path: Path) -> None:
    edges = "".join(f"{i} {200 + j}\n" for i in range(200) for j in range(200))
    (tmp_path / "sides.txt").write_text(edges)
    out = call("graph", str(tmp_path / "sides.txt")).out
    assert "nearly periodic" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("graph", "gird:3x3"), "'gird'.*'grid'"),
        (("graph", "grid:3"), "'grid:3'.*grid:ROWSxCOLUMNS"),
        (("graph", "cycle:4", "--weights", "metropols"), "'metropols'.*'metropolis'"),
        (("graph", "cycle:4", "--arms", "0"), r"num_arms.* 0\b"),
        (("graph", "nowhere.graphml"), "nowhere.graphml"),
        (("graph", "x[/b]"), r"'x\[/b\]'"),
    ],
)
def test_bad_graphs(call: Call, arguments: tuple[str, ...], message: str) -> None:
    assert re.search(message, refused(call(*arguments)))


def test_bounds(call: Call) -> None:
    outcome = call("bounds", "--graph", "cycle:100")
    assert (outcome.status, outcome.err) == (0, "")
    assert "dducb:bonus_factor=4,own_pulls=false, T = 10000" in outcome.out
    rows_by_name = {line.split("  ")[0]: line for line in outcome.out.splitlines()}
    assert "353796" in rows_by_name["finite-time bound"]
    assert rows_by_name["finite-time bound"].endswith("vacuous at this horizon")
    assert not rows_by_name["sharper finite-time bound"].endswith("vacuous at this horizon")
    assert "200000" in rows_by_name["always the worst arm"]


def test_bounds_outside_their_assumptions(call: Call) -> None:
    outcome = call("bounds", "--graph", "grid:10x10", "--policy", "dducb")
    assert outcome.status == 0
    assert "bonus_factor=4" in outcome.out
    refused(call("bounds", "--graph", "grid:10x10", "--gamma", "1"))


def test_how_fast_to_forget(call: Call) -> None:
    asked = ("bounds", "--graph", "cycle:20", "--means", "0.9,0.8x4", "--sigma", "0.5")
    outcome = call(*asked, "--horizon", "3000", "--changes", "1")
    assert (outcome.status, outcome.err) == (0, "")
    rows = {line.split("  ")[0]: line.split() for line in outcome.out.splitlines()}
    assert rows["UCB, each agent alone"][-2:] == ["0.995436", "220"]
    assert rows["UCB on a tree or a flood"][-2:] == ["0.979588", "49"]
    assert rows["Thompson sampling on a tree or a flood"][-2:] == ["0.994897", "196"]
    assert "forgets faster" in " ".join(rows["DDUCB"])
    assert "changes is 0" in refused(call(*asked, "--changes", "0"))


def test_a_graph_is_drawn(call: Call, tmp_path: Path) -> None:
    outcome = call("graph", "star:5", "--plot", str(tmp_path / "star.svg"))
    assert (outcome.status, outcome.err) == (0, "")
    assert "<svg" in (tmp_path / "star.svg").read_text()


def test_animate(call: Call, tmp_path: Path) -> None:
    outcome = call("animate", "cycle:8", "--out", str(tmp_path / "news.html"))
    assert (outcome.status, outcome.err) == (0, "")
    rows = {line[:20].strip(): line[20:].split() for line in outcome.out.splitlines()}
    assert rows["flood"] == ["2", "4", "4"]
    assert rows["plain mixing"][-1] == "–"
    assert int(rows["accelerated mixing"][-1]) > 4
    assert "<!doctype html>" in (tmp_path / "news.html").read_text(encoding="utf-8")


def test_animate_what_was_asked_for(call: Call, tmp_path: Path) -> None:
    options = [
        "--aggregation",
        "flooded-totals",
        "--source",
        "2",
        "--rounds",
        "4",
        "--weights",
        "metropolis",
    ]
    outcome = call("animate", "path:3", *options, "--out", str(tmp_path / "news.gif"))
    assert outcome.out.splitlines()[3].split() == ["flooded-totals", "1", "2", "2"]
    assert (tmp_path / "news.gif").read_bytes().startswith(b"GIF")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--out news.mp4", "gif, html"),
        ("--source 8", "0 to 7"),
        ("--rounds x", "--rounds is 'x'"),
        ("--aggregation tree-sms", "'tree-sums'"),
    ],
)
def test_animate_bad_input(call: Call, options: str, message: str) -> None:
    assert message in refused(call("animate", "cycle:8", *options.split()))
