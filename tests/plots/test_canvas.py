"""Figures that show themselves, and drawing onto axes that callers have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from matplotlib.figure import Figure

from coopbandits.plots import (
    Curve,
    Panel,
    agents_figure,
    panel_figure,
    regret_figure,
    scaling_figure,
    score_figure,
)

X = [1.0, 2.0, 3.0]
CURVES = [Curve("a", X, X), Curve("b", X, [2.0, 3.0, 4.0])]
SCORES: Any = (["p", "q"], ["s"], [1.0, 2.0], [[1.0], [2.0]])
DRAWN: list[Callable[..., Figure]] = [
    lambda **more: regret_figure(CURVES, **more),
    lambda **more: agents_figure(CURVES, **more),
    lambda **more: scaling_figure(CURVES, xlabel="x", ylabel="y", **more),
    lambda **more: score_figure(*SCORES, **more),
]


@pytest.mark.parametrize("draw", DRAWN)
def test_onto_given_axes(draw: Callable[..., Figure]) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert draw(ax=right, title="mine") is figure
    assert right.get_title() == "mine"
    assert right.has_data()
    assert not left.has_data()


def test_onto_axes_of_a_subfigure() -> None:
    figure = Figure()
    axes = figure.add_subfigure(figure.add_gridspec(1, 2)[1]).subplots()
    assert regret_figure(CURVES, ax=axes) is figure


@pytest.mark.parametrize("draw", [*DRAWN, lambda: panel_figure([Panel("one", CURVES)])])
def test_notebooks_show_figures_without_pyplot(draw: Callable[..., Figure]) -> None:
    picture = draw()._repr_png_()  # type: ignore[attr-defined]  # a ShownFigure
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 2000
