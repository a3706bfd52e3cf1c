"""Decentralised cooperative bandits: agents on a graph learn together which option is best.

Names load on first use, so that ``import coopbandits.core`` needs numpy alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coopbandits.core import (
        DDUCB,
        MPUCB,
        Agent,
        Aggregation,
        CentralBatchedUCB,
        CentralPolicy,
        CentralTS,
        CentralUCB,
        CooperativeAgent,
        CoopUCB,
        CoopUCB2,
        CoopUCL,
        DecBayesUCB,
        DecTS,
        DelayedCentralUCB,
        Estimate,
        FloodTS,
        FloodUCB,
        GossipTS,
        IndependentTS,
        IndependentUCB,
        InputError,
        LocalView,
        Policy,
        TreeTS,
        TreeUCB,
        UCBNetwork,
        Vector,
        parse_policy,
        ucb_index,
    )
    from coopbandits.fleet import AsyncClient as AsyncClient
    from coopbandits.fleet import Client as Client
    from coopbandits.fleet import LocalAgent as LocalAgent
    from coopbandits.core.registry import register_policy
    from coopbandits.network import Faults, Network, parse_faults
    from coopbandits.network.faults import (
        Bursts,
        Churn,
        Crash,
        Delay,
        Graphs,
        Join,
        Loss,
        OneWay,
        Partition,
        Redraw,
        Sleep,
        Speeds,
        register_fault,
    )
    from coopbandits.network.specs import register_graph
    from coopbandits.problems import (
        BernoulliBandit,
        BetaBandit,
        BoundedBandit,
        GaussianBandit,
        LoggedBandit,
        Problem,
        parse_problem,
        register_problem,
    )
    from coopbandits.results import Result
    from coopbandits.sim import (
        Cell,
        SimulationInterrupted,
        Sweep,
        SweepInterrupted,
        compare,
        parse_clocks,
        read_experiment,
        simulate,
        sweep,
    )
    from coopbandits.sim.clocks import PoissonClocks, RegularClocks, register_clocks
    from coopbandits.testing import check_policy

_HOMES = {
    "core": (
        "DDUCB MPUCB Agent Aggregation CentralBatchedUCB CentralPolicy CentralTS CentralUCB "
        "CoopUCB CoopUCB2 CoopUCL CooperativeAgent DecBayesUCB DecTS DelayedCentralUCB Estimate "
        "FloodTS FloodUCB GossipTS IndependentTS IndependentUCB InputError LocalView Policy TreeTS "
        "TreeUCB UCBNetwork Vector parse_policy ucb_index"
    ),
    "fleet": "AsyncClient Client LocalAgent",
    "core.registry": "register_policy",
    "network": "Faults Network parse_faults",
    "network.faults": (
        "Bursts Churn Crash Delay Graphs Join Loss OneWay Partition Redraw Sleep Speeds "
        "register_fault"
    ),
    "network.specs": "register_graph",
    "problems": (
        "BernoulliBandit BetaBandit BoundedBandit GaussianBandit LoggedBandit Problem "
        "parse_problem register_problem"
    ),
    "results": "Result",
    "sim": (
        "Cell SimulationInterrupted Sweep SweepInterrupted compare parse_clocks read_experiment "
        "simulate sweep"
    ),
    "sim.clocks": "PoissonClocks RegularClocks register_clocks",
    "testing": "check_policy",
}
# What needs the extra [fleet] is not in `__all__`: `import *` has to work without it.
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "DDUCB",
    "MPUCB",
    "Agent",
    "Aggregation",
    "BernoulliBandit",
    "BetaBandit",
    "BoundedBandit",
    "Bursts",
    "Cell",
    "CentralBatchedUCB",
    "CentralPolicy",
    "CentralTS",
    "CentralUCB",
    "Churn",
    "CoopUCB",
    "CoopUCB2",
    "CoopUCL",
    "CooperativeAgent",
    "Crash",
    "DecBayesUCB",
    "DecTS",
    "Delay",
    "DelayedCentralUCB",
    "Estimate",
    "Faults",
    "FloodTS",
    "FloodUCB",
    "GaussianBandit",
    "GossipTS",
    "Graphs",
    "IndependentTS",
    "IndependentUCB",
    "InputError",
    "Join",
    "LocalView",
    "LoggedBandit",
    "Loss",
    "Network",
    "OneWay",
    "Partition",
    "PoissonClocks",
    "Policy",
    "Problem",
    "Redraw",
    "RegularClocks",
    "Result",
    "SimulationInterrupted",
    "Sleep",
    "Speeds",
    "Sweep",
    "SweepInterrupted",
    "TreeTS",
    "TreeUCB",
    "UCBNetwork",
    "Vector",
    "check_policy",
    "compare",
    "parse_clocks",
    "parse_faults",
    "parse_policy",
    "parse_problem",
    "read_experiment",
    "register_clocks",
    "register_fault",
    "register_graph",
    "register_policy",
    "register_problem",
    "simulate",
    "sweep",
    "ucb_index",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"coopbandits.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'coopbandits' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
