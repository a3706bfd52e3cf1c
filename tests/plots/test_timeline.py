"""Choices over time, as layers with marks."""

from __future__ import annotations

import numpy as np
from matplotlib.collections import PolyCollection

from coopbandits.plots import Curve, Moment, timeline_figure

TIMES = [0.0, 1.0, 2.0]


def test_layers_curves_and_marks() -> None:
    shares = [[0.5, 0.5], [0.2, 0.8], [0.0, 1.0]]
    figure = timeline_figure(
        TIMES, ["a", "b"], shares, [Curve("ours", TIMES, [0.1, 0.2, 0.3])],
        [Moment(1.0, "files change")], ylabel="reward", title="what was chosen",
    )  # fmt: skip
    above, below = figure.axes
    layers = [each for each in above.collections if isinstance(each, PolyCollection)]
    assert [layer.get_label() for layer in layers] == ["a", "b"]
    tops = [np.asarray(layer.get_paths()[0].vertices)[:, 1].max() for layer in layers]
    assert tops == [0.5, 1.0]
    assert len({layer.get_hatch() for layer in layers}) == 2
    curve, mark = below.get_lines()
    assert np.asarray(curve.get_ydata()).tolist() == [0.1, 0.2, 0.3]
    assert np.asarray(mark.get_xdata()).tolist() == [1.0, 1.0]
    assert [text.get_text() for text in above.texts] == ["files change"]
    assert above.get_title() == "what was chosen"
