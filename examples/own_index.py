"""An index of one's own, in ten lines, on any aggregation and at full speed. A skeleton to copy."""

import math
from dataclasses import dataclass

import coopbandits as cb


@dataclass(frozen=True)
class Lai(cb.Index):  # mean + sqrt(B σ² ln(time/count)/count), after Lai (1987)
    constant: float = 2.0
    name = "lai"
    random = False

    def numbers(self, view: cb.LocalView) -> tuple[float, ...]:
        return (self.constant * view.sigma**2,)

    @staticmethod
    def value(arm, estimate, word, numbers, scratch):  # type: ignore[no-untyped-def]  # kept short
        count = estimate.counts[arm]
        if count <= 1e-12 * estimate.num_agents:
            return math.inf  # no information yet: play it first
        bonus = max(0.0, math.log(estimate.time / count)) / count
        return estimate.sums[arm] / count + math.sqrt(numbers[0] * bonus)


cb.register_index(Lai.name, Lai)
mine = [cb.combine(cb.RunningConsensus(), Lai()), cb.combine(cb.TreeSums(), Lai())]
for policy in mine:
    cb.check_policy(policy)
problem, network = cb.GaussianBandit([1.0, 0.8, 0.8]), cb.Network.from_spec("cycle:8")
policies = [*mine, cb.combine(cb.TreeSums(), cb.UCB()), cb.DDUCB()]
print(cb.simulate(problem, network, policies, horizon=2000, runs=10).summary())
