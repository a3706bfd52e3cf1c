"""How many agents there are and how fast they mix, from messages between neighbours alone."""

from coopbandits.core.estimate.extrema import ExtremaCount
from coopbandits.core.estimate.spectral import PowerIteration, guaranteed_lambda
from coopbandits.core.estimate.survey import Survey
from coopbandits.core.estimate.tags import TagCount

__all__ = ["ExtremaCount", "PowerIteration", "Survey", "TagCount", "guaranteed_lambda"]
