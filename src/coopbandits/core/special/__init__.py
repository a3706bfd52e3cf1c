"""Bernoulli divergence and beta quantiles, as plain functions of floats.

They raise nothing, and numba compiles this very source: the caller registers all of `FUNCTIONS`,
since a compiled function sees only callees that numba knows.
"""

from coopbandits.core.draws import normal_quantile
from coopbandits.core.special import bernoulli, beta
from coopbandits.core.special.bernoulli import (
    bernoulli_divergence,
    bernoulli_upper,
    bernstein_upper,
    pinsker_upper,
)
from coopbandits.core.special.beta import beta_quantile, beta_upper_quantile

FUNCTIONS = (
    bernoulli_divergence,
    bernoulli_upper,
    bernstein_upper,
    beta_quantile,
    beta_upper_quantile,
    normal_quantile,
    pinsker_upper,
    bernoulli.bernstein_width,
    bernoulli.deviance,
    bernoulli.reverted,
    bernoulli.upper_rise,
    beta.first_rise,
    beta.log_factor,
    beta.rise_step,
    beta.stirling_error,
    beta.tail_point,
    beta.tail_ratio,
)
"""The functions of this package and their callees, for numba's `register_jitable`."""

__all__ = [
    "FUNCTIONS",
    "bernoulli_divergence",
    "bernoulli_upper",
    "bernstein_upper",
    "beta_quantile",
    "beta_upper_quantile",
    "pinsker_upper",
]
