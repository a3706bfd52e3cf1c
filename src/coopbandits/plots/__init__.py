"""One function per figure, from arrays; the HTML report.

matplotlib is imported only when something is drawn, since that takes a noticeable time.
"""

from coopbandits.plots.agents import agents_figure
from coopbandits.plots.files import figure_bytes, svg
from coopbandits.plots.panels import Panel, panel_figure
from coopbandits.plots.regret import Curve, draw_regret, regret_figure
from coopbandits.plots.report import Section, Table, html_fragment, html_page
from coopbandits.plots.scaling import scaling_figure
from coopbandits.plots.scores import score_figure
from coopbandits.plots.timeline import Moment, timeline_figure

__all__ = [
    "Curve",
    "Moment",
    "Panel",
    "Section",
    "Table",
    "agents_figure",
    "draw_regret",
    "figure_bytes",
    "html_fragment",
    "html_page",
    "panel_figure",
    "regret_figure",
    "scaling_figure",
    "score_figure",
    "svg",
    "timeline_figure",
]
