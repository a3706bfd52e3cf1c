"""Arms and reward sources: the environment of the agents."""

from __future__ import annotations

from coopbandits.problems.bernoulli import BernoulliBandit
from coopbandits.problems.bounded import BetaBandit, BoundedBandit
from coopbandits.problems.gaussian import GaussianBandit
from coopbandits.problems.kinds import make_problem, parse_problem, register_problem
from coopbandits.problems.logged import LoggedBandit
from coopbandits.problems.parse import parse_means
from coopbandits.problems.problem import Problem
from coopbandits.problems.rewards import RewardForm, reward_from_variate

__all__ = [
    "BernoulliBandit",
    "BetaBandit",
    "BoundedBandit",
    "GaussianBandit",
    "LoggedBandit",
    "Problem",
    "RewardForm",
    "make_problem",
    "parse_means",
    "parse_problem",
    "register_problem",
    "reward_from_variate",
]
