"""Played figures with numbers of our own, as rules and tables read them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from coopbandits.experiments.paper.play import Played
from coopbandits.experiments.paper.settings import FIGURES, LINES
from coopbandits.results import Result

NAMES, RUNS, HORIZON = ("cycle-100", "grid-100"), 3, 60
"""Of the small reproduction that is really played."""

ROUNDS = (1, 100, 1000, 5000, 10_000)
NOISE = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
"""The same in all lines, so that differences have none but what a test adds."""

# What the paper would have liked to see: final regret, and how much of it after round 5000.
HOPED: Mapping[str, tuple[float, float]] = {
    "dducb": (1000, 20),
    "unaccelerated": (1200, 20),
    "coop-ucb 2": (35_000, 20_000),
    "coop-ucb 1.01": (30_000, 19_000),
    "coop-ucb 1.001": (29_700, 18_900),
    "coop-ucb2": (36_000, 20_000),
    "dec-ts": (900, 10),
    "plain": (2000, 20),
    "analysed": (3000, 20),
    "central": (500, 20),
    "central-ts": (300, 10),
    "independent": (50_000, 20_000),
}


def make_played(
    name: str = "cycle-100",
    noise: Mapping[str, float] | None = None,
    values_per_message: int = 34,
    **changes: tuple[float, float],
) -> Played:
    """Return a figure of five runs; `changes` replace (final regret, growth) of a line."""
    numbers = {**HOPED, **changes}
    regret = np.zeros((len(LINES), NOISE.size, len(ROUNDS)))
    for row, line in zip(regret, LINES, strict=True):
        final, growth = numbers[line.key]
        spread = NOISE * (1 + (noise or {}).get(line.key, 0.0))
        row[:, -1] = final + spread
        row[:, -2] = final - growth + spread
        row[:, 1:-2] = (final - growth) / 2
    messages = np.full((len(LINES), NOISE.size), 1000)
    data = {
        "regret": (("policy", "run", "round"), regret),
        "values_sent": (("policy", "run", "round"), np.cumsum(np.ones_like(regret), axis=2)),
        "messages_sent": (("policy", "run"), messages),
    }
    data["values_sent"][1][..., -1] = values_per_message * messages
    network = FIGURES[name].network
    coords = {"policy": [line.policy(network).spelling for line in LINES], "round": list(ROUNDS)}
    return Played(FIGURES[name], LINES, Result(xr.Dataset(data, coords), {}))
