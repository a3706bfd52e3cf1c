"""How trees count agents by minima."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.extrema import EXPONENTIALS, GENERATION, SETTLED, exponentials
from coopbandits.sim.cpu.inner import inner
from coopbandits.sim.cpu.leaves import copy_row
from coopbandits.sim.record import Task
from coopbandits.sim.tapes import identity_words


def first_minima(task: Task, runs: range) -> NDArray[np.float64]:
    """Return the exponentials of every agent, by which agents are counted."""
    words = [identity_words(task.seed, run, task.network.num_agents) for run in runs]
    return np.array([[exponentials(word) for word in row] for row in words])


@inner
def collect_anew(born: Any, minima: Any, spare: Any, last: Any, done: int) -> None:
    """Begin a generation of minima, or forget the count of the last; agents keep step here."""
    if done >= GENERATION and done % GENERATION == 0:
        for agent in range(last.size):
            last[agent] = max(1.0, (EXPONENTIALS - 1) / minima[agent].sum())
            copy_row(minima, agent, born)
            copy_row(spare, agent, born)
    elif done % GENERATION == SETTLED:
        last[:] = 0.0


@inner(forceinline=True)
def minima_values(done: int) -> int:
    """Return how many values minima take in a message: the first generation is not numbered."""
    return EXPONENTIALS + (1 if done >= GENERATION else 0)
