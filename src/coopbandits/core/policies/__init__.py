"""The package's own policies and its baselines: each a product of parts, with settings.

Published rivals are in `coopbandits.literature`, one file per paper.
"""

from coopbandits.core.policies.baselines import (
    CentralBatchedUCB,
    CentralTS,
    CentralUCB,
    DelayedCentralUCB,
    IndependentTS,
    IndependentUCB,
)
from coopbandits.core.policies.dducb import DDUCB
from coopbandits.core.policies.robust import (
    FloodTS,
    FloodUCB,
    GossipTS,
    LedgerTS,
    LedgerUCB,
    TreeTS,
    TreeUCB,
)

__all__ = [
    "DDUCB",
    "CentralBatchedUCB",
    "CentralTS",
    "CentralUCB",
    "DelayedCentralUCB",
    "FloodTS",
    "FloodUCB",
    "GossipTS",
    "IndependentTS",
    "IndependentUCB",
    "LedgerTS",
    "LedgerUCB",
    "TreeTS",
    "TreeUCB",
]
