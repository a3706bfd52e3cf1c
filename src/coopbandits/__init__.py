"""Decentralised cooperative bandits: agents on a graph learn together which option is best.

Names load on first use, so that ``import coopbandits.core`` needs numpy alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coopbandits.core import (
        DDUCB,
        Agent,
        Aggregation,
        CooperativeAgent,
        Estimate,
        IndependentUCB,
        InputError,
        LocalView,
        Policy,
        parse_policy,
    )
    from coopbandits.network import Network
    from coopbandits.problems import (
        BernoulliBandit,
        BetaBandit,
        BoundedBandit,
        GaussianBandit,
        LoggedBandit,
        Problem,
    )
    from coopbandits.results import Result
    from coopbandits.sim import SimulationInterrupted, simulate
    from coopbandits.testing import check_policy

_HOMES = {
    "core": (
        "DDUCB Agent Aggregation CooperativeAgent Estimate IndependentUCB InputError LocalView "
        "Policy parse_policy"
    ),
    "network": "Network",
    "problems": ("BernoulliBandit BetaBandit BoundedBandit GaussianBandit LoggedBandit Problem"),
    "results": "Result",
    "sim": "SimulationInterrupted simulate",
    "testing": "check_policy",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "DDUCB",
    "Agent",
    "Aggregation",
    "BernoulliBandit",
    "BetaBandit",
    "BoundedBandit",
    "CooperativeAgent",
    "Estimate",
    "GaussianBandit",
    "IndependentUCB",
    "InputError",
    "LocalView",
    "LoggedBandit",
    "Network",
    "Policy",
    "Problem",
    "Result",
    "SimulationInterrupted",
    "check_policy",
    "parse_policy",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"coopbandits.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'coopbandits' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
