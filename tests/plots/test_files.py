from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from coopbandits.core.errors import InputError
from coopbandits.plots import figure_bytes, svg


def figure() -> Figure:
    made = Figure()
    made.subplots().plot([1, 2], [3, 4])
    return made


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_same_figure_same_bytes(kind: str) -> None:
    assert figure_bytes(figure(), kind) == figure_bytes(figure(), kind)


def test_unknown_format() -> None:
    with pytest.raises(InputError, match=r"unknown figure format 'pgn'; .*did you mean 'png'"):
        figure_bytes(figure(), "pgn")


def test_svg_stands_inside_a_page() -> None:
    text = svg(figure())
    assert text.startswith("<svg")
    assert text.rstrip().endswith("</svg>")
    assert "<metadata" not in text
    assert "<!DOCTYPE" not in text
