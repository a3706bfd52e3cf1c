"""How statistics travel between agents: one scheme per file."""

from coopbandits.core.aggregate.consensus import RunningConsensus
from coopbandits.core.aggregate.local import LocalSums
from coopbandits.core.aggregate.staged import StagedMixing

__all__ = ["LocalSums", "RunningConsensus", "StagedMixing"]
