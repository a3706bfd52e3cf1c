"""The package's own policies and its baselines: each a product of parts, with settings.

Published rivals are in `coopbandits.literature`, one file per paper.
"""

from coopbandits.core.policies.baselines import IndependentTS, IndependentUCB
from coopbandits.core.policies.central import (
    CentralBatchedUCB,
    CentralTS,
    CentralUCB,
    DelayedCentralUCB,
)
from coopbandits.core.policies.dducb import DDUCB
from coopbandits.core.policies.ledger import LedgerTS, LedgerUCB
from coopbandits.core.policies.robust import FloodTS, FloodUCB, GossipTS, TreeTS, TreeUCB

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
