from __future__ import annotations

import numpy as np
import pytest

from coopbandits.plots import Curve, Panel, panel_figure, svg
from coopbandits.plots.panels import thin

X = np.arange(1.0, 6.0)


def panel(title: str, names: str = "ab", **more: object) -> Panel:
    return Panel(title, [Curve(name, X, X) for name in names], **more)  # type: ignore[arg-type]  # any settings


@pytest.mark.covering(2)
@pytest.mark.parametrize(("amount", "shape"), [(1, (1, 1)), (2, (1, 2)), (3, (2, 2)), (4, (2, 2))])
def test_panels_stand_in_rows_of_two(amount: int, shape: tuple[int, int]) -> None:
    figure = panel_figure([panel(f"panel {i}") for i in range(amount)])
    assert len(figure.axes) == shape[0] * shape[1]
    shown = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert shown == [f"panel {i}" for i in range(amount)]


def test_one_legend_names_every_line_once_and_hides_none() -> None:
    bound = Curve("bound", X, X)
    figure = panel_figure([panel("one"), panel("two", "abc", bounds=[bound], note="vacuous here")])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "c", "bound"]
    box = legend.get_window_extent()
    assert box.y0 >= -1
    for axes in figure.axes:
        assert box.y1 <= axes.get_window_extent().y0
        assert axes.get_xlabel() == "round"
    assert figure.axes[0].get_ylabel().endswith("(reward)")
    assert [text.get_text() for text in figure.axes[1].texts] == ["vacuous here"]


@pytest.mark.parametrize("amount", [1, 2])
def test_the_legend_is_not_wider_than_the_figure(amount: int) -> None:
    names = [f"a policy with a long name, number {i}" for i in range(15)]
    panels = [Panel("one", [Curve(name, X, X) for name in names])] * amount
    figure = panel_figure(panels)
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert figure.axes[0].get_window_extent().height > 250


def test_scales_and_labels() -> None:
    axes = panel_figure([panel("one")], xlabel="values sent", log="xy").axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "values sent"


def test_points_that_fall_on_one_another_are_left_out() -> None:
    x = np.arange(1.0, 10_001.0)
    curve = thin(Curve("many", x, 2 * x, x, 3 * x), log=False)
    kept = np.asarray(curve.x)
    assert 100 <= kept.size <= 102
    assert (kept[0], kept[-1]) == (1.0, 10_000.0)
    assert np.array_equal(curve.y, 2 * kept)
    assert np.array_equal(np.asarray(curve.high), 3 * kept)
    logarithmic = np.asarray(thin(Curve("many", x, x), log=True).x)
    assert np.median(logarithmic) < 300 < 4000 < np.median(kept)


def test_few_points_are_all_kept_and_zeros_have_no_logarithm() -> None:
    assert np.array_equal(np.asarray(thin(Curve("few", X, X), log=True).x), X)
    zero = thin(Curve("zero", [0.0, 0.0, 5.0, 7.0], X[:4]), log=True)
    assert np.asarray(zero.x).tolist() == [5.0, 7.0]
    alone = Curve("alone", [5.0], [1.0])
    assert thin(alone, log=False) is alone


def test_same_panels_same_svg() -> None:
    assert svg(panel_figure([panel("one")])) == svg(panel_figure([panel("one")]))
