from __future__ import annotations

import re

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
    with pytest.raises(InputError, match=r"'pgn'.*'png'"):
        figure_bytes(figure(), "pgn")


def test_svg_stands_inside_a_page() -> None:
    text = svg(figure())
    assert text.startswith("<svg")
    assert text.rstrip().endswith("</svg>")
    assert "<metadata" not in text
    assert "<!DOCTYPE" not in text


def test_svg_is_short_and_keeps_its_shape() -> None:
    made = Figure()
    made.subplots().plot(range(2000), [i % 7 for i in range(2000)])
    drawing = figure_bytes(made, "svg")
    assert b"<!--" not in drawing
    assert b"\n " not in drawing
    paths = b"".join(re.findall(rb' d="([^"]*)"', drawing))
    assert re.search(rb"\d\.\d\d[ \n]", paths)
    assert not re.search(rb"\.\d{3}", paths)
    assert b"scale(0.1 -0.1)" in drawing  # transformations are left as they are
