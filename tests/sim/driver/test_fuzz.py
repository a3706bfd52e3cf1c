"""Random settings, faults, clocks and worlds: compiled, they play what plain Python plays.

Every case follows from its number, so a failure is played again by `python -m
tests.sim.driver.test_fuzz NUMBER`.
"""

from __future__ import annotations

import math
import random  # noqa: TID251  not a tape
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import pytest

import coopbandits as cb
from coopbandits.core.aggregate import CentralAggregation

from .push_sum import PushSum
from .test_driver import compare

pytestmark = pytest.mark.plays

Draw = random.Random
SETTINGS: dict[type[Any], Callable[[Draw], dict[str, Any]]] = {
    PushSum: lambda draw: _discount(draw),
    cb.LocalSums: lambda draw: _window(draw) or _discount(draw),
    cb.RunningConsensus: lambda draw: _discount(draw),
    cb.RunningSums: lambda draw: {},
    cb.PullMixing: lambda draw: _discount(draw),
    cb.StagedMixing: lambda draw: _staged(draw),
    cb.TrimmedMeans: lambda draw: {
        "liars": draw.randrange(3), "kappa": draw.uniform(1.1, 4.0),
        "mean": draw.uniform(-1.0, 2.0), "attack": draw.choice(["none", "none", "raise", "swap"]),
    },
    cb.TrackedMeans: lambda draw: _tracked(draw),
    cb.NeighborhoodSums: lambda draw: draw.choice([{}, {"exploring": True, "fair": True}]),
    cb.FloodedPulls: lambda draw: {
        "hop_limit": draw.choice([1, 2, 5, 50]), "wait": draw.choice([0, 1, 3])
    },
    cb.TreeSums: lambda draw: draw.choice([_window, _discount, _lazy, _spread])(draw),
    cb.FloodedTotals: lambda draw: draw.choice([_window, _discount, _lazy, _spread])(draw),
    cb.LedgerSums: lambda draw: _discount(draw),
    cb.CentralTotals: lambda draw: {
        "delay": draw.choice([None, 0, 1, 4]), **(_window(draw) or _discount(draw))
    },
    cb.PermutedBuffers: lambda draw: {},
}  # fmt: skip
FAULTS: tuple[Callable[[Draw], str], ...] = (
    lambda draw: f"loss={draw.uniform(0.01, 0.9):.2f}",
    lambda draw: f"bursts={draw.randint(2, 20)}..{draw.randint(1, 9)}",
    lambda draw: f"churn={draw.randint(2, 20)}..{draw.randint(1, 9)}",
    lambda draw: f"one-way={draw.uniform(0.1, 0.9):.2f}",
    lambda draw: f"redraw={draw.randint(1, 9)}:{draw.uniform(0.2, 0.9):.2f}",
    lambda draw: f"partition={draw.uniform(0.2, 0.8):.2f}@{draw.randint(1, 20)}..30",
    lambda draw: f"sleep={draw.uniform(0.05, 0.9):.2f}",
    lambda draw: f"speeds={draw.randint(2, 6)}",
    lambda draw: f"join=0.4@{draw.randint(2, 30)}",
    lambda draw: f"crash=0.4@{draw.randint(2, 20)}..30{draw.choice(['', ':lost'])}",
    lambda draw: f"delay={draw.randint(1, 6)}",
)
GRAPHS = ("complete:1", "complete:2", "complete:6", "cycle:7", "star:6", "path:5", "grid:2x4")


def _discount(draw: Draw) -> dict[str, Any]:
    return {"discount": draw.uniform(0.5, 0.999)} if draw.random() < 0.4 else {}


def _window(draw: Draw) -> dict[str, Any]:
    return {"window": draw.randint(1, 40)} if draw.random() < 0.4 else {}


def _lazy(draw: Draw) -> dict[str, Any]:
    return {"lazy": draw.uniform(0.01, 2.0)}


def _spread(draw: Draw) -> dict[str, Any]:
    return {"spread": draw.choice(["estimate", math.inf, draw.uniform(0.01, 1.0)])}


def _tracked(draw: Draw) -> dict[str, Any]:
    found: dict[str, Any] = {"credit": draw.uniform(0.3, 2.0), "pairs": draw.random() < 0.5}
    if draw.random() < 0.3:
        found |= {"epsilon": draw.uniform(5.0, 50.0), "horizon": 90}
    return found


def _staged(draw: Draw) -> dict[str, Any]:
    found: dict[str, Any] = {
        "epsilon": draw.uniform(0.005, 0.3),
        "accelerated": draw.random() < 0.7,
    }
    found |= _discount(draw)
    if draw.random() < 0.5:
        found["mixing_rounds"] = draw.randint(1, 6)
    if draw.random() < 0.2:
        found["num_agents"] = "estimate"
    if draw.random() < 0.2:
        found["lambda_bound"] = draw.choice(["estimate", "heuristic"])
    kind = draw.randrange(4)
    if kind == 1:
        found["values_per_message"] = draw.randint(2, 8)
    elif kind == 2:
        found |= {"remix": True, "own_pulls": draw.random() < 0.5}
    elif kind == 3:
        found["neighbor_pulls"] = True
    return found


INDICES: tuple[Callable[[], cb.Index], ...] = (cb.NormalDraw, cb.UCB, cb.KLUCB, cb.BetaDraw)
"""Of every form; the driver is compiled for each, and others are compared elsewhere."""


def case(number: int, indices: Sequence[Any] = INDICES) -> tuple[cb.Policy, dict[str, Any]]:
    """Return what one case plays, and how."""
    draw = random.Random(number)  # noqa: S311  no secrets
    index = draw.choice(indices)()
    means = [draw.uniform(0.05, 0.95) for _ in range(draw.randint(2, 5))]
    is_unit = index.support is not None or draw.random() < 0.5
    problem: Any = cb.BernoulliBandit(means) if is_unit else cb.GaussianBandit(means)
    network = cb.Network.from_spec(draw.choice(GRAPHS))
    kind = draw.choice(list(SETTINGS))
    policy = cb.combine(kind(**SETTINGS[kind](draw)), index)
    call: dict[str, Any] = {
        "seed": draw.randrange(2**30), "horizon": draw.randint(1, 90), "runs": draw.randint(1, 2),
        "shuffle_arms": draw.random() < 0.3,
    }  # fmt: skip
    if len(means) > 2 and network.num_agents > 1 and draw.random() < 0.2:
        arms = list(range(len(means)))
        problem = cb.subsets(problem, [arms[:-1], arms[1:]])
    if draw.random() < 0.2:
        problem = cb.drift(problem, switch_every=draw.randint(5, 40))
    if draw.random() < 0.25 and not issubclass(kind, CentralAggregation):
        clocks = draw.choice(["poisson", "regular"])
        call["clocks"] = (
            f"{clocks}:latency={draw.uniform(0.0, 9.0):.1f},gossip={draw.choice([1, 3])}"
        )
        call["keep"] = "agents"
        faults = [FAULTS[0](draw) for _ in range(draw.randrange(3))]
    else:
        faults = [draw.choice(FAULTS)(draw) for _ in range(draw.randrange(4))]
    return policy, {
        "problem": problem,
        "network": network,
        "faults": ",".join(faults) or "none",
        **call,
    }


REFUSED = (
    "own clocks", "all agents count together", "cannot be combined", "given twice", "once",
    "forgets faster than it hears", "an estimate needs all of them",
)  # fmt: skip


def play(first: int, stop: int, indices: Sequence[Any] = INDICES) -> int:
    """Compare some cases; return how many of them were refused, with a reason, by both engines."""
    refused = 0
    for number in range(first, stop):
        policy, call = case(number, indices)
        try:
            compare(policy, **call)
        except cb.InputError as error:
            assert any(reason in str(error) for reason in REFUSED), (number, str(error))
            refused += 1
        except AssertionError as error:
            raise AssertionError(f"case {number}: {policy.spelling}, {call}") from error
    return refused


BLOCK = 250


def test_random_settings() -> None:
    assert play(0, 16, [cb.NormalDraw]) < 8


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:horizon .* is below the number of arms")
@pytest.mark.parametrize("block", range(10_000 // BLOCK))
def test_ten_thousand_random_settings(block: int) -> None:
    assert play(block * BLOCK, (block + 1) * BLOCK) < BLOCK // 2


def test_all_settings_are_drawn() -> None:
    """A setting that is added later is drawn too, or named here."""
    drawn: dict[Any, set[str]] = {kind: set() for kind in SETTINGS}
    for number in range(400):
        for kind, settings in SETTINGS.items():
            drawn[kind] |= set(settings(random.Random(number)))  # noqa: S311
    missing = {
        kind.name: {field.name for field in fields(kind)} - names for kind, names in drawn.items()
    }
    assert {name: left for name, left in missing.items() if left} == {}


if __name__ == "__main__":
    start, *end = map(int, sys.argv[1:])
    print(case(start), play(start, end[0] if end else start + 1), "refused")
