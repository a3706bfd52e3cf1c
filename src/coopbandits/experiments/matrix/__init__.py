"""The matrix: every aggregation × every index on the suite, and which part matters more."""

from coopbandits.experiments.matrix.deliver import deliver
from coopbandits.experiments.matrix.plan import Matrix, make_matrix

__all__ = ["Matrix", "deliver", "make_matrix"]
