"""How statistics travel between agents: one scheme per file."""

from coopbandits.core.aggregate.aggregation import AnyAggregation, Machine, MessageSize
from coopbandits.core.aggregate.central import CentralAggregation, CentralTotals, Controller
from coopbandits.core.aggregate.claims import Claims
from coopbandits.core.aggregate.consensus import RunningConsensus
from coopbandits.core.aggregate.fields import (
    AGENTS,
    AHEAD,
    TIME,
    Aggregation,
    Sizes,
    whole,
)
from coopbandits.core.aggregate.flooded_pulls import FloodedPulls
from coopbandits.core.aggregate.flooded_totals import FloodedTotals
from coopbandits.core.aggregate.ledger_sums import LedgerSums
from coopbandits.core.aggregate.local import LocalSums
from coopbandits.core.aggregate.neighborhood import NeighborhoodSums
from coopbandits.core.aggregate.pull_mixing import PullMixing
from coopbandits.core.aggregate.running_sums import RunningSums
from coopbandits.core.aggregate.staged_mixing import StagedMixing
from coopbandits.core.aggregate.tree_sums import TreeSums

__all__ = [
    "AGENTS",
    "AHEAD",
    "TIME",
    "Aggregation",
    "AnyAggregation",
    "CentralAggregation",
    "CentralTotals",
    "Claims",
    "Controller",
    "FloodedPulls",
    "FloodedTotals",
    "LedgerSums",
    "LocalSums",
    "Machine",
    "MessageSize",
    "NeighborhoodSums",
    "PullMixing",
    "RunningConsensus",
    "RunningSums",
    "Sizes",
    "StagedMixing",
    "TreeSums",
    "whole",
]
