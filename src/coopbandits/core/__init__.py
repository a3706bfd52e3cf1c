"""What one agent knows and does: numpy alone, no clock, socket, file or random source.

Names load on first use, so that what is no agent, like a client, takes its errors from here without
numpy.
"""

# mypy: implicit-reexport

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coopbandits.core.aggregate import (
        AGENTS,
        AHEAD,
        TIME,
        Aggregation,
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
        PullMixing,
        RunningConsensus,
        RunningSums,
        Sizes,
        StagedMixing,
        TreeSums,
        whole,
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
        KLUCB,
        LINEAR_INDICES,
        MOSS,
        UCB,
        BayesUCB,
        BetaDraw,
        CentredDraw,
        Elimination,
        EpsilonGreedy,
        Index,
        LinTS,
        LinUCB,
        NormalDraw,
        RobustUCB,
        TopTwo,
    )
    from coopbandits.core.policies import (
        DDUCB,
        CentralBatchedUCB,
        CentralTS,
        CentralUCB,
        DelayedCentralUCB,
        FloodTS,
        FloodUCB,
        GossipTS,
        IndependentTS,
        IndependentUCB,
        LedgerTS,
        LedgerUCB,
        TreeTS,
        TreeUCB,
    )
    from coopbandits.core.policy import AnyPolicy, CentralPolicy, Parts, Policy, combine
    from coopbandits.core.population import populate
    from coopbandits.core.recommend import Recommendation
    from coopbandits.core.registry import (
        AGGREGATIONS,
        INDICES,
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
        "AGENTS AHEAD Aggregation AnyAggregation CentralTotals Controller FloodedPulls "
        "FloodedTotals LedgerSums LocalSums Machine MessageSize NeighborhoodSums PullMixing "
        "RunningConsensus RunningSums Sizes StagedMixing TIME TreeSums whole"
    ),
    "aggregate.claims": "Claims",
    "contract": "Agent ContextAgent Estimate FleetAgent LocalView Share State Vector",
    "cooperative": "CooperativeAgent",
    "draws": "gamma_of normal_of uniform_of word_at word_of",
    "errors": "InputError",
    "index": (
        "BayesUCB BetaDraw CentredDraw Elimination EpsilonGreedy Index KLUCB LINEAR_INDICES LinTS "
        "LinUCB MOSS NormalDraw RobustUCB TopTwo UCB"
    ),
    "policies": (
        "CentralBatchedUCB CentralTS CentralUCB DDUCB DelayedCentralUCB FloodTS FloodUCB GossipTS "
        "IndependentTS IndependentUCB LedgerTS LedgerUCB TreeTS TreeUCB"
    ),
    "policy": "AnyPolicy CentralPolicy Parts Policy combine",
    "recommend": "Recommendation",
    "registry": (
        "AGGREGATIONS INDICES POLICIES parse_aggregation parse_index parse_policy parse_source "
        "register_aggregation register_index register_policy register_source"
    ),
    "population": "populate",
    "sourced": "at_source",
    "sources": "Private Source Truncated",
    "statistic": "ArmSums LinearSums Registers Statistic",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
