"""The named policies: each a product of parts, with the settings its users know."""

from coopbandits.core.policies.baselines import IndependentUCB
from coopbandits.core.policies.central import (
    CentralBatchedUCB,
    CentralTS,
    CentralUCB,
    DelayedCentralUCB,
)
from coopbandits.core.policies.coop_ucb import CoopUCB, CoopUCB2, CoopUCL
from coopbandits.core.policies.dducb import DDUCB
from coopbandits.core.policies.ledger import LedgerTS, LedgerUCB
from coopbandits.core.policies.robust import FloodTS, FloodUCB, GossipTS, TreeTS, TreeUCB
from coopbandits.core.policies.shared_pulls import MPUCB, UCBNetwork
from coopbandits.core.policies.thompson import DecBayesUCB, DecTS, IndependentTS

NAMED = (
    DDUCB, CoopUCB, CoopUCB2, CoopUCL, DecTS, DecBayesUCB, UCBNetwork, MPUCB, GossipTS, TreeTS,
    FloodTS, TreeUCB, FloodUCB, LedgerTS, LedgerUCB, IndependentUCB, IndependentTS, CentralUCB,
    CentralBatchedUCB, DelayedCentralUCB, CentralTS,
)  # fmt: skip
"""Every policy that ships under a name of its own."""

__all__ = [
    "DDUCB",
    "MPUCB",
    "NAMED",
    "CentralBatchedUCB",
    "CentralTS",
    "CentralUCB",
    "CoopUCB",
    "CoopUCB2",
    "CoopUCL",
    "DecBayesUCB",
    "DecTS",
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
    "UCBNetwork",
]
