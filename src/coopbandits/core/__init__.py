"""What one agent knows and does: numpy alone, no clock, socket, file or random source.

Names load on first use, so that what is no agent, like a client, takes its errors from here without
numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coopbandits.core.aggregate import (
        AGGREGATIONS,
        AnyAggregation,
        CentralTotals,
        Controller,
        FloodedPulls,
        FloodedTotals,
        LedgerSums,
        LocalSums,
        Machine,
        MessageSize,
        NeighborhoodSums,
        PermutedBuffers,
        PullMixing,
        RunningConsensus,
        RunningSums,
        ServerTotals,
        StagedMixing,
        TrackedMeans,
        TreeSums,
        TrimmedMeans,
    )
    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.contract import (
        Agent,
        ContextAgent,
        Estimate,
        FleetAgent,
        LocalView,
        Share,
        State,
        Vector,
    )
    from coopbandits.core.cooperative import CooperativeAgent
    from coopbandits.core.draws import gamma_of, normal_of, uniform_of, word_at, word_of
    from coopbandits.core.errors import InputError
    from coopbandits.core.index import (
        INDICES,
        KLUCB,
        LINEAR_INDICES,
        MOSS,
        UCB,
        UCL,
        BayesUCB,
        BetaDraw,
        CentredDraw,
        Elimination,
        EpsilonGreedy,
        Index,
        InflatedUCB,
        LinTS,
        LinUCB,
        NormalDraw,
        RobustUCB,
        TopTwo,
    )
    from coopbandits.core.policies import (
        DDUCB,
        DPE2,
        GSE,
        MPUCB,
        CentralBatchedUCB,
        CentralTS,
        CentralUCB,
        CoopSE,
        CoopUCB,
        CoopUCB2,
        CoopUCL,
        DecBayesUCB,
        DecKLUCB,
        DecTS,
        DecUCB,
        DelayedCentralUCB,
        Exp3Coop,
        FedUCB,
        FloodTS,
        FloodUCB,
        GosInE,
        GossipTS,
        GossipUCB,
        IndependentTS,
        IndependentUCB,
        LedgerTS,
        LedgerUCB,
        Liar,
        ResilientUCB,
        TreeTS,
        TreeUCB,
        UCBNetwork,
    )
    from coopbandits.core.policy import AnyPolicy, CentralPolicy, Parts, Policy, combine
    from coopbandits.core.population import populate
    from coopbandits.core.recommend import Recommendation
    from coopbandits.core.registry import (
        POLICIES,
        parse_aggregation,
        parse_index,
        parse_policy,
        parse_source,
        register_aggregation,
        register_index,
        register_policy,
        register_source,
    )
    from coopbandits.core.sourced import at_source
    from coopbandits.core.sources import Private, Source, Truncated
    from coopbandits.core.statistic import ArmSums, LinearSums, Registers, Statistic

_HOMES = {
    "aggregate": (
        "AGGREGATIONS AnyAggregation CentralTotals Controller FloodedPulls FloodedTotals "
        "LedgerSums LocalSums Machine MessageSize NeighborhoodSums PermutedBuffers PullMixing "
        "RunningConsensus RunningSums ServerTotals StagedMixing TrackedMeans "
        "TreeSums TrimmedMeans"
    ),
    "aggregate.claims": "Claims",
    "contract": "Agent ContextAgent Estimate FleetAgent LocalView Share State Vector",
    "cooperative": "CooperativeAgent",
    "draws": "gamma_of normal_of uniform_of word_at word_of",
    "errors": "InputError",
    "index": (
        "BayesUCB BetaDraw CentredDraw Elimination EpsilonGreedy INDICES Index InflatedUCB "
        "KLUCB LINEAR_INDICES LinTS LinUCB MOSS NormalDraw RobustUCB TopTwo UCB UCL"
    ),
    "policies": (
        "CentralBatchedUCB CentralTS CentralUCB CoopSE CoopUCB CoopUCB2 CoopUCL DDUCB DPE2 "
        "DecBayesUCB DecKLUCB DecTS DecUCB DelayedCentralUCB Exp3Coop FedUCB FloodTS FloodUCB "
        "GSE GosInE GossipTS GossipUCB IndependentTS IndependentUCB LedgerTS LedgerUCB Liar "
        "MPUCB ResilientUCB TreeTS TreeUCB UCBNetwork"
    ),
    "policy": "AnyPolicy CentralPolicy Parts Policy combine",
    "recommend": "Recommendation",
    "registry": (
        "POLICIES parse_aggregation parse_index parse_policy parse_source register_aggregation "
        "register_index register_policy register_source"
    ),
    "population": "populate",
    "sourced": "at_source",
    "sources": "Private Source Truncated",
    "statistic": "ArmSums LinearSums Registers Statistic",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "AGGREGATIONS",
    "DDUCB",
    "DPE2",
    "GSE",
    "INDICES",
    "KLUCB",
    "LINEAR_INDICES",
    "MOSS",
    "MPUCB",
    "POLICIES",
    "UCB",
    "UCL",
    "Agent",
    "AnyAggregation",
    "AnyPolicy",
    "ArmSums",
    "BayesUCB",
    "BetaDraw",
    "CentralBatchedUCB",
    "CentralPolicy",
    "CentralTS",
    "CentralTotals",
    "CentralUCB",
    "CentredDraw",
    "Claims",
    "ContextAgent",
    "Controller",
    "CoopSE",
    "CoopUCB",
    "CoopUCB2",
    "CoopUCL",
    "CooperativeAgent",
    "DecBayesUCB",
    "DecKLUCB",
    "DecTS",
    "DecUCB",
    "DelayedCentralUCB",
    "Elimination",
    "EpsilonGreedy",
    "Estimate",
    "Exp3Coop",
    "FedUCB",
    "FleetAgent",
    "FloodTS",
    "FloodUCB",
    "FloodedPulls",
    "FloodedTotals",
    "GosInE",
    "GossipTS",
    "GossipUCB",
    "IndependentTS",
    "IndependentUCB",
    "Index",
    "InflatedUCB",
    "InputError",
    "LedgerSums",
    "LedgerTS",
    "LedgerUCB",
    "Liar",
    "LinTS",
    "LinUCB",
    "LinearSums",
    "LocalSums",
    "LocalView",
    "Machine",
    "MessageSize",
    "NeighborhoodSums",
    "NormalDraw",
    "Parts",
    "PermutedBuffers",
    "Policy",
    "Private",
    "PullMixing",
    "Recommendation",
    "Registers",
    "ResilientUCB",
    "RobustUCB",
    "RunningConsensus",
    "RunningSums",
    "ServerTotals",
    "Share",
    "Source",
    "StagedMixing",
    "State",
    "Statistic",
    "TopTwo",
    "TrackedMeans",
    "TreeSums",
    "TreeTS",
    "TreeUCB",
    "TrimmedMeans",
    "Truncated",
    "UCBNetwork",
    "Vector",
    "at_source",
    "combine",
    "gamma_of",
    "normal_of",
    "parse_aggregation",
    "parse_index",
    "parse_policy",
    "parse_source",
    "populate",
    "register_aggregation",
    "register_index",
    "register_policy",
    "register_source",
    "uniform_of",
    "word_at",
    "word_of",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
