"""The named policies: each a product of parts, with the settings its users know."""

from coopbandits.core.policies.baselines import IndependentUCB
from coopbandits.core.policies.central import (
    CentralBatchedUCB,
    CentralTS,
    CentralUCB,
    DelayedCentralUCB,
)
from coopbandits.core.policies.coop_se import CoopSE
from coopbandits.core.policies.coop_ucb import CoopUCB, CoopUCB2, CoopUCL
from coopbandits.core.policies.dducb import DDUCB
from coopbandits.core.policies.dec_ucb import DecKLUCB, DecUCB
from coopbandits.core.policies.dpe import DPE2
from coopbandits.core.policies.exp3_coop import Exp3Coop
from coopbandits.core.policies.gosine import GosInE
from coopbandits.core.policies.gossip_ucb import FedUCB, GossipUCB
from coopbandits.core.policies.gse import GSE
from coopbandits.core.policies.ledger import LedgerTS, LedgerUCB
from coopbandits.core.policies.resilient import Liar, ResilientUCB
from coopbandits.core.policies.robust import FloodTS, FloodUCB, GossipTS, TreeTS, TreeUCB
from coopbandits.core.policies.shared_pulls import MPUCB, UCBNetwork
from coopbandits.core.policies.thompson import DecBayesUCB, DecTS, IndependentTS

NAMED = (
    DDUCB, CoopUCB, CoopUCB2, CoopUCL, DecTS, DecBayesUCB, UCBNetwork, MPUCB, DPE2, GosInE,
    DecUCB, DecKLUCB, CoopSE, Exp3Coop, ResilientUCB, Liar, GossipUCB, FedUCB, GSE, GossipTS,
    TreeTS, FloodTS, TreeUCB, FloodUCB, LedgerTS, LedgerUCB, IndependentUCB, IndependentTS,
    CentralUCB, CentralBatchedUCB, DelayedCentralUCB, CentralTS,
)  # fmt: skip
"""Every policy that ships under a name of its own."""

__all__ = [
    "DDUCB",
    "DPE2",
    "GSE",
    "MPUCB",
    "NAMED",
    "CentralBatchedUCB",
    "CentralTS",
    "CentralUCB",
    "CoopSE",
    "CoopUCB",
    "CoopUCB2",
    "CoopUCL",
    "DecBayesUCB",
    "DecKLUCB",
    "DecTS",
    "DecUCB",
    "DelayedCentralUCB",
    "Exp3Coop",
    "FedUCB",
    "FloodTS",
    "FloodUCB",
    "GosInE",
    "GossipTS",
    "GossipUCB",
    "IndependentTS",
    "IndependentUCB",
    "LedgerTS",
    "LedgerUCB",
    "Liar",
    "ResilientUCB",
    "TreeTS",
    "TreeUCB",
    "UCBNetwork",
]
