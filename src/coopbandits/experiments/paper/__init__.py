"""The paper in one command: its figures, what it left out, and whether its claims hold."""

from coopbandits.experiments.paper.report import Reproduction, write_report
from coopbandits.experiments.paper.reproduce import reproduce
from coopbandits.experiments.paper.screen import screen_text

__all__ = ["Reproduction", "reproduce", "screen_text", "write_report"]
