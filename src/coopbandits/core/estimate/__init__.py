"""How many agents there are and how fast they mix, from messages between neighbours alone."""

import coopbandits.core.aggregate  # noqa: F401  before what it imports from here
from coopbandits.core.estimate.spectral import PowerIteration
from coopbandits.core.estimate.survey import Survey, guaranteed_lambda

__all__ = ["PowerIteration", "Survey", "guaranteed_lambda"]
