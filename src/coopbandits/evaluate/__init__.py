"""What a policy is worth, from a log of decisions that another one made."""

from coopbandits.evaluate.learned import learned
from coopbandits.evaluate.log import DecisionLog
from coopbandits.evaluate.record import log_decisions
from coopbandits.evaluate.replay import replay
from coopbandits.evaluate.values import Value, direct, doubly_robust, ips

__all__ = [
    "DecisionLog",
    "Value",
    "direct",
    "doubly_robust",
    "ips",
    "learned",
    "log_decisions",
    "replay",
]
