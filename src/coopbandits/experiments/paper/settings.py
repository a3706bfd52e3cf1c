"""The paper's experiments as data: four graphs, their curves, and the curves it left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from coopbandits.core.errors import unknown_name
from coopbandits.core.policies import DDUCB
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import parse_policy
from coopbandits.network import Network
from coopbandits.problems import GaussianBandit
from coopbandits.theory import as_analysed

HORIZON = 10_000
PROBLEM = GaussianBandit([1.0] + [0.8] * 16, sigma=1.0)
ANALYSED = as_analysed(DDUCB())
"""The variant of DDUCB that Theorem 1 covers."""


@dataclass(frozen=True)
class PaperFigure:
    """One of the paper's figures: a graph, on which all lines are played."""

    name: str
    graph: str
    title: str

    @cached_property
    def network(self) -> Network:
        """The graph with the paper's mixing matrix."""
        return Network.from_spec(self.graph)


FIGURES = {
    figure.name: figure
    for figure in (
        PaperFigure("cycle-100", "cycle:100", "Cycle of 100 agents"),
        PaperFigure("cycle-200", "cycle:200", "Cycle of 200 agents"),
        PaperFigure("grid-100", "grid:10x10", "Grid of 10×10 agents"),
        PaperFigure("grid-225", "grid:15x15", "Grid of 15×15 agents"),
    )
}


@dataclass(frozen=True)
class Line:
    """One curve of a figure.

    Attributes
    ----------
    key, label : str
        Its name in rules, and in figures and tables.
    spelling : str
        The policy; {C} stands for the C of accelerated mixing on the graph at hand.
    cost : int
        Rough cost of an agent-round in random draws; used only to estimate the time left.
    uses_graph : bool
        Whether it communicates; if not, graphs with equally many agents give the same numbers.
    """

    key: str
    label: str
    spelling: str
    cost: int
    uses_graph: bool = True

    def policy(self, network: Network) -> AnyPolicy:
        """The policy on this network."""
        return parse_policy(self.spelling.format(C=network.mixing_rounds()))


PAPER_LINES = (
    Line("dducb", "DDUCB", "dducb", 2),
    Line(
        "unaccelerated",
        "DDUCB unaccelerated, same C",
        "dducb:accelerated=false,mixing_rounds={C}",
        2,
    ),
    Line("coop-ucb 2", "coop-UCB, γ = 2", "coop-ucb:gamma=2", 23),
    Line("coop-ucb 1.01", "coop-UCB, γ = 1.01", "coop-ucb:gamma=1.01", 23),
    Line("coop-ucb 1.001", "coop-UCB, γ = 1.001", "coop-ucb:gamma=1.001", 23),
)
LEFT_OUT = (
    Line("coop-ucb2", "coop-UCB2, γ = 1.01", "coop-ucb2:gamma=1.01", 22),
    Line("dec-ts", "Dec-TS", "dec-ts", 30),
    Line("plain", "DDUCB plain", "dducb:own_pulls=false", 2),
    Line("analysed", "DDUCB as analysed", "dducb:bonus_factor=4,own_pulls=false", 2),
    Line("central", "central batched UCB", "central-batched-ucb:constant=4", 3, uses_graph=False),
    Line("central-ts", "central Thompson", "central-ts", 33, uses_graph=False),
    Line("independent", "independent UCB", "independent-ucb:constant=4", 3, uses_graph=False),
)
LINES = PAPER_LINES + LEFT_OUT
"""The order of tables and legends, and so of colours."""


def choose_figures(names: Sequence[str]) -> list[PaperFigure]:
    """Return the named figures in the paper's order; all if none is named."""
    for name in names:
        if name not in FIGURES:
            raise unknown_name("figure", name, FIGURES)
    return [figure for name, figure in FIGURES.items() if not names or name in names]
