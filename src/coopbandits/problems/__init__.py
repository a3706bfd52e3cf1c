"""Arms and reward sources: the environment of the agents."""

from __future__ import annotations

from coopbandits.problems.bernoulli import BernoulliBandit
from coopbandits.problems.bounded import BetaBandit, BoundedBandit
from coopbandits.problems.exponential import ExponentialBandit
from coopbandits.problems.gaussian import GaussianBandit
from coopbandits.problems.heavy_tails import ParetoBandit, StudentTBandit
from coopbandits.problems.kinds import make_problem, parse_problem, register_problem
from coopbandits.problems.linear import LinearBandit
from coopbandits.problems.logged import LoggedBandit
from coopbandits.problems.mixture import MixtureBandit
from coopbandits.problems.parse import parse_means
from coopbandits.problems.poisson import PoissonBandit
from coopbandits.problems.problem import Problem
from coopbandits.problems.rewards import RewardForm, reward_from_variate
from coopbandits.problems.spelled import changed
from coopbandits.problems.tables import Tables
from coopbandits.problems.world import World, drift, sites, subsets

__all__ = [
    "BernoulliBandit",
    "BetaBandit",
    "BoundedBandit",
    "ExponentialBandit",
    "GaussianBandit",
    "LinearBandit",
    "LoggedBandit",
    "MixtureBandit",
    "ParetoBandit",
    "PoissonBandit",
    "Problem",
    "RewardForm",
    "StudentTBandit",
    "Tables",
    "World",
    "changed",
    "drift",
    "make_problem",
    "parse_means",
    "parse_problem",
    "register_problem",
    "reward_from_variate",
    "sites",
    "subsets",
]
