"""Scores as a table of colours: every number is there, in its place, and can be read."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb, to_rgba_array
from numpy.typing import ArrayLike

from coopbandits.plots import figure_bytes, score_figure
from coopbandits.plots.scores import short

OVERALL = [1.0, 4.5]
SCORES = [[0.9, 1.1, 1.0], [0.25, 130.0, 12.5]]


def test_every_field_shows_its_number_in_its_place() -> None:
    axes = score_figure(["good", "bad"], ["a", "b", "c"], OVERALL, SCORES, title="all").axes[0]
    shown = {text.get_position(): text.get_text() for text in axes.texts}
    expected = [["1.00", "0.90", "1.10", "1.00"], ["4.50", "0.25", "130", "12.5"]]
    assert shown == {
        (column + 0.5, row + 0.5): text
        for row, texts in enumerate(expected)
        for column, text in enumerate(texts)
    }
    assert [label.get_text() for label in axes.get_xticklabels()] == ["overall", "a", "b", "c"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["good", "bad"]
    bottom, top = axes.get_ylim()
    assert bottom > top  # the first policy stands on top
    assert axes.get_title() == "all"


def test_numbers_stand_out_from_their_field() -> None:
    figure = score_figure(["p"], [f"{i}" for i in range(60)], [1.0], [np.geomspace(0.5, 200, 60)])
    axes = figure.axes[0]
    (mesh,) = axes.collections
    figure_bytes(figure, "png")  # colours are settled by drawing
    for text, colour in zip(axes.texts, to_rgba_array(mesh.get_facecolor()), strict=True):
        ink, field = luminance(to_rgb(text.get_color())), luminance(colour[:3])
        assert (max(ink, field) + 0.05) / (min(ink, field) + 0.05) > 3.5


def luminance(colour: ArrayLike) -> float:
    c = np.asarray(colour)
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


@pytest.mark.parametrize("score", [1.0, 0.0])
def test_equal_scores_can_be_drawn(score: float) -> None:
    figure = score_figure(["one", "two"], ["a"], [score] * 2, [[score]] * 2)
    assert figure_bytes(figure, "png").startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"), (1.0, "1.00"), (9.994, "9.99"), (9.996, "10.0"), (99.94, "99.9"),
        (99.96, "100"), (1234.5, "1234"),
    ],
)  # fmt: skip
def test_short(value: float, text: str) -> None:
    assert short(value) == text


def test_a_field_without_a_score_shows_a_dash() -> None:
    figure = score_figure(
        ["overall", "p"], ["a"], [2.0, np.nan], [[1.0], [np.nan]], top_is_overall=True
    )
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["2.00", "1.00", "–", "–"]
    assert figure_bytes(figure, "png").startswith(b"\x89PNG")
    assert len(axes.get_lines()) == 2  # beside the first column, and below the first row
