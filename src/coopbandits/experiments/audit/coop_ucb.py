"""coop-UCB over whole arrays, with the deviations of the authors' published code.

None of that code was used: deviations are written from descriptions of what it does. Without them
it plays the same arms as `coopbandits.CoopUCB` on the same tapes, which a test checks.
"""

from __future__ import annotations

import math

import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.experiments.audit.tapes import Played, Setting, add_pulls, best_arms


def play_coop_ucb(setting: Setting, gamma: float, epsilon_c: Vector) -> Played:
    """Play coop-UCB with a given ε_c of every agent; return every arm played."""
    agents, arms = setting.network.num_agents, setting.problem.num_arms
    matrix = setting.network.matrix.toarray()
    mixed = np.zeros((2, arms, setting.runs, agents))
    played = np.zeros((setting.horizon, setting.runs, agents), dtype=np.int16)
    for t, drawn in enumerate(setting.tape()):
        scale = _scale(setting, gamma, t)
        chosen = np.full(drawn.shape, t)
        if t >= arms:
            chosen = best_arms(_index(mixed, scale, epsilon_c))
        add_pulls(mixed, chosen, setting.rewards(chosen, drawn), 1.0)
        played[t] = chosen
        mixed = mixed @ matrix.T
    return played


def play_coop_ucb_in_turns(setting: Setting, gamma: float, epsilon_c: Vector) -> Played:
    """Play coop-UCB agent after agent, with a mixing step of the whole network after each.

    So a round has N steps, and an agent sees what the agents before it did in the same round.
    From round to round x becomes P^N x + Σ_j P^{N−j} y_j, with y_j the pull of agent j = 0 … N−1;
    agent i reads its entry of P^i x + Σ_{j<i} P^{i−j} y_j. These maps are computed once.
    """
    agents, arms, runs = setting.network.num_agents, setting.problem.num_arms, setting.runs
    read_old, read_new, keep_old, keep_new = _turn_maps(setting.network.matrix.toarray())
    mixed = np.zeros((agents, 2, arms, runs))
    played = np.zeros((setting.horizon, runs, agents), dtype=np.int16)
    for t, drawn in enumerate(setting.tape()):
        scale = _scale(setting, gamma, t)
        seen = np.tensordot(read_old, mixed, 1).reshape(agents, -1)
        new = np.zeros_like(mixed)
        pulled = new.reshape(agents, -1)
        for i in range(agents):
            view = (seen[i] + read_new[i, :i] @ pulled[:i]).reshape(2, arms, runs)
            chosen = np.full(runs, t) if t < arms else best_arms(_index(view, scale, epsilon_c[i]))
            add_pulls(new[i], chosen, setting.rewards(chosen, drawn[:, i]), 1.0)
            played[t, :, i] = chosen
        mixed = np.tensordot(keep_old, mixed, 1) + np.tensordot(keep_new, new, 1)
    return played


def _scale(setting: Setting, gamma: float, rounds: int) -> float:
    """Return 2γσ² ln t / N."""
    logarithm = math.log(max(1, rounds))
    return 2 * gamma * setting.problem.sigma**2 * logarithm / setting.network.num_agents


def _index(mixed: Vector, scale: float, epsilon_c: Vector) -> Vector:
    """Return ŝ/n̂ + sqrt(2γσ² (n̂ + ε_c)/(N n̂) · ln t/n̂)."""
    sums, counts = mixed
    return np.asarray((sums + np.sqrt(scale * (counts + epsilon_c))) / counts)


def _turn_maps(matrix: Vector) -> tuple[Vector, Vector, Vector, Vector]:
    """Return the maps from old and new values to what agents read, and to what a round leaves."""
    agents = matrix.shape[0]
    powers = [np.eye(agents)]
    for _ in range(agents):
        powers.append(powers[-1] @ matrix)
    read_old = np.stack([powers[i][i] for i in range(agents)])
    read_new = np.zeros((agents, agents))
    for i in range(agents):
        for j in range(i):
            read_new[i, j] = powers[i - j][i, j]
    keep_new = np.stack([powers[agents - j][:, j] for j in range(agents)], axis=1)
    return read_old, read_new, powers[agents], keep_new
