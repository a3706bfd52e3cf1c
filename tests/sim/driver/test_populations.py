"""Populations whose members share an aggregation on fields play on the driver."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import coopbandits as cb
from coopbandits.core import AnyAggregation, rows
from coopbandits.core.aggregate.fields import AGENTS, Sizes

from .push_sum import PushSum
from .test_driver import GRID, PROBLEM, Certain, compare

pytestmark = pytest.mark.plays


@dataclass(frozen=True)
class Generous(PushSum):
    """Push-sum in which agents differ in how much they keep, and some are not told N."""

    kept: float = 1.0
    guess: float = 0.0
    overtaking: bool = False
    name: ClassVar[str] = "generous"

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]  # of the class, elsewhere
        return frozenset() if self.guess else frozenset({"num_agents"})

    @property
    def overtakes(self) -> bool:  # type: ignore[override]  # of the class, elsewhere
        return self.overtaking

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        return {**super().fields(sizes), "kept": float}

    def start(self, s: Any, view: cb.LocalView) -> None:
        super().start(s, view)
        assert (view.num_agents is None) == (self.guess > 0.0)
        s.me.parts, s.me.kept = self.kept + len(view.neighbor_weights), self.kept
        s.me.num_agents = self.guess or s.me.num_agents

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        size = s.mass.size
        rows.scale(s.mass, s.me.kept / s.me.parts)
        s.me.weight *= s.me.kept / s.me.parts
        for link in range(lengths.size):
            if lengths[link] > 0:
                rows.add(s.mass, inbox[link, :size])
                s.me.weight += inbox[link, size]

    @staticmethod
    def estimate(s: Any, totals: Any, certain: Any, about: Any) -> None:
        about[AGENTS] = s.me.num_agents
        rows.set_scaled(totals, s.me.num_agents / max(s.me.weight, 1e-9), s.mass)


@dataclass(frozen=True)
class Shy(PushSum):
    """Push-sum of which some agents tell nothing."""

    silent: bool = False
    name: ClassVar[str] = "shy"

    def plain_functions(self) -> dict[str, Any]:
        return super().plain_functions() | ({"message": silence} if self.silent else {})


def silence(s: Any, link: int, out: Any) -> int:
    return 0


def population(*members: tuple[AnyAggregation, cb.Index, list[int]]) -> Any:
    """Return agents that play the first, but for those that are named."""
    groups: dict[cb.Policy, list[int]] = {
        cb.combine(aggregation, index): agents for aggregation, index, agents in members
    }
    rest = next(iter(groups))
    return cb.populate(rest, {policy: agents for policy, agents in groups.items() if agents})


INDICES = population(
    (PushSum(), cb.UCB(), []),
    (PushSum(), cb.NormalDraw(), [1, 2, 6]),
    (PushSum(), cb.MOSS(horizon=60), [4]),
    (PushSum(), cb.UCB(constant=0.5), [7]),
)
SETTINGS = population(
    (Generous(), cb.UCB(), []),
    (Generous(kept=3.0, overtaking=True), cb.UCB(), [0, 3]),
    (Generous(guess=5.0), cb.NormalDraw(), [5, 6, 7]),
)
LIARS = cb.populate(
    cb.ResilientUCB(), {cb.Liar(): [0], cb.Liar("swap"): [3, 4], cb.Liar(mean=3.0): [7]}
)
FLOODS = population(
    (cb.FloodedTotals(lazy=0.1), cb.UCB(), []), (cb.FloodedTotals(lazy=1.0), cb.UCB(), [0, 7])
)
COUNTING = population((cb.RunningSums(), cb.NormalDraw(), []), (cb.RunningSums(), cb.UCB(), [0, 7]))
MORE: dict[str, dict[str, Any]] = {
    "rounds": {"faults": "loss=0.2,crash=0.4@10..30:lost"},
    "late": {"faults": "delay=3"},
    "clocks": {"clocks": "poisson:latency=4,gossip=2", "faults": "loss=0.2", "keep": "agents"},
}


@pytest.mark.covering(4)
@pytest.mark.parametrize(
    "policy", [INDICES, SETTINGS, COUNTING, FLOODS, LIARS], ids=lambda each: each.spelling
)
@pytest.mark.parametrize("more", MORE)
def test_members(policy: cb.Policy, more: str) -> None:
    compare(policy, **MORE[more])


def test_members_that_may_not_play_all_arms() -> None:
    world = cb.subsets(PROBLEM, [[0, 1], [1, 2]])
    compare(INDICES, world, shuffle_arms=True)


def test_a_population_of_one_policy_is_that_policy() -> None:
    policy = cb.combine(PushSum(), cb.NormalDraw())
    other = cb.populate(policy, {policy: [1, 5]})
    one, same = (compare(each, faults="loss=0.2") for each in (policy, other))
    assert (one.arms.values == same.arms.values).all()


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        (
            [(PushSum(), cb.UCB(), []), (Certain(), cb.UCB(), [0])],
            "PushSum.ucb and .*Certain.ucb in one network",
        ),
        (
            [(Shy(), cb.UCB(), []), (Shy(silent=True), cb.UCB(), [0])],
            "Shy.ucb and .*Shy:silent=true.ucb in one network",
        ),
        ([(PushSum(), cb.UCB(), []), (cb.FloodedTotals(), cb.UCB(), [0])], "no compiled kernel"),
    ],
)
def test_members_on_other_aggregations_are_left_to_the_reference_engine(
    members: Any, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = population(*members)
    try:
        result = cb.simulate(PROBLEM, GRID, policy, 5, progress=False)
    except cb.InputError:  # neither reads the other's messages
        result = None
    assert re.search(sentence, capsys.readouterr().err)
    assert result is None or result.meta["engines"] == ["reference"]
