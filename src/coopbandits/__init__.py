"""Decentralised cooperative bandits: agents on a graph learn together which option is best.

Names load on first use, so that ``import coopbandits.core`` needs numpy alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coopbandits.loading import part
from coopbandits.version import __version__ as __version__

if TYPE_CHECKING:
    from coopbandits.core import (
        AGGREGATIONS,
        DDUCB,
        DPE2,
        GSE,
        INDICES,
        KLUCB,
        LINEAR_INDICES,
        MOSS,
        MPUCB,
        UCB,
        UCL,
        Agent,
        AgentRows,
        Aggregation,
        ArmSums,
        BayesUCB,
        BetaDraw,
        CentralBatchedUCB,
        CentralPolicy,
        CentralTotals,
        CentralTS,
        CentralUCB,
        CentredDraw,
        Claims,
        ContextAgent,
        CooperativeAgent,
        CoopSE,
        CoopUCB,
        CoopUCB2,
        CoopUCL,
        DecBayesUCB,
        DecKLUCB,
        DecTS,
        DecUCB,
        DelayedCentralUCB,
        Elimination,
        EpsilonGreedy,
        Estimate,
        Exp3Coop,
        FedUCB,
        FleetAgent,
        FloodedPulls,
        FloodedTotals,
        FloodTS,
        FloodUCB,
        GosInE,
        GossipTS,
        GossipUCB,
        IndependentTS,
        IndependentUCB,
        Index,
        InflatedUCB,
        InputError,
        LedgerSums,
        LedgerTS,
        LedgerUCB,
        Liar,
        LinearSums,
        LinTS,
        LinUCB,
        LocalSums,
        LocalView,
        Machine,
        NeighborhoodSums,
        NormalDraw,
        Parts,
        PermutedBuffers,
        Policy,
        Private,
        PullMixing,
        Recommendation,
        Registers,
        ResilientUCB,
        RobustUCB,
        RowEstimates,
        RunningConsensus,
        RunningSums,
        ServerTotals,
        Share,
        Source,
        StagedMixing,
        Statistic,
        TopTwo,
        TrackedMeans,
        TreeSums,
        TreeTS,
        TreeUCB,
        TrimmedMeans,
        Truncated,
        UCBNetwork,
        Vector,
        at_source,
        combine,
        gamma_of,
        normal_of,
        parse_aggregation,
        parse_index,
        parse_policy,
        parse_source,
        populate,
        register_aggregation,
        register_index,
        register_policy,
        register_source,
        uniform_of,
        word_at,
        word_of,
    )
    from coopbandits.fleet import AsyncClient as AsyncClient
    from coopbandits.fleet import Client as Client
    from coopbandits.fleet import LocalAgent as LocalAgent
    from coopbandits.network import Faults, Network, parse_faults
    from coopbandits.network.faults import (
        Bursts,
        Churn,
        Crash,
        Delay,
        Graphs,
        Join,
        Loss,
        OneWay,
        Pairs,
        Partition,
        Redraw,
        Sleep,
        Speeds,
        register_fault,
    )
    from coopbandits.network.specs import register_graph
    from coopbandits.problems import (
        BernoulliBandit,
        BetaBandit,
        BoundedBandit,
        ExponentialBandit,
        GaussianBandit,
        LinearBandit,
        LoggedBandit,
        MixtureBandit,
        ParetoBandit,
        PoissonBandit,
        Problem,
        StudentTBandit,
        World,
        drift,
        parse_problem,
        register_problem,
        sites,
        subsets,
    )
    from coopbandits.results import Result
    from coopbandits.sim import (
        Cell,
        SimulationInterrupted,
        Sweep,
        SweepInterrupted,
        compare,
        parse_clocks,
        read_experiment,
        simulate,
        sweep,
    )
    from coopbandits.sim.clocks import PoissonClocks, RegularClocks, register_clocks
    from coopbandits.sim.stop import Stop
    from coopbandits.testing import check_policy

_HOMES = {
    "core": (
        "AGGREGATIONS Agent AgentRows Aggregation ArmSums BayesUCB BetaDraw CentralBatchedUCB "
        "CentralPolicy CentralTS CentralTotals CentralUCB CentredDraw Claims ContextAgent "
        "CoopSE CoopUCB CoopUCB2 CoopUCL CooperativeAgent DDUCB DPE2 DecBayesUCB DecKLUCB DecTS "
        "DecUCB DelayedCentralUCB Elimination EpsilonGreedy Estimate Exp3Coop FedUCB FleetAgent "
        "FloodTS FloodUCB FloodedPulls FloodedTotals GSE GosInE GossipTS GossipUCB INDICES "
        "IndependentTS IndependentUCB Index InflatedUCB InputError KLUCB LINEAR_INDICES "
        "LedgerSums LedgerTS LedgerUCB Liar LinTS LinUCB LinearSums LocalSums LocalView MOSS "
        "MPUCB Machine NeighborhoodSums NormalDraw Parts PermutedBuffers Policy Private "
        "PullMixing Recommendation Registers ResilientUCB RobustUCB RowEstimates "
        "RunningConsensus RunningSums ServerTotals Share Source StagedMixing Statistic TopTwo "
        "TrackedMeans TreeSums TreeTS TreeUCB TrimmedMeans Truncated UCB UCBNetwork UCL Vector "
        "at_source combine gamma_of normal_of parse_aggregation parse_index parse_policy "
        "parse_source populate register_aggregation register_index register_policy "
        "register_source uniform_of word_at word_of"
    ),
    "fleet": "AsyncClient Client LocalAgent",
    "network": "Faults Network parse_faults",
    "network.faults": (
        "Bursts Churn Crash Delay Graphs Join Loss OneWay Pairs Partition Redraw Sleep Speeds "
        "register_fault"
    ),
    "network.specs": "register_graph",
    "problems": (
        "BernoulliBandit BetaBandit BoundedBandit ExponentialBandit GaussianBandit LinearBandit "
        "LoggedBandit MixtureBandit ParetoBandit PoissonBandit Problem StudentTBandit World drift "
        "parse_problem register_problem sites subsets"
    ),
    "results": "Result",
    "sim": (
        "Cell SimulationInterrupted Sweep SweepInterrupted compare parse_clocks read_experiment "
        "simulate sweep"
    ),
    "sim.clocks": "PoissonClocks RegularClocks register_clocks",
    "sim.stop": "Stop",
    "testing": "check_policy",
}
# What needs the extra [fleet] is not in `__all__`: `import *` has to work without it.
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
    "UCB",
    "UCL",
    "Agent",
    "AgentRows",
    "Aggregation",
    "ArmSums",
    "BayesUCB",
    "BernoulliBandit",
    "BetaBandit",
    "BetaDraw",
    "BoundedBandit",
    "Bursts",
    "Cell",
    "CentralBatchedUCB",
    "CentralPolicy",
    "CentralTS",
    "CentralTotals",
    "CentralUCB",
    "CentredDraw",
    "Churn",
    "Claims",
    "ContextAgent",
    "CoopSE",
    "CoopUCB",
    "CoopUCB2",
    "CoopUCL",
    "CooperativeAgent",
    "Crash",
    "DecBayesUCB",
    "DecKLUCB",
    "DecTS",
    "DecUCB",
    "Delay",
    "DelayedCentralUCB",
    "Elimination",
    "EpsilonGreedy",
    "Estimate",
    "Exp3Coop",
    "ExponentialBandit",
    "Faults",
    "FedUCB",
    "FleetAgent",
    "FloodTS",
    "FloodUCB",
    "FloodedPulls",
    "FloodedTotals",
    "GaussianBandit",
    "GosInE",
    "GossipTS",
    "GossipUCB",
    "Graphs",
    "IndependentTS",
    "IndependentUCB",
    "Index",
    "InflatedUCB",
    "InputError",
    "Join",
    "LedgerSums",
    "LedgerTS",
    "LedgerUCB",
    "Liar",
    "LinTS",
    "LinUCB",
    "LinearBandit",
    "LinearSums",
    "LocalSums",
    "LocalView",
    "LoggedBandit",
    "Loss",
    "Machine",
    "MixtureBandit",
    "NeighborhoodSums",
    "Network",
    "NormalDraw",
    "OneWay",
    "Pairs",
    "ParetoBandit",
    "Partition",
    "Parts",
    "PermutedBuffers",
    "PoissonBandit",
    "PoissonClocks",
    "Policy",
    "Private",
    "Problem",
    "PullMixing",
    "Recommendation",
    "Redraw",
    "Registers",
    "RegularClocks",
    "ResilientUCB",
    "Result",
    "RobustUCB",
    "RowEstimates",
    "RunningConsensus",
    "RunningSums",
    "ServerTotals",
    "Share",
    "SimulationInterrupted",
    "Sleep",
    "Source",
    "Speeds",
    "StagedMixing",
    "Statistic",
    "Stop",
    "StudentTBandit",
    "Sweep",
    "SweepInterrupted",
    "TopTwo",
    "TrackedMeans",
    "TreeSums",
    "TreeTS",
    "TreeUCB",
    "TrimmedMeans",
    "Truncated",
    "UCBNetwork",
    "Vector",
    "World",
    "at_source",
    "check_policy",
    "combine",
    "compare",
    "drift",
    "gamma_of",
    "normal_of",
    "parse_aggregation",
    "parse_clocks",
    "parse_faults",
    "parse_index",
    "parse_policy",
    "parse_problem",
    "parse_source",
    "populate",
    "read_experiment",
    "register_aggregation",
    "register_clocks",
    "register_fault",
    "register_graph",
    "register_index",
    "register_policy",
    "register_problem",
    "register_source",
    "simulate",
    "sites",
    "subsets",
    "sweep",
    "uniform_of",
    "word_at",
    "word_of",
]


_INSTEAD = {"ucb_index": "cb.UCB(constant=…), an index as a value"}
"""What used to be here, and what to write now."""


def __getattr__(name: str) -> Any:
    if name in _INSTEAD:
        raise AttributeError(f"coopbandits has no {name} any more; use {_INSTEAD[name]}")
    if name in _HOME_OF:
        return getattr(part(_HOME_OF[name]), name)
    raise AttributeError(f"module 'coopbandits' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
