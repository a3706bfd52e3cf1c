"""How statistics travel between agents: one scheme per file."""

from coopbandits.core.aggregate.consensus import RunningConsensus
from coopbandits.core.aggregate.flooded_pulls import FloodedPulls
from coopbandits.core.aggregate.local import LocalSums
from coopbandits.core.aggregate.neighborhood import NeighborhoodSums
from coopbandits.core.aggregate.staged import StagedMixing

__all__ = ["FloodedPulls", "LocalSums", "NeighborhoodSums", "RunningConsensus", "StagedMixing"]
