"""Public checkers: what one runs on a policy of one's own before trusting a simulation of it."""

from coopbandits.testing.central import check_central_policy
from coopbandits.testing.policy import PolicyCheckError, check_policy

__all__ = ["PolicyCheckError", "check_central_policy", "check_policy"]
