"""What is played on an Estimate: one file per formula."""

from coopbandits.core.index.greedy import Elimination, EpsilonGreedy
from coopbandits.core.index.index import (
    ANY_REWARDS,
    FAMILIES,
    UNIT_REWARDS,
    Index,
    Support,
    family_support,
    read_support,
    require_family,
)
from coopbandits.core.index.kl import KLUCB, BayesUCB
from coopbandits.core.index.linear import LINEAR_INDICES, LinTS, LinUCB
from coopbandits.core.index.posterior import BetaDraw, CentredDraw, NormalDraw, TopTwo
from coopbandits.core.index.ucb import MOSS, UCB, RobustUCB

__all__ = [
    "ANY_REWARDS",
    "FAMILIES",
    "KLUCB",
    "LINEAR_INDICES",
    "MOSS",
    "UCB",
    "UNIT_REWARDS",
    "BayesUCB",
    "BetaDraw",
    "CentredDraw",
    "Elimination",
    "EpsilonGreedy",
    "Index",
    "LinTS",
    "LinUCB",
    "NormalDraw",
    "RobustUCB",
    "Support",
    "TopTwo",
    "family_support",
    "read_support",
    "require_family",
]
