"""A figure that shows itself; a module of its own, since it cannot be written without matplotlib.

pyplot does not know these figures, so a notebook draws one only where it is the value of a cell.
"""

from __future__ import annotations

from matplotlib.figure import Figure

from coopbandits.plots.files import figure_bytes


class ShownFigure(Figure):
    """A figure that a notebook draws even if nobody imported pyplot."""

    def _repr_png_(self) -> bytes:
        return figure_bytes(self, "png")
