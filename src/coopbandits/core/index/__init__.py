"""What is played on an Estimate: one pure function per formula."""

from coopbandits.core.index.inflated import inflated_ucb, inflated_ucb_index
from coopbandits.core.index.posterior import (
    beta_draw_index,
    centred_draw_index,
    normal_draw_index,
)
from coopbandits.core.index.quantile import bayes_ucb_index, normal_upper, ucl_index
from coopbandits.core.index.ucb import ucb, ucb_index

__all__ = [
    "bayes_ucb_index",
    "beta_draw_index",
    "centred_draw_index",
    "inflated_ucb",
    "inflated_ucb_index",
    "normal_draw_index",
    "normal_upper",
    "ucb",
    "ucb_index",
    "ucl_index",
]
