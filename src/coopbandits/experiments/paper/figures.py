"""The figures: the paper's own, an extended version, and regret against values sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coopbandits import theory
from coopbandits.experiments.paper.play import Played
from coopbandits.experiments.paper.settings import ANALYSED, PAPER_LINES, PROBLEM
from coopbandits.plots import Curve, Panel, panel_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOUNDS = {
    "Theorem 1 sharpened": theory.sharper_finite_time_bound,
    "Theorem 1": theory.finite_time_bound,
}
"""The lower bound first, so that it keeps its grey where the other is vacuous."""
FIRST_ROUND = PROBLEM.num_arms
"""Logarithmic axes start once every agent has tried every arm."""


def draw_all(played: Sequence[Played]) -> dict[str, Figure]:
    """Draw every figure; the key is the name of its files."""
    return {
        "paper": paper_figure(played),
        "extended": extended_figure(played),
        "communication": communication_figure(played),
    }


def paper_figure(played: Sequence[Played]) -> Figure:
    """Draw the paper's curves against rounds, both axes linear as in the paper."""
    return panel_figure(
        [Panel(one.figure.title, [one.curve(line) for line in PAPER_LINES]) for one in played]
    )


def extended_figure(played: Sequence[Played]) -> Figure:
    """Draw all curves and the bounds against rounds, both axes logarithmic."""
    return panel_figure([_extended_panel(one) for one in played], log="xy")


def communication_figure(played: Sequence[Played]) -> Figure:
    """Draw the curves of policies that communicate against the values sent."""
    panels = []
    for one in played:
        lines = [line for line in one.lines if line.uses_graph]
        curves = [one.curve(line, "values", FIRST_ROUND) for line in lines]
        panels.append(Panel(one.figure.title, curves))
    return panel_figure(panels, xlabel="values sent by all agents", log="xy")


def _extended_panel(one: Played) -> Panel:
    network, rounds = one.figure.network, one.rounds[one.rounds >= FIRST_ROUND]
    bounds = [Curve("Lai–Robbins", rounds, theory.lai_robbins(PROBLEM, network, rounds))]
    vacuous = []
    for name, bound in BOUNDS.items():
        values = bound(PROBLEM, network, ANALYSED, rounds)
        useful = ~theory.is_vacuous(values, PROBLEM, network, rounds)
        if useful.any():
            bounds.append(Curve(name, rounds[useful], values[useful]))
        else:
            vacuous.append(name)
    note = f"vacuous here: {' and '.join(reversed(vacuous))}" if vacuous else ""
    curves = [one.curve(line, "rounds", FIRST_ROUND) for line in one.lines]
    return Panel(one.figure.title, curves, bounds, note)
