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
from coopbandits.core.central import (
    CentralBatchedUCB,
    CentralPolicy,
    CentralTS,
    CentralUCB,
    DelayedCentralUCB,
)
from coopbandits.core.coop_ucb import CoopUCB, CoopUCB2, CoopUCL
from coopbandits.core.dducb import DDUCB
from coopbandits.core.errors import InputError
from coopbandits.core.index import ucb_index
from coopbandits.core.policy import Policy
from coopbandits.core.registry import POLICIES, AnyPolicy, parse_policy
from coopbandits.core.robust import FloodTS, FloodUCB, GossipTS, TreeTS, TreeUCB
from coopbandits.core.shared_pulls import MPUCB, UCBNetwork
from coopbandits.core.thompson import DecBayesUCB, DecTS, IndependentTS

__all__ = [
    "DDUCB",
    "MPUCB",
    "POLICIES",
    "Agent",
    "Aggregation",
    "AnyPolicy",
    "CentralBatchedUCB",
    "CentralPolicy",
    "CentralTS",
    "CentralUCB",
    "CoopUCB",
    "CoopUCB2",
    "CoopUCL",
    "CooperativeAgent",
    "DecBayesUCB",
    "DecTS",
    "DelayedCentralUCB",
    "Estimate",
    "FloodTS",
    "FloodUCB",
    "GossipTS",
    "IndependentTS",
    "IndependentUCB",
    "InputError",
    "LocalView",
    "Policy",
    "State",
    "TreeTS",
    "TreeUCB",
    "UCBNetwork",
    "Vector",
    "parse_policy",
    "ucb_index",
]
