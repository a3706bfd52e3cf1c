"""One function per figure, from arrays; the HTML report.

matplotlib is imported only when something is drawn, since that takes a noticeable time.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from threading import Thread

from coopbandits.plots.agents import agents_figure
from coopbandits.plots.files import figure_bytes, svg
from coopbandits.plots.panels import Panel, panel_figure
from coopbandits.plots.regret import Curve, draw_regret, regret_figure
from coopbandits.plots.report import Section, Table, drawing, html_fragment, html_page
from coopbandits.plots.scaling import scaling_figure
from coopbandits.plots.scores import score_figure
from coopbandits.plots.timeline import Moment, timeline_figure
from coopbandits.plots.traffic import Point, traffic_figure


def load_meanwhile() -> None:
    """Import matplotlib in a thread, beside work that leaves a core to it."""

    def load() -> None:
        with suppress(ImportError):  # who draws will be told
            import_module("coopbandits.plots.shown")

    Thread(target=load).start()


__all__ = [
    "Curve",
    "Moment",
    "Panel",
    "Point",
    "Section",
    "Table",
    "agents_figure",
    "draw_regret",
    "drawing",
    "figure_bytes",
    "html_fragment",
    "html_page",
    "load_meanwhile",
    "panel_figure",
    "regret_figure",
    "scaling_figure",
    "score_figure",
    "svg",
    "timeline_figure",
    "traffic_figure",
]
