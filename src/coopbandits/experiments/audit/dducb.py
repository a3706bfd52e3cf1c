"""DDUCB over whole arrays, with the deviations of the authors' published code as data.

None of that code was used: deviations are written from descriptions of what it does. Without them
it plays the same arms as `coopbandits.DDUCB` on the same tapes, which a test checks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.core.mixing import mixing_rounds
from coopbandits.core.policies import DDUCB
from coopbandits.experiments.audit.matrices import inverse_degree_matrix, second_eigenvalue
from coopbandits.experiments.audit.mixing import chebyshev_mix
from coopbandits.experiments.audit.tapes import Arms, Played, Setting, add_pulls, best_arms
from coopbandits.network import Network

POLICY = DDUCB()


@dataclass(frozen=True)
class Deviations:
    """What the published code does differently; with all of them off it is DDUCB.

    Attributes
    ----------
    start_over_arms : bool
        α and a start at ζ/K and z/K instead of ζ/N and z/N.
    time_by_agents : bool
        s grows by N with every own pull instead of 1.
    shared_totals : bool
        After the first stage α and a are δ and d themselves, not copies, so that own pulls stay in
        them for ever and are counted again when the mixed ones arrive.
    whole_mix_every_round : bool
        All C mixing steps are made in every round of a stage instead of one.
    one_round_stages : bool
        The C steps of one round end a stage, so that everything is read one round later.
    inverse_degrees : bool
        The gossip matrix is made with D^{-1/2} where D^{1/2} belongs.
    """

    start_over_arms: bool = False
    time_by_agents: bool = False
    shared_totals: bool = False
    whole_mix_every_round: bool = False
    one_round_stages: bool = False
    inverse_degrees: bool = False


def play_dducb(setting: Setting, deviations: Deviations | None = None) -> Played:
    """Play DDUCB with its default settings; return every arm played."""
    deviations = deviations or Deviations()
    agents, arms = setting.network.num_agents, setting.problem.num_arms
    stage_map, stage_rounds = stage(setting.network, deviations)
    shape = (2, arms, setting.runs, agents)
    settled, accumulated, fresh = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    in_flight = fresh
    start = 1.0 / (arms if deviations.start_over_arms else agents)
    pulls_behind = 0
    played = np.zeros((setting.horizon, setting.runs, agents), dtype=np.int16)
    for t, drawn in enumerate(setting.tape()):
        initial = t < arms
        chosen = np.full(drawn.shape, t)
        if not initial:
            chosen = _choose(settled, agents, pulls_behind, setting.problem.sigma)
        rewards = setting.rewards(chosen, drawn)
        add_pulls(fresh, chosen, rewards, 1.0)
        add_pulls(settled, chosen, rewards, start if initial else 1.0 / agents)
        played[t] = chosen
        pulls_behind += agents if deviations.time_by_agents and not initial else 1
        if t + 1 == arms:
            in_flight, fresh = fresh, np.zeros(shape)
        elif t >= arms and (t + 1 - arms) % stage_rounds == 0:
            accumulated += in_flight @ stage_map.T
            settled = accumulated if deviations.shared_totals else accumulated.copy()
            pulls_behind = (t + 1 - stage_rounds) * agents
            in_flight, fresh = fresh, np.zeros(shape)
    return played


def _choose(settled: Vector, agents: int, pulls_behind: int, sigma: float) -> Arms:
    exploration = POLICY.bonus_constant * sigma**2 * math.log(max(2, pulls_behind))
    return best_arms(settled[0] / settled[1] + np.sqrt(exploration / agents / settled[1]))


def stage(network: Network, deviations: Deviations) -> tuple[Vector, int]:
    """Return the linear map that a stage applies to values in flight, and its length in rounds."""
    matrix, lambda2 = network.matrix.toarray(), network.lambda2
    if deviations.inverse_degrees:
        matrix = inverse_degree_matrix(network)
        lambda2 = second_eigenvalue(matrix)
    steps = mixing_rounds(network.num_agents, lambda2, POLICY.epsilon)
    stage_map = chebyshev_mix(np.eye(network.num_agents), matrix, lambda2, steps)
    if deviations.whole_mix_every_round:
        stage_map = np.linalg.matrix_power(stage_map, steps)
    return stage_map, 1 if deviations.one_round_stages else steps
