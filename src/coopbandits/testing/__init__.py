"""Public checkers: what one runs on a policy of one's own before trusting a simulation of it."""

from coopbandits.testing.central import check_central_policy
from coopbandits.testing.policy import PolicyCheckError, check_policy
from coopbandits.testing.transport import TransportCheckError, check_transport

__all__ = [
    "PolicyCheckError",
    "TransportCheckError",
    "check_central_policy",
    "check_policy",
    "check_transport",
]
