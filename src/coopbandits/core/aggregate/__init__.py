"""How statistics travel between agents: one scheme per file."""

from coopbandits.core.aggregate.consensus import RunningConsensus
from coopbandits.core.aggregate.flooded_pulls import FloodedPulls
from coopbandits.core.aggregate.flooded_totals import FloodedTotals
from coopbandits.core.aggregate.local import LocalSums
from coopbandits.core.aggregate.neighborhood import NeighborhoodSums
from coopbandits.core.aggregate.pull_mixing import PullMixing
from coopbandits.core.aggregate.running_sums import RunningSums
from coopbandits.core.aggregate.staged import StagedMixing
from coopbandits.core.aggregate.tree_sums import TreeSums

__all__ = [
    "FloodedPulls",
    "FloodedTotals",
    "LocalSums",
    "NeighborhoodSums",
    "PullMixing",
    "RunningConsensus",
    "RunningSums",
    "StagedMixing",
    "TreeSums",
]
