"""Regret against what was sent."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits.plots import Curve, Point, traffic_figure
from coopbandits.plots.traffic import ROOM, TEXT, traffic_point

POINTS = [
    Point("silent", 0.0, 500.0),
    Point("few words", 1e3, 300.0, 250.0, 360.0),
    Point("chatty", 1e6, 50.0),
    Point("chattier", 2e6, 60.0),
    Point("a$b$", 3e6, 400.0),
    Point("lost nothing", 10.0, 0.0),
]


def test_names_points_and_those_that_nobody_beats() -> None:
    axes = traffic_figure(POINTS, title="field").axes[0]
    names = [text.get_text() for text in axes.texts]
    assert names == ["chatty", "chattier", "few words", r"a\$b\$", "silent"]
    best, interval, dots = axes.get_lines()
    assert np.asarray(best.get_xdata()).tolist() == [1e6, 1e3, 1e2]  # nothing sent is at the left
    assert np.asarray(interval.get_ydata()).tolist() == [250.0, 360.0]
    assert np.asarray(dots.get_ydata()).tolist() == [50.0, 60.0, 300.0, 400.0, 500.0]
    assert next(tick.get_text() for tick in axes.get_xticklabels()) == "0"
    assert axes.get_title() == "field"


def test_names_do_not_cover_each_other() -> None:
    """Ten policies at nearly one place; beside a point if there is room, else with a line."""
    crowd = [Point(f"policy {k}", 1e6 * (1 + k / 100), 50.0 * (1 + k / 50)) for k in range(10)]
    axes = traffic_figure([*crowd, Point("far", 10.0, 5000.0)]).axes[0]
    width = 0.56 * TEXT * len("policy 1")
    before = {"left": 0.0, "center": width / 2.0, "right": width}
    places = [
        np.asarray(text.xyann) * ROOM - np.array([before[str(text.get_ha())], 0.0])  # type: ignore[attr-defined]  # it has that here
        for text in axes.texts[:10]
    ]
    close = [
        (i, j)
        for i, one in enumerate(places)
        for j, other in enumerate(places[:i])
        if abs(one[0] - other[0]) < width - 1e-6 and abs(one[1] - other[1]) < TEXT - 1e-6
    ]
    assert close == []
    assert sum(text.arrow_patch is not None for text in axes.texts) >= 2  # type: ignore[attr-defined]  # it has that here


def test_the_end_of_a_curve() -> None:
    plain = traffic_point(Curve("one", [1, 2], [3.0, 4.0]), 7.0)
    assert plain[:3] == ("one", 7.0, 4.0)
    assert np.isnan(plain.low)
    band = Curve("one", [1, 2], [3.0, 4.0], [2.0, 3.5], [5.0, 6.0])
    assert traffic_point(band, 7.0)[3:] == (3.5, 6.0)


@pytest.mark.parametrize("points", [[], [Point("nobody", 5.0, 0.0)]])
def test_nothing_to_draw(points: list[Point]) -> None:
    assert not traffic_figure(points).axes[0].texts
