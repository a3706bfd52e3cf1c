"""Push-sum as a user would write it: agents keep a share of their mass and hand on the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import coopbandits as cb
from coopbandits.core import rows
from coopbandits.core.aggregate.fields import AGENTS, Aggregation, Sizes


@dataclass(frozen=True)
class PushSum(Aggregation):
    discount: float = 1.0
    name: ClassVar[str] = "push-sum"
    needs: ClassVar[frozenset[str]] = frozenset({"num_agents"})

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        return {"mass": sizes.width, "weight": float, "parts": float, "num_agents": float}

    def start(self, s: Any, view: cb.LocalView) -> None:
        s.me.weight, s.me.parts = 1.0, 1.0 + len(view.neighbor_weights)
        s.me.num_agents = float(view.num_agents or 1)

    def message_width(self, sizes: Sizes) -> int:
        return sizes.width + 1

    @staticmethod
    def age(s: Any, factors: Any, factor: float) -> None:
        rows.multiply(s.mass, factors)

    @staticmethod
    def age_message(s: Any, message: Any, factors: Any, factor: float) -> None:
        rows.multiply(message[: s.mass.size], factors)

    @staticmethod
    def observe(s: Any, pull: Any) -> None:
        rows.add(s.mass, pull)

    @staticmethod
    def message(s: Any, link: int, out: Any) -> int:
        size = s.mass.size
        rows.set_scaled(out[:size], 1.0 / s.me.parts, s.mass)
        out[size] = s.me.weight / s.me.parts
        return int(size + 1)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        size = s.mass.size
        rows.scale(s.mass, 1.0 / s.me.parts)
        s.me.weight /= s.me.parts
        for link in range(lengths.size):
            if lengths[link] > 0:
                rows.add(s.mass, inbox[link, :size])
                s.me.weight += inbox[link, size]

    @staticmethod
    def estimate(s: Any, totals: Any, certain: Any, about: Any) -> None:
        about[AGENTS] = s.me.num_agents
        rows.set_scaled(totals, s.me.num_agents / max(s.me.weight, 1e-9), s.mass)
