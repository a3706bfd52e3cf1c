"""What one agent knows and does: numpy alone, no clock, socket, file or random source."""

from coopbandits.core.aggregate import (
    Aggregation,
    CentralTotals,
    Controller,
    FloodedPulls,
    FloodedTotals,
    LocalSums,
    Machine,
    MessageSize,
    NeighborhoodSums,
    PullMixing,
    RunningConsensus,
    RunningSums,
    StagedMixing,
    TreeSums,
)
from coopbandits.core.contract import Agent, Estimate, LocalView, Share, State, Vector
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.draws import gamma_of, normal_of, uniform_of, word_at
from coopbandits.core.errors import InputError
from coopbandits.core.index import (
    KLUCB,
    MOSS,
    UCB,
    UCL,
    BayesUCB,
    BetaDraw,
    CentredDraw,
    EpsilonGreedy,
    Index,
    InflatedUCB,
    NormalDraw,
    TopTwo,
)
from coopbandits.core.policies import (
    DDUCB,
    MPUCB,
    CentralBatchedUCB,
    CentralTS,
    CentralUCB,
    CoopUCB,
    CoopUCB2,
    CoopUCL,
    DecBayesUCB,
    DecTS,
    DelayedCentralUCB,
    FloodTS,
    FloodUCB,
    GossipTS,
    IndependentTS,
    IndependentUCB,
    TreeTS,
    TreeUCB,
    UCBNetwork,
)
from coopbandits.core.policy import AnyPolicy, CentralPolicy, Parts, Policy, combine
from coopbandits.core.registry import POLICIES, parse_policy
from coopbandits.core.statistic import ArmSums, Registers, Statistic

__all__ = [name for name in dir() if not name.startswith("_")]
