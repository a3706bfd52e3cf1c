"""What is played on an Estimate: one pure function per formula."""

from coopbandits.core.index.ucb import ucb, ucb_index

__all__ = ["ucb", "ucb_index"]
