"""Where findings are measured: the paper's arms on two graphs, with the same tapes for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.core.registry import parse_policy
from coopbandits.experiments.audit.dducb import Deviations, play_dducb
from coopbandits.experiments.audit.finding import Finding, Measurement
from coopbandits.experiments.audit.tapes import Setting
from coopbandits.network import Network
from coopbandits.problems import GaussianBandit, parse_means
from coopbandits.results import Result
from coopbandits.sim import simulate

PAPER_MEANS = "1,0.8x16"


@dataclass
class AuditSetup:
    """Two graphs, a horizon and a seed; regrets of the package's own policies are cached."""

    cycle: str = "cycle:100"
    grid: str = "grid:10x10"
    horizon: int = 10_000
    runs: int = 10
    seed: int = 0
    known: dict[tuple[str, str], Vector] = field(default_factory=dict)

    def setting(self, graph: str) -> Setting:
        """Return the paper's arms on a graph."""
        problem = GaussianBandit(parse_means(PAPER_MEANS))
        return Setting(problem, Network.from_spec(graph), self.horizon, self.runs, self.seed)

    def simulate(self, graph: str, policy: str, horizon: int, rounds: Sequence[int]) -> Result:
        """Play a policy of the package."""
        setting = self.setting(graph)
        return simulate(
            setting.problem, setting.network, parse_policy(policy), horizon, self.runs, self.seed,
            rounds=rounds, progress=False,
        )  # fmt: skip

    def regret(self, graph: str, policy: str = "dducb") -> Vector:
        """Return the regret of every run of a policy of the package."""
        if (graph, policy) not in self.known:
            result = self.simulate(graph, policy, self.horizon, [])
            self.known[graph, policy] = np.asarray(result.regret.values[0, :, -1])
        return self.known[graph, policy]

    def deviating(self, graph: str, deviations: Deviations) -> Measurement:
        """Compare the regret of DDUCB with and without deviations."""
        setting = self.setting(graph)
        regret = setting.regret(play_dducb(setting, deviations))
        return Measurement.paired(f"regret on {graph}", regret, self.regret(graph))

    @property
    def graphs(self) -> tuple[str, str]:
        """Both graphs."""
        return self.cycle, self.grid


Measure: TypeAlias = Callable[[AuditSetup], tuple[Measurement, ...]]
Claim: TypeAlias = tuple[Finding, Measure]
"""A finding without numbers, and the function that measures them."""
