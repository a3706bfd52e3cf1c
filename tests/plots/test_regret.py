from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coopbandits.plots import Curve, draw_regret, regret_figure, svg
from coopbandits.plots.regret import INSIDE_LEGEND

X = [1.0, 10.0, 100.0]


def curves(amount: int) -> list[Curve]:
    return [Curve(f"curve {i}", X, [0.0, i + 1.0, 2.0 * i + 1]) for i in range(amount)]


def legend_texts(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize("amount", [2, 7, 8, 20, 28])
def test_curves_look_different(amount: int) -> None:
    axes = regret_figure(curves(amount)).axes[0]
    looks = {(line.get_color(), str(line._dash_pattern)) for line in axes.get_lines()}  # type: ignore[attr-defined]  # not public
    assert len(looks) == amount


def test_neighbouring_curves_differ_without_colour() -> None:
    lines = regret_figure(curves(7)).axes[0].get_lines()
    dashes = [str(line._dash_pattern) for line in lines]  # type: ignore[attr-defined]  # not public
    assert all(a != b for a, b in pairwise(dashes))


@pytest.mark.parametrize("amount", [1, INSIDE_LEGEND, INSIDE_LEGEND + 1, 45])
def test_every_curve_is_named_and_the_legend_hides_none(amount: int) -> None:
    figure = regret_figure(curves(amount))
    axes = figure.axes[0]
    assert legend_texts(axes) == [f"curve {i}" for i in range(amount)]
    figure.draw_without_rendering()
    legend = axes.get_legend()
    assert legend is not None
    box, inside = legend.get_window_extent(), axes.get_window_extent()
    if amount > INSIDE_LEGEND:
        assert box.x0 >= inside.x1
    assert box.x1 <= figure.bbox.x1 + 1
    assert box.y0 >= -1


def test_axes_are_labelled() -> None:
    figure = regret_figure(curves(1), xlabel="values sent", title="Cycle")
    axes = figure.axes[0]
    assert axes.get_xlabel() == "values sent"
    assert axes.get_ylabel() == "cumulative regret of the network (reward)"
    assert axes.get_title() == "Cycle"
    assert (axes.get_xlim()[0], axes.get_ylim()[0]) == (0.0, 0.0)


def test_dollars_are_no_formula() -> None:
    figure = regret_figure([Curve("a$\\frac$b", X, X)])
    figure.draw_without_rendering()
    assert legend_texts(figure.axes[0]) == ["a\\$\\frac\\$b"]


def test_a_single_round_is_a_visible_point() -> None:
    axes = regret_figure([Curve("one", [5.0], [3.0])]).axes[0]
    assert axes.get_lines()[0].get_marker() == "o"
    assert regret_figure(curves(1)).axes[0].get_lines()[0].get_marker() != "o"


def test_nothing_to_draw() -> None:
    figure = regret_figure([])
    figure.draw_without_rendering()
    assert figure.axes[0].get_legend() is None


def test_several_axes_side_by_side() -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    draw_regret(left, curves(2))
    draw_regret(right, curves(3), log="xy")
    assert (len(left.get_lines()), len(right.get_lines())) == (2, 3)
    assert right.get_xscale() == "log"


def test_bands_need_both_ends() -> None:
    y = np.array([1.0, 2.0, 3.0])
    figure = regret_figure([Curve("a", X, y, y - 1, y + 1), Curve("b", X, y, y - 1)])
    assert len(figure.axes[0].collections) == 1


def test_same_figure_same_svg() -> None:
    assert svg(regret_figure(curves(3))) == svg(regret_figure(curves(3)))
    assert svg(regret_figure(curves(3))) != svg(regret_figure(curves(4)))


def test_ticks() -> None:
    ticks = {0.0: "0", 0.25: "0.25", 12000.0: "12\u2009000", 2.5e6: "2.5M", -3e9: "-3G"}
    write = regret_figure(curves(1)).axes[0].yaxis.get_major_formatter()
    assert {value: write(value, 0) for value in ticks} == ticks
