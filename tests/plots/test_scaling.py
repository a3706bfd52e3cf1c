"""Figures of a number against a setting."""

from __future__ import annotations

import numpy as np

from coopbandits.plots import Curve, scaling_figure


def test_points_bands_and_words() -> None:
    curves = [
        Curve("with a band", [1, 10, 100], [2.0, 20.0, 200.0], [1, 10, 100], [3, 30, 300]),
        Curve("without", [1, 10], [5.0, 6.0]),
    ]
    figure = scaling_figure(curves, xlabel="agents", ylabel="regret", title="why?")
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.get_lines()] == ["with a band", "without"]
    assert [np.size(line.get_xdata()) for line in axes.get_lines()] == [3, 2]
    assert len(axes.collections) == 1
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("agents", "regret", "why?")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "10", "100"]
    looks = {(line.get_color(), line.get_marker()) for line in axes.get_lines()}
    assert len(looks) == 2
