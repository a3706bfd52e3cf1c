"""What one agent knows and does: numpy alone, no clock, socket, file or random source."""

from coopbandits.core.agent import (
    Agent,
    Aggregation,
    CooperativeAgent,
    Estimate,
    LocalView,
    State,
    Vector,
)
from coopbandits.core.baselines import IndependentUCB
from coopbandits.core.dducb import DDUCB
from coopbandits.core.errors import InputError
from coopbandits.core.index import ucb_index
from coopbandits.core.policy import Policy
from coopbandits.core.registry import POLICIES, parse_policy

__all__ = [
    "DDUCB",
    "POLICIES",
    "Agent",
    "Aggregation",
    "CooperativeAgent",
    "Estimate",
    "IndependentUCB",
    "InputError",
    "LocalView",
    "Policy",
    "State",
    "Vector",
    "parse_policy",
    "ucb_index",
]
