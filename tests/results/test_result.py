from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex

from coopbandits.core.errors import InputError
from coopbandits.results import Result, statistics
from coopbandits.results.intervals import mean_interval

from .conftest import Make

CURVE = ("policy", "run", "round")


def test_labels_and_types(simulated: dict[str, Result]) -> None:
    result = simulated[""]
    assert result.policies == ["dducb", "independent-ucb"]
    assert result.horizon == 30
    assert repr(result) == "Result(dducb, independent-ucb; 2 runs, 30 rounds)"
    for array in (result.regret, result.realized_regret):
        assert array.dims == CURVE
        assert array.dtype == np.float64
        assert array["round"].values[-1] == 30
    assert result.values_sent.dims == ("policy", "run")
    assert result.values_sent.dtype == np.int64
    assert result.pulls.dims == ("policy", "run", "arm")
    assert result.pulls.dtype == np.int64
    assert (result.pulls.sum("arm") == 4 * 30).all()


def test_regret_is_what_the_pulls_cost(simulated: dict[str, Result]) -> None:
    result = simulated[""]
    final = result.regret.isel(round=-1).values
    assert final == pytest.approx((result.pulls * np.array([0.0, 0.5, 1.0])).sum("arm").values)
    assert (np.diff(result.regret.values, axis=2) >= 0).all()


def test_messages_are_values_after_the_last_round(simulated: dict[str, Result]) -> None:
    result = simulated[""]
    assert (result.values_sent == result.dataset["values_sent"].sel(round=30)).all()
    assert (result.values_sent.sel(policy="independent-ucb") == 0).all()
    assert (result.values_sent.sel(policy="dducb") > 0).all()
    assert (result.bytes_sent == 8 * result.values_sent).all()


def test_pulls_per_agent_only_when_kept(simulated: dict[str, Result]) -> None:
    for keep in ("agents", "arms"):
        pulls = simulated[keep].pulls
        assert pulls.dims == ("policy", "run", "agent", "arm")
        assert pulls.dtype == np.int64
        assert (pulls.sum("agent") == simulated[""].pulls).all()
    assert "agent" not in simulated[""].dataset.dims


def test_single_arms_only_when_kept(simulated: dict[str, Result]) -> None:
    arms = simulated["arms"].arms
    assert arms.dims == ("policy", "run", "agent", "pull")
    assert arms.shape == (2, 2, 4, 30)
    assert ((arms == 1).sum(("agent", "pull")) == simulated[""].pulls.sel(arm=1)).all()
    for keep in ("", "agents"):
        with pytest.raises(InputError, match='keep="arms"'):
            _ = simulated[keep].arms


def test_summary(make: Make) -> None:
    result = make(runs=5)
    summary = result.summary()
    assert (summary.runs, summary.horizon) == (5, 10)
    final = result.regret.sel(policy="dducb", round=10).values
    assert summary.policies[0].mean == pytest.approx(final.mean())
    assert summary.policies[0].interval == mean_interval(final)
    assert [row.values_sent for row in summary.policies] == [0.0, 1000.0]
    assert [(row.first, row.second) for row in summary.differences] == [
        ("dducb", "independent-ucb")
    ]


def test_plot_shows_means_and_bands(make: Make) -> None:
    result = make(runs=5)
    (axes,) = result.plot().axes
    assert axes.get_xlabel() == "round"
    assert axes.get_ylabel() == "cumulative regret of the network (reward)"
    for line, policy in zip(axes.get_lines(), result.policies, strict=True):
        assert line.get_label() == policy
        assert line.get_xdata() == pytest.approx([1, 2, 5, 10])
        expected = result.regret.sel(policy=policy).mean("run").values
        assert line.get_ydata() == pytest.approx(expected)
    band = axes.collections[0].get_paths()[0].get_extents()
    low, high = mean_interval(result.regret.sel(policy="dducb", round=10).values)
    assert band.y1 == pytest.approx(high)
    assert band.y0 < low


def test_one_run_has_no_band(make: Make) -> None:
    (axes,) = make(runs=1).plot().axes
    assert len(axes.get_lines()) == 2
    assert len(axes.collections) == 0


def test_plot_against_values(make: Make) -> None:
    (axes,) = make().plot("values").axes
    assert axes.get_xlabel() == "values sent by all agents"
    assert axes.get_lines()[1].get_xdata() == pytest.approx([100, 200, 500, 1000])


def test_bounds_are_dashed_and_grey(make: Make) -> None:
    bounds = {"theorem": np.array([5.0, 10.0, 20.0, 40.0]), "other": np.ones(4)}
    (axes,) = make().plot(bounds=bounds).axes
    lines = axes.get_lines()[2:]
    assert [line.get_label() for line in lines] == ["theorem", "other"]
    assert [line.get_linestyle() for line in lines] == ["--", "--"]
    assert lines[0].get_ydata() == pytest.approx(bounds["theorem"])
    greys = [to_hex(line.get_color()) for line in lines]
    assert len(set(greys)) == 2
    assert all(len(set(re.findall("..", grey[1:]))) == 1 for grey in greys)


@pytest.mark.covering
@pytest.mark.parametrize("log", ["", "x", "y", "xy"])
@pytest.mark.parametrize("against", ["rounds", "values"])
def test_logarithmic_axes(simulated: dict[str, Result], log: str, against: str) -> None:
    """Regret begins at 0 here and one policy sends nothing; warnings would be errors."""
    figure = simulated[""].plot(against, log=log)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert axes.get_xscale() == ("log" if "x" in log else "linear")
    assert axes.get_yscale() == ("log" if "y" in log else "linear")


def test_nothing_to_put_on_a_logarithmic_axis(make: Make) -> None:
    result = make(policies=("silent",))
    result.dataset["regret"] *= 0.0
    figure = result.plot("values", log="xy")
    figure.draw_without_rendering()
    assert (figure.axes[0].get_xscale(), figure.axes[0].get_yscale()) == ("linear", "linear")


def test_bad_arguments_of_plot(make: Make, tmp_path: Path) -> None:
    result = make()
    with pytest.raises(InputError, match=r"'value'.*'values'"):
        result.plot("value")
    with pytest.raises(InputError, match=r"log.* 'z'.*'x', 'y', 'xy'"):
        result.plot(log="z")
    with pytest.raises(InputError, match=r"bounds.*round"):
        result.plot("values", bounds={"b": np.ones(4)})
    with pytest.raises(InputError, match=r"'b'.*\(3,\).* 4\b"):
        result.plot(bounds={"b": np.ones(3)})
    for name, wrong in (("a.svgx", "svgx"), ("a", "")):
        with pytest.raises(InputError, match=f"figure format '{wrong}'"):
            result.plot(path=tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG")])
def test_saved_figures_are_the_same_bytes(
    make: Make, tmp_path: Path, name: str, start: bytes
) -> None:
    make().plot(path=tmp_path / name)
    first = (tmp_path / name).read_bytes()
    make().plot(path=str(tmp_path / name))
    assert first.startswith(start)
    assert (tmp_path / name).read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == [name]


class Page(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.cells: list[str] = []
        self.settings = ""
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.inside = tag
        wanted = ("src", "href", "xlink:href", "srcset", "data", "action")
        self.loads += [value or "" for name, value in attrs if name in wanted]

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in ("td", "th"):
            self.cells.append(data)
        if self.inside == "pre":
            self.settings += data


def test_report_is_one_page_that_needs_nothing_else(make: Make, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "report.html"
    assert make().report(target) == target
    text = target.read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("svg") == 2 * 2  # each for screens and for phones
    assert page.tags.count("table") == 2
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert page.loads
    assert all(load.startswith("#") for load in page.loads)
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "@import" not in text
    assert set(re.findall(r"url\((.)", text)) == {"#"}
    assert "color-scheme: light dark" in text
    assert "prefers-color-scheme: dark" in text
    assert json.loads(page.settings) == make().meta
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


@pytest.mark.slow  # the fast tier compares reports with and without a drawn figure
def test_report_is_the_same_text_twice(make: Make, tmp_path: Path) -> None:
    make().report(tmp_path / "a.html")
    make().report(tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_report_escapes_names(make: Make, tmp_path: Path) -> None:
    name = "<b>bold</b> & \"quoted\" $x$ <script>alert('x')</script>"
    make(policies=("dducb", name)).report(tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert not {"b", "script"} & set(page.tags)
    assert name in page.cells
    assert name in json.loads(page.settings)["settings"]["policies"]


def test_report_of_one_policy_and_one_run(make: Make, tmp_path: Path) -> None:
    make(policies=("dducb",), runs=1).report(tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.tags.count("table") == 1
    assert "–" in page.cells


def with_deliveries(result: Result) -> Result:
    sent = result.dataset["messages_sent"]
    parts = {"delivered": sent // 2, "late": sent // 4, "lost": sent // 5}
    named = {f"messages_{name}": array for name, array in parts.items()}
    return Result(result.dataset.assign(named), result.meta)


def test_deliveries(make: Make, tmp_path: Path) -> None:
    result = with_deliveries(make(runs=2))
    found = result.deliveries
    assert found["sent"].dims == ("policy", "run")
    assert found["sent"].values.tolist() == [[0, 0], [500, 500]]
    assert [int(found[name][1, 0]) for name in ("delivered", "late", "lost")] == [250, 125, 100]
    assert found["under_way"].values.tolist() == [[0, 0], [150, 150]]
    second = result.summary().deliveries[1]
    assert second == statistics.Delivery("independent-ucb", 500.0, 250.0, 125.0, 100.0)
    text = str(result.summary())
    assert re.search(r"^policy +sent +delivered +late among them +lost$", text, re.MULTILINE)
    assert re.search(r"^independent-ucb +500 +250 +125 +100$", text, re.MULTILINE)
    page = Page(result.report(tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.tags.count("table") == 3
    assert {"500", "250", "125", "100"} <= set(page.cells)


def test_deliveries_only_where_something_could_go_wrong(make: Make) -> None:
    with pytest.raises(InputError, match="every message was delivered"):
        _ = make().deliveries
    assert make().summary().deliveries == ()
    assert "delivered" not in str(make().summary())
