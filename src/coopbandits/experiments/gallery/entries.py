"""The gallery's experiments as data."""

from __future__ import annotations

import math
from dataclasses import dataclass

PAPER_MEANS = "1,0.8x16"
CLEAR_MEANS = "1,0.5x3"
"""Arms that are distinguished once everyone has pulled once and the pulls are known: all regret
comes from communication delay."""


@dataclass(frozen=True)
class Point:
    """One cell to play, and where its regret goes in the figure."""

    series: str
    x: float
    graph: str
    policy: str
    horizon: int = 10_000
    means: str = PAPER_MEANS


@dataclass(frozen=True)
class Entry:
    """One experiment.

    Attributes
    ----------
    question : str
        The question, in one sentence.
    xlabel : str
        What the points differ in.
    points : tuple of Point
        What to play, series by series, with x ascending.
    ylabel : str
        What is measured; PER_AGENT divides regret by the number of agents.
    timed : bool
        Whether the time that playing took makes a second figure.
    """

    question: str
    xlabel: str
    points: tuple[Point, ...]
    ylabel: str = "regret of the network"
    timed: bool = False


PER_AGENT = "regret per agent"


def cycle_lambda(agents: int) -> float:
    """Return λ of a cycle: its largest eigenvalue below 1 is 1/3 + 2/3 cos(2π/N)."""
    return (1 + 2 * math.cos(2 * math.pi / agents)) / 3


NUM_AGENTS = (8, 16, 32, 64, 128)
TOTAL_PULLS = 320_000
GAP_AGENTS = (48, 64, 96, 128, 192)
BUDGETS = (1, 2, 4, 8, 17, 34)
MIXING_ROUNDS = (5, 10, 20, 41, 82, 164, 328)
ETAS = (1.1, 1.5, 2, 3, 4, 6, 8)
SIDES = (10, 32, 100, 316, 1000)
"""Of square grids; the other graphs of an experiment with many agents have as many."""


def _agents(series: str, graph: str, policy: str) -> tuple[Point, ...]:
    return tuple(Point(series, n, graph.format(n), policy, TOTAL_PULLS // n) for n in NUM_AGENTS)


def _gap(series: str, policy: str) -> tuple[Point, ...]:
    return tuple(
        Point(series, -1 / math.log(cycle_lambda(n)), f"cycle:{n}", policy, 100_000, CLEAR_MEANS)
        for n in GAP_AGENTS
    )


def _budget(series: str, more: str) -> tuple[Point, ...]:
    return tuple(
        Point(series, size, "grid:10x10", f"dducb:{more}values_per_message={size}")
        for size in BUDGETS
    )


def _rounds(series: str, more: str) -> tuple[Point, ...]:
    return tuple(
        Point(series, rounds, "cycle:100", f"dducb:{more}mixing_rounds={rounds}")
        for rounds in MIXING_ROUNDS
    )


def _eta(graph: str) -> tuple[Point, ...]:
    # One ε, small enough for the smallest η, so that all stages are equally long.
    return tuple(Point(graph, eta, graph, f"dducb:eta={eta},epsilon=0.005") for eta in ETAS)


def _scale(series: str, graph: str, more: str = "") -> tuple[Point, ...]:
    return tuple(
        Point(series, side**2, graph.format(agents=side**2, side=side), f"dducb{more}")
        for side in SIDES
    )


ENTRIES = {
    "agents": Entry(
        "Does it matter how many agents share a fixed number of pulls?",
        f"number of agents N, at N·T = {TOTAL_PULLS} pulls",
        (
            *_agents("DDUCB on cycles", "cycle:{}", "dducb"),
            *_agents("DDUCB on random 3-regular graphs", "regular:3,{}", "dducb"),
            *_agents("one central UCB for all", "complete:{}", "central-batched-ucb:constant=4"),
            *_agents("no communication", "complete:{}", "independent-ucb:constant=4"),
        ),
    ),
    "gap": Entry(
        "Does regret follow the root of the inverse gap, or the inverse gap itself?",
        "1/ln(1/λ), on cycles of 48 to 192 agents",
        (
            *_gap("accelerated, stages of C", "dducb:own_pulls=false"),
            *_gap("plain mixing, stages of C′", "dducb:own_pulls=false,accelerated=false"),
        ),
        PER_AGENT,
    ),
    "budget": Entry(
        "What does it cost to send fewer values per message?",
        "values per message L, of 2K = 34, on the 10×10 grid",
        (
            *_budget("own pulls read at once", ""),
            *_budget("only mixed pulls read", "own_pulls=false,"),
        ),
    ),
    "mixing-rounds": Entry(
        "What do shorter stages gain, and what does mixing less cost?",
        "mixing steps per stage, on the cycle of 100 (C = 164)",
        (
            *_rounds("accelerated", ""),
            *_rounds("plain mixing", "accelerated=false,"),
        ),
    ),
    "eta": Entry(
        "How much does exploration cost?",
        "η, at a bonus of 2η",
        (*_eta("cycle:100"), *_eta("grid:10x10")),
    ),
    "scale": Entry(
        "What does acceleration buy from a hundred agents to a million?",
        "number of agents N",
        (
            *_scale("accelerated, expanders", "regular:8,{agents}"),
            *_scale("plain, expanders", "regular:8,{agents}", ":accelerated=false"),
            *_scale("accelerated, small worlds", "small-world:{agents},8,0.1"),
            *_scale("plain, small worlds", "small-world:{agents},8,0.1", ":accelerated=false"),
            *_scale("accelerated, grids", "grid:{side}x{side}"),
            *_scale("plain, grids", "grid:{side}x{side}", ":accelerated=false"),
        ),
        PER_AGENT,
        timed=True,
    ),
    "cycle-bounds": Entry(
        "How do the bounds of DDUCB and coop-UCB compare on cycles?",
        "odd number of agents N, weights 1/2",
        (),
        "factor in the bound",
    ),
}  # fmt: skip
