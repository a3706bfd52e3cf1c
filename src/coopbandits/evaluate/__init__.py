"""Off-policy evaluation: what a policy would be paid, from a log of decisions by another one."""

from coopbandits.evaluate.estimators import SupportWarning, Value, direct, doubly_robust, ips
from coopbandits.evaluate.log import DecisionLog
from coopbandits.evaluate.propensities import learned, log_decisions
from coopbandits.evaluate.replay import replay

__all__ = [
    "DecisionLog",
    "SupportWarning",
    "Value",
    "direct",
    "doubly_robust",
    "ips",
    "learned",
    "log_decisions",
    "replay",
]
