"""What is kept for watching a run: pulls and rewards of every agent and arm, frame by frame.

Arms alone would not do. A result holds neither the graph nor the rewards, and a problem or a graph
of the user's own cannot be made again from its description. So all that a page shows is taken down
while these are at hand: of the first run, in frames that are shorter in the beginning. What that
takes does not grow with the horizon.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from coopbandits.core.contract import Vector
from coopbandits.network import Network
from coopbandits.problems import Problem
from coopbandits.problems.tables import OWN_GAP, Tables
from coopbandits.sim.contexts import Contexts, barred_arms
from coopbandits.sim.tapes import REWARDS, agent_keys, tape_words, variates

RUN = 0
"""The run that is taken down."""
MOST_FRAMES = 240
FEWEST_FRAMES = 24
MOST_CELLS = 20_000_000
"""Frames × N × K, where the fewest frames do not take more: 160 MB before compression."""
WATCHED = (
    "watch_pulls", "watch_rewards", "watch_regret", "watch_stages", "watch_links", "watch_changes",
    "watch_sigma", "watch_means",
)  # fmt: skip
"""What a result has besides, to be watched."""
COMPRESSED = {"zlib": True, "complevel": 4, "shuffle": True}


class Totals(NamedTuple):
    """What happened in every frame.

    Attributes
    ----------
    pulls, rewards : array of shape (frame, N, K)
        Of each agent and arm: the number of pulls, and the sum of what they paid.
    regret : array of shape (frame,)
        What the network lost so far, against each agent's own best arm of the moment.
    """

    pulls: NDArray[np.uint32]
    rewards: Vector
    regret: Vector


def frame_rounds(horizon: int, num_agents: int, num_arms: int) -> NDArray[np.int64]:
    """Return the last round of every frame: they grow longer, as less and less happens."""
    fitting = MOST_CELLS // (num_agents * num_arms)
    frames = max(FEWEST_FRAMES, min(MOST_FRAMES, fitting))
    ends = np.rint(horizon * (np.arange(1, frames + 1) / frames) ** 2)
    return np.unique(np.maximum(ends, 1.0)).astype(np.int64)


def totals(problem: Problem, tables: Tables, seed: int, arms: NDArray[np.int32]) -> Totals:
    """Add up a run by frame; `arms` (agent, round) are the problem's, −1 where none was pulled."""
    num_agents, horizon = arms.shape
    num_arms = problem.num_arms
    ends = frame_rounds(horizon, num_agents, num_arms)
    shape = (ends.size, num_agents, num_arms)
    found = Totals(np.zeros(shape, dtype=np.uint32), np.zeros(shape), np.zeros(ends.size))
    order = np.arange(num_arms)
    rows, costs = tables.ordered(order)
    contexts = Contexts(problem, tables, seed, RUN, order) if tables.in_context else None
    barred = barred_arms(tables, order)
    keys = agent_keys(seed, REWARDS, RUN, num_agents)
    first_cell = np.arange(num_agents)[:, None] * num_arms
    for frame, (start, stop) in enumerate(pairwise((0, *ends.tolist()))):
        played = arms[:, start:stop]
        pulled = played >= 0
        moved = tables.segments(np.arange(start, stop)) * num_arms
        at = (tables.places[:, None] + moved + played)[pulled]
        tape = variates(problem.variate, tape_words(keys, start, stop - start))[pulled]
        paid = problem.paid(rows, at, tape)
        lost = costs[at, OWN_GAP]
        if contexts is not None:  # rows hold noise alone, and costs nothing
            means = contexts.read(start, stop)
            own = means[pulled, played[pulled]]
            best = (means if barred is None else means + barred[:, None]).max(axis=2)
            paid, lost = paid + own, best[pulled] - own
        cells = (first_cell + played)[pulled]
        found.pulls[frame].flat[:] = np.bincount(cells, minlength=shape[1] * shape[2])
        found.rewards[frame].flat[:] = np.bincount(cells, paid, minlength=shape[1] * shape[2])
        found.regret[frame] = lost.sum()
    return found._replace(regret=found.regret.cumsum())


def surroundings(
    tables: Tables, network: Network, frames: NDArray[np.int64]
) -> dict[str, tuple[tuple[str, ...], Any]]:
    """Return what all policies share.

    That is the links, the rounds from which rewards are others, σ, and the network's true means by
    frame, unless every context has its own.
    """
    upper = sparse.triu(network.adjacency, k=1).tocoo()
    links = np.column_stack([upper.row, upper.col]).astype(np.int32)
    found: dict[str, tuple[tuple[str, ...], Any]] = {
        "watch_links": (("link", "end"), links),
        "watch_changes": (("change",), tables.changes(int(frames[-1]))),
        "watch_sigma": ((), tables.sigma),
    }
    if not tables.in_context:
        found["watch_means"] = ("frame", "arm"), tables.average[tables.segments(frames - 1)]
    return found
