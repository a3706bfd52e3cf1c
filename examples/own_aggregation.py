"""An aggregation of one's own, as functions on named arrays: x = P x + y."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import coopbandits as cb
from coopbandits.core import rows


@dataclass(frozen=True)
class LateConsensus(cb.Aggregation):  # as running consensus, but this round's pull comes last
    name = "late-consensus"
    needs = frozenset({"num_agents"})

    def fields(self, sizes: cb.Sizes) -> Mapping[str, Any]:  # all that is remembered
        width = sizes.width  # registers: sums and counts
        return {"mixed": width, "new": width, "weights": sizes.links, "num_agents": float}

    def start(self, s: Any, view: cb.LocalView) -> None:
        s.weights[:] = list(view.neighbor_weights.values())
        s.me.num_agents = float(view.num_agents or 1)

    @staticmethod
    def observe(s: Any, pull: cb.Vector) -> None:
        rows.add(s.new, pull)

    @staticmethod
    def message(s: Any, out: cb.Vector) -> int:
        rows.copy(out, s.mixed)
        return out.size  # 0 for silence

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        for link in range(lengths.size):
            if lengths[link] > 0:  # else the message was lost
                rows.add_difference(s.new, s.weights[link], inbox[link], s.mixed)
        rows.add(s.mixed, s.new)
        rows.fill(s.new, 0.0)

    @staticmethod
    def estimate(s: Any, totals: cb.Vector, certain: cb.Vector, about: cb.Vector) -> None:
        about[cb.AGENTS] = s.me.num_agents
        rows.set_scaled(totals, s.me.num_agents, s.mixed)


cb.register_aggregation(LateConsensus.name, LateConsensus)
late = cb.combine(LateConsensus(), cb.UCB())
cb.check_policy(late)
problem, network = cb.GaussianBandit([1.0, 0.8, 0.8]), cb.Network.from_spec("cycle:50")
policies = [late, cb.combine(cb.RunningConsensus(), cb.UCB()), cb.DDUCB()]
print(cb.simulate(problem, network, policies, horizon=2000, runs=5).summary())
