"""One function per figure, from arrays; the HTML report."""

from coopbandits.plots.files import figure_bytes, svg
from coopbandits.plots.regret import Curve, draw_regret, regret_figure
from coopbandits.plots.report import html_report

__all__ = ["Curve", "draw_regret", "figure_bytes", "html_report", "regret_figure", "svg"]
