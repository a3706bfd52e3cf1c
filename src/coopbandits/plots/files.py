"""Figures as files, the same bytes for the same figure."""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING

from coopbandits.core.errors import unknown_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Metadata that would change from day to day or contain a URL; None leaves it out.
NO_METADATA: dict[str, dict[str, None]] = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "pdf": {"CreationDate": None},
    "eps": {},
}


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as a file of some kind, such as svg, png or pdf."""
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        raise unknown_name("figure format", kind, known)
    buffer = BytesIO()
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "coopbandits"}):
        figure.savefig(buffer, format=kind, metadata=NO_METADATA.get(kind))
    return _shorten(buffer.getvalue()) if kind == "svg" else buffer.getvalue()


def _shorten(drawing: bytes) -> bytes:
    """Drop comments, indentation and invisible decimals, which are a third of the size."""
    lines = re.sub(rb"\s*(<!--.*?-->)?\n\s*", b"\n", drawing)
    return re.sub(rb' d="[^"]*"', lambda path: re.sub(rb"(\.\d\d)\d+", rb"\1", path[0]), lines)


def svg(figure: Figure, drawn: bytes | None = None) -> str:
    """Return a figure as an SVG element for an HTML page; `drawn` is the file, if there is one."""
    text = (drawn or figure_bytes(figure, "svg")).decode("utf-8")
    return text[text.index("<svg") :]
